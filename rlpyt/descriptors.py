"""File descriptors with an owner, which the start of a process passes on."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

_starting = threading.local()  # of which kind, where it matters


@final
class Descriptor:
    """Closed when its owner is gone; no program that is started inherits it."""

    def __init__(self, number: int) -> None:
        # What a fork server hands over is inheritable: a simulator would keep the memory alive.
        os.set_inheritable(number, False)
        self._number = number
        self._closing = weakref.finalize(self, os.close, number)
        self._closing.atexit = False  # the system does it then

    def fileno(self) -> int:
        if not self._closing.alive:
            raise ValueError("this descriptor is closed")
        return self._number

    @property
    def closed(self) -> bool:
        return not self._closing.alive

    def close(self) -> None:
        """Close it; a second time nothing happens."""
        self._closing()

    def __reduce__(self) -> tuple[Any, ...]:
        number = self.fileno()
        if getattr(_starting, "forking", False):
            return _again, (number,)
        # Imported here: a run without processes needs none of it.
        from multiprocessing.context import get_spawning_popen
        from multiprocessing.reduction import DupFd

        if get_spawning_popen() is None:
            raise TypeError("a descriptor goes to another process only while that is started")
        duplicates = getattr(_starting, "duplicates", None)
        if duplicates is not None:
            number = os.dup(number)
            duplicates.append(number)
        return _received, (DupFd(number),)


def _again(number: int) -> Descriptor:
    """In a forked process, where the number means the same."""
    return Descriptor(os.dup(number))


def _received(passed: Any) -> Descriptor:
    return Descriptor(passed.detach())


@contextmanager
def forking() -> Iterator[None]:
    """While entered descriptors are pickled for a fork, which keeps their numbers."""
    _starting.forking = True
    try:
        yield
    finally:
        _starting.forking = False


@contextmanager
def spawning() -> Iterator[None]:
    """While entered descriptors are pickled for a new interpreter.

    It is given their numbers as they are, and none of them twice: each gets one of its own.
    """
    _starting.duplicates = []
    try:
        yield
    finally:
        for number in _starting.duplicates:
            os.close(number)
        _starting.duplicates = None
