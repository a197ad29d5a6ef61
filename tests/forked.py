"""Processes of tests, forked from a server that has imported PyTorch and the package.

`rlpyt.processes` forks workers in the same way. One that imported them for itself would begin 2 s
later, of which no test shows anything that others do not.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import forkserver, reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from rlpyt.processes.server import THREADS

TESTS = Path(__file__).parent
PRELOADED = [
    "together",
    "torch.distributed",
    "rlpyt.__main__",
    "rlpyt.cli.train",
    "small_runs",
    "small_parts",
    "small_q_value",
    "small_q",
]
_server = forkserver.ForkServer()  # not the one that the package uses, which tests kill


class Streams:
    """Standard output and error of the process that this is sent to: by default those of here."""

    def __init__(self, out: int = 1, err: int = 2) -> None:
        self._numbers = out, err

    def __reduce__(self) -> Any:
        return _take_streams, tuple(reduction.DupFd(number) for number in self._numbers)


def _take_streams(*sent: Any) -> Streams:
    for number, stream in enumerate(sent, 1):
        os.dup2(stream.detach(), number)
    return Streams()


def start(target: Callable[..., object], *args: Any) -> BaseProcess:
    """A process that calls `target(*args)`."""
    with pytest.MonkeyPatch.context() as patch:
        for name in THREADS:  # a server with threads cannot be forked from
            patch.setenv(name, "1")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))
        _server.set_forkserver_preload(PRELOADED)
        _server.ensure_running()
        patch.setattr(forkserver, "connect_to_new_process", _server.connect_to_new_process)
        process = multiprocessing.get_context("forkserver").Process(target=target, args=args)
        process.start()
    return process


def become(environ: dict[str, str]) -> None:
    """Have these variables and no others."""
    os.environ.clear()
    os.environ.update(environ)


class Command:
    """A command line of rlpyt, as `python -m rlpyt` runs it; used as a `subprocess.Popen` is.

    It is killed, if it still runs, where its context is left.

    Args:
        argv: the words behind `rlpyt`.
        before: called there first; a function of a module.
    """

    def __init__(self, *argv: str, before: Callable[[], object] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._process = start(_command, dict(os.environ), self._folder, argv, before)
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"it did not end in {timeout} s"
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has written to standard output and error."""
        self.wait(timeout)
        return (self._folder / "out").read_text(), (self._folder / "err").read_text()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._process.join(10)
        shutil.rmtree(self._folder)


def _command(
    environ: dict[str, str],
    folder: Path,
    argv: tuple[str, ...],
    before: Callable[[], object] | None,
) -> None:
    for number, name in enumerate(("out", "err"), 1):
        with open(folder / name, "wb") as file:
            os.dup2(file.fileno(), number)
    become(environ)
    from rlpyt.__main__ import run

    if before is not None:
        before()
    sys.argv = ["rlpyt", *argv]
    run()
