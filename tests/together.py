"""Functions run by several ranks, each a process that has joined the others, on this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pytest

SECONDS = 90.0
"""Longer than any test needs: one that hangs fails, and leaves nobody."""


class Ended(NamedTuple):
    """What became of a rank."""

    given: Any  # what the function returned; None where it did not
    error: str  # the traceback of what it raised
    code: int | None  # exit code


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def addresses(size: int, port: int) -> dict[str, str]:
    """What torchrun sets on every rank, but for its number."""
    return {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def ended(size: int, function: Callable[..., Any], *args: Any, **options: Any) -> list[Ended]:
    """How `function(*args)` ends in each of `size` ranks.

    Args:
        options: `silent_seconds` as `ranks.Joined` takes it; `seconds` that all of it may take;
            `near`: whether what is exchanged may go through memory.
    """
    context = multiprocessing.get_context("spawn")
    seconds, port = options.pop("seconds", SECONDS), free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    processes = [
        context.Process(
            target=_rank, args=(rank, addresses(size, port), pipe, function, args, options)
        )
        for rank, (_, pipe) in enumerate(pipes)
    ]
    try:
        for process, (_, pipe) in zip(processes, pipes, strict=True):
            process.start()
            pipe.close()
        found = []
        for process, (mine, _) in zip(processes, pipes, strict=True):
            given, error = None, ""
            if not mine.poll(seconds):
                pytest.fail(f"{function.__name__} did not end in {seconds} s")
            with contextlib.suppress(EOFError):
                given, error = pickle.loads(mine.recv_bytes())
            process.join(seconds)
            found.append(Ended(given, error, process.exitcode))
        return found
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()


def in_ranks(size: int, function: Callable[..., Any], *args: Any, **options: Any) -> Sequence[Any]:
    """What `function(*args)` gives in each of `size` ranks; an error of any is one of the test."""
    found = ended(size, function, *args, **options)
    errors = [x.error or f"exit code {x.code}" for x in found if x.error or x.code]
    assert not errors, "\n".join(errors)
    return [x.given for x in found]


def _rank(
    rank: int,
    env: dict[str, str],
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    os.environ |= {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.path.insert(0, os.path.dirname(__file__))
    import torch

    from rlpyt.ranks import meeting, nearby
    from rlpyt.ranks.joined import Joined

    torch.set_num_threads(1)
    if not options.pop("near", True):
        nearby.machine = lambda: None
    if options:
        meeting._joined = Joined(**options)
    code = 0
    try:
        with meeting.together():
            pipe.send_bytes(pickle.dumps((function(*args), "")))
    except BaseException:
        pipe.send_bytes(pickle.dumps((None, traceback.format_exc())))
        code = 1
    pipe.close()
    meeting._leave()
    os._exit(code)
