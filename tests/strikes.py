"""Strikes at the fault points of the code that writes files: a kill, or a disk without space."""

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

from rlpyt import faultpoints


def places(work: Callable[[], Any]) -> list[str]:
    """The fault points that `work` passes, in order."""
    passed: list[str] = []
    faultpoints.plan = passed.append
    work()
    faultpoints.plan = None
    return passed


def at_place(number: int, strike: Callable[[], Any]) -> None:
    """From now on, strike at the fault point of this number."""
    left = number

    def plan(name: str) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            strike()

    faultpoints.plan = plan


def killed(number: int, work: Callable[[], Any]) -> bool:
    """Fork; the child does `work` and is killed at fault point `number`, if it gets there."""
    child = os.fork()
    if child == 0:
        at_place(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        try:
            work()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
