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
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import pytest
from forked import Streams, become, start

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
            `near`: whether what is exchanged may go through memory; `beat`: seconds between the
            beats of a heart, by which every other wait is shorter as well.
    """
    seconds, port = options.pop("seconds", SECONDS), free_port()
    given = [{**addresses(size, port), "RANK": str(r), "LOCAL_RANK": str(r)} for r in range(size)]
    return _ends(given, seconds, _rank, function, args, options)


def in_ranks(size: int, function: Callable[..., Any], *args: Any, **options: Any) -> Sequence[Any]:
    """What `function(*args)` gives in each of `size` ranks; an error of any is one of the test."""
    found = ended(size, function, *args, **options)
    errors = [x.error or f"exit code {x.code}" for x in found if x.error or x.code]
    assert not errors, "\n".join(errors)
    return [x.given for x in found]


def in_process(env: dict[str, str], function: Callable[..., Any], *args: Any) -> Ended:
    """How `function(*args)` ends in a process with these variables, which joins nobody."""
    return _ends([env], SECONDS, _call, function, args)[0]


def _ends(given: Sequence[dict[str, str]], seconds: float, run: Any, *args: Any) -> list[Ended]:
    """How `run(*args)` ends in processes with these variables beside those that are here."""
    pipes = [multiprocessing.Pipe(duplex=False) for _ in given]
    processes: list[BaseProcess] = []
    try:
        for env, (_, pipe) in zip(given, pipes, strict=True):
            started = start(run, {**os.environ, **env}, pipe, Streams(), *args)
            processes.append(started)
            pipe.close()
        found = []
        for process, (mine, _) in zip(processes, pipes, strict=True):
            value, error = None, ""
            if not mine.poll(seconds):
                pytest.fail(f"{args[0].__name__} did not end in {seconds} s")
            with contextlib.suppress(EOFError):
                value, error = pickle.loads(mine.recv_bytes())
            process.join(seconds)
            found.append(Ended(value, error, process.exitcode))
        return found
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()


def _call(
    env: dict[str, str], pipe: Connection, _: Streams, function: Callable[..., Any], args: Any
) -> None:
    """Tell what a function gives, or the traceback of what it raises."""
    become(env)
    code = 0
    try:
        pipe.send_bytes(pickle.dumps((function(*args), "")))
    except BaseException:
        pipe.send_bytes(pickle.dumps((None, traceback.format_exc())))
        code = 1
    pipe.close()
    sys.stderr.flush()
    os._exit(code)


def _rank(
    env: dict[str, str],
    pipe: Connection,
    _: Streams,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    become(env)
    import torch

    from rlpyt.ranks import hearts, joined, meeting, nearby

    torch.set_num_threads(1)
    if not options.pop("near", True):
        nearby.machine = lambda: None
    if beat := options.pop("beat", None):
        own: Any = hearts
        theirs: Any = joined
        own.END_SECONDS *= beat / own.BEAT_SECONDS
        own.BEAT_SECONDS = theirs.BEAT_SECONDS = beat
    if options:
        meeting._joined = joined.Joined(**options)
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
