"""Ends this process where an environment that it steps itself does not return."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Self, final

import numpy as np

from rlpyt import stopping
from rlpyt.processes import stacks
from rlpyt.processes.heart import Heart
from rlpyt.processes.wait import GRACE
from rlpyt.vector.in_process import InProcess

_FAST = 100  # calls a second, from which on one beat a row is enough to tell slow from hanging
_STDERR = 2
_LATER = 2.0  # seconds after which the process is ended without Python's help


@final
class Watchdog:
    """Watches the heart of environments, from a thread, while it is entered.

    A call that takes too long cannot be given up: the process dumps its stacks and exits with
    code 1. Where a loop in C keeps this thread from running as well, faulthandler does that, which
    the thread sets anew each second that it runs.

    Args:
        seconds: that one call may take.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.heart = Heart(np.zeros(8, np.int64))
        self._watched: list[InProcess] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._folder: Path | None = None
        self._main = threading.get_ident()

    def watch(self, envs: InProcess) -> None:
        """Environments that were made with this heart."""
        self._watched.append(envs)

    def __call__(self, folder: Path) -> Self:
        """The same, with the run's folder, into which stacks are written."""
        self._folder = folder
        return self

    def __enter__(self) -> Self:
        self._main = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(_LATER)
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        every, beats, since = min(1.0, self.seconds / 4), -1, time.monotonic()
        while not self._ended.wait(every):
            now, here = time.monotonic(), self.heart.beats
            if here != beats or not str(self.heart):
                if beats >= 0 and here - beats > _FAST * (now - since):
                    for envs in self._watched:
                        envs.beat_by_row()
                beats, since = here, now
                later = self.seconds + _LATER
                faulthandler.dump_traceback_later(later, exit=True, file=_STDERR)
            elif now - since > self.seconds:
                self._end(self.seconds)
            elif (asked := stopping.asked_at()) is not None and now - max(asked, since) > GRACE:
                self._end(now - since)

    def _end(self, seconds: float) -> None:
        column = self._column()
        where = str(self.heart) if column is None else f"environment {column}"
        text = f"rlpyt: {where} did not return for {seconds:.3g} s; the run ends"
        if self._folder is not None:
            stacks.note(self._folder / "stacks", [text])
            text += f"; stacks are in {self._folder / 'stacks'}. rlpyt resume {self._folder} goes "
            text += "on from the newest checkpoint"
        shows = "\x1b[?25h" if sys.stdout is not None and sys.stdout.isatty() else ""  # the cursor
        print(f"{shows}\n{text}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        os._exit(1)

    def _column(self) -> int | None:
        """Whose step the main thread is in, as its stack says."""
        frame: FrameType | None = sys._current_frames().get(self._main)
        while frame is not None:
            if frame.f_code is InProcess.send.__code__:
                there: Any = frame.f_locals
                return there["self"].column(there.get("b", 0))
            frame = frame.f_back
        return None
