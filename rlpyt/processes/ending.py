"""How processes end: with the main process, by force, and what is said of it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

_HINTS = {
    signal.SIGKILL: "; out of memory?",
    signal.SIGBUS: "; no shared memory left?",
    signal.SIGSEGV: "; a crash in native code",
    signal.SIGABRT: "; native code gave up",
}
_PR_SET_PDEATHSIG = 1
MARK = "RLPYT_CHILD"
"""In the environment of whatever a child starts: by it are found what left the child's group."""


def how(code: int | None) -> str:
    """An exit code in words, to follow a name."""
    if code is None:
        return "ended, and its exit code is not known"
    if code >= 0:
        return f"exited with code {code} unexpectedly"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name} ({code}{_HINTS.get(-code, '')})"  # type: ignore[call-overload]


def ready(numbers: Sequence[int], seconds: float = 0.0) -> list[int]:
    """Which of the descriptors become readable, or closed at their other end, in `seconds`."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    return [number for number, _ in poll.poll(seconds * 1000)]


def kill_group(pid: int) -> None:
    """End a child and everything that it started; nothing happens if all are gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_marked(marks: Collection[str]) -> None:
    """End what children have started in sessions of their own, as some simulators are.

    Args:
        marks: of the children; see MARK. Where there is no /proc nothing is found.
    """
    wanted, here = {f"{MARK}={mark}".encode() for mark in marks}, os.getpid()
    with suppress(FileNotFoundError):
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            with suppress(OSError):  # it has ended, or is another user's
                content = Path(f"/proc/{pid}/environ").read_bytes()
                if pid != here and not wanted.isdisjoint(content.split(b"\0")):
                    os.kill(pid, signal.SIGKILL)


def lead_group() -> None:
    """Make this process the first of a group: killed together, and out of the terminal's reach."""
    with suppress(PermissionError):  # it leads a session already
        os.setpgid(0, 0)


def end_with(pipe: int) -> None:
    """Let the kernel kill this process and its group when the other end of a pipe is closed.

    It does so also while a loop in C holds the interpreter's lock.

    Args:
        pipe: whose other end only the main process holds.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a system that only resembles Linux
            fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if ready([pipe]):  # it was closed before
        kill_group(os.getpgrp())


def end_after(main: int) -> None:
    """Kill this process and its group when the main one ends; needs the interpreter.

    Args:
        main: becomes readable then.
    """
    threading.Thread(target=_kill_after, args=(main,), daemon=True, name="main alive?").start()


def end_with_parent() -> None:
    """Let the end of the fork server kill this process: nobody could tell how it ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _kill_after(main: int) -> None:
    while not ready([main], 60.0):
        pass
    kill_group(os.getpgrp())
