"""Ctrl-C and SIGTERM: the first asks the run to save and end, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_asked_at: float | None = None
_asked_by = 0
_told: Callable[[], bool] | None = None  # by another process


def asked_at() -> float | None:
    """When (`time.monotonic`) the run was asked to stop; None: it was not, or it has ended."""
    return _asked_at


def is_asked() -> bool:
    """Whether this process is to stop: by a signal, or by the word of the one that started it."""
    return _asked_at is not None or (_told is not None and _told())


def listen_to(told: Callable[[], bool]) -> None:
    """Have another process say whether this one is to stop.

    Args:
        told: cheap, and called often.
    """
    global _told
    _told = told


def asked_by() -> str:
    """What the run that was asked to stop is to be called; "" where it was not."""
    return "" if _asked_at is None else NAMES[signal.Signals(_asked_by)]


def exit_code() -> int:
    """What a run that was asked to stop exits with, as shells say it: 130 or 143; else 1."""
    return 1 if _asked_at is None else 128 + _asked_by


class StopSignal:
    """Holds the first signal's name while entered; previous handlers return on leaving.

    Outside the main thread Python delivers no signals: nothing is installed there.

    Args:
        echo: seconds in which a signal is no second one: torchrun sends a Ctrl-C on to processes
            that have it from the terminal.
    """

    def __init__(self, echo: float = 0.0) -> None:
        self._echo = echo
        self.name = ""  # "interrupted", "terminated", or "" while nothing came
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in NAMES:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def hold(self) -> None:
        """Take back the signals for which somebody, a simulator say, has other handlers by now."""
        for number in self._previous:
            if signal.getsignal(number) != self._handle:
                signal.signal(number, self._handle)

    def __exit__(self, *error: object) -> None:
        global _asked_at
        _asked_at = None
        for number, handler in self._previous.items():
            # None: it was not Python that installed the handler, and it cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        global _asked_at, _asked_by
        if _asked_at is not None and time.monotonic() - _asked_at < self._echo:
            return
        if self.name:
            _show_cursor()
            os._exit(128 + number)
        _asked_at, _asked_by = time.monotonic(), number
        self.name = NAMES[signal.Signals(number)]


def _show_cursor() -> None:
    """Give a terminal its cursor back, which a live display hides and can no longer show."""
    for stream in (1, 2):
        if os.isatty(stream):
            os.write(stream, b"\x1b[?25h\n")
            return
