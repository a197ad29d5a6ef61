"""Ends this process where an environment that it steps itself does not return."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, Self, final

import numpy as np

from rlpyt import stopping, torchrun
from rlpyt.errors import StopAsked, UsageError
from rlpyt.processes import stacks
from rlpyt.processes.heart import MAKE, Heart
from rlpyt.processes.wait import GRACE, LOOK
from rlpyt.samplers.options import START_LIMIT, STEP_LIMIT
from rlpyt.vector.in_process import InProcess

_FAST = 100  # calls a second, from which on one beat a row is enough to tell slow from hanging
_STDERR = 2
_LATER = 2.0  # seconds after which the process is ended without Python's help


@final
class Watchdog:
    """Watches the heart of environments, from a thread, while it is entered.

    A call that takes too long cannot be given up: the process dumps its stacks and exits with
    code 1, or with that of the signal by which it was asked to stop. Where a loop in C keeps this
    thread from running as well, faulthandler does that, which the thread sets anew each second that
    it runs.

    Time in which the process was suspended is none of a call's. faulthandler cannot know that: it
    is called off before SIGTSTP (Ctrl-Z; schedulers send it before they suspend a job) stops the
    process. A bare SIGSTOP that lasts longer than a call may does end it.

    Args:
        seconds: that one call may take.
        making: the heart of environments that are being made, of which the first is now; `seconds`
            is what making each may take.
    """

    def __init__(self, seconds: float, making: Heart | None = None) -> None:
        self.seconds, self._making = seconds, making is not None
        self.heart = making or Heart(np.zeros(8, np.int64))
        self._watched: list[InProcess] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._folder: Path | None = None
        self._first: BaseException | None = None  # of which the run ends
        self._main = threading.get_ident()
        self._arming = threading.RLock()  # held while the process is suspended
        self._suspending: Any = None  # the handler of SIGTSTP before

    def watch(self, envs: InProcess) -> None:
        """Environments that were made with this heart."""
        self._watched.append(envs)

    def closing(self) -> Watchdog:
        """Another one, to be entered while the same environments are closed.

        If that does not end, an error that is under way is shown: nobody else can by then.
        """
        dog = Watchdog(self.seconds)
        dog.heart, dog._watched, dog._folder = self.heart, self._watched, self._folder
        dog._first = sys.exc_info()[1]
        return dog

    def __call__(self, folder: Path) -> Self:
        """The same, with the run's folder, into which stacks are written."""
        self._folder = folder
        return self

    def __enter__(self) -> Self:
        self._main = threading.get_ident()
        here = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGTSTP")
        if here and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            self._suspending = signal.signal(signal.SIGTSTP, self._suspend)
        if self._making:
            self.heart.beat(0, MAKE)
        self._arm()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(_LATER)
        faulthandler.cancel_dump_traceback_later()
        if self._suspending is not None:
            signal.signal(signal.SIGTSTP, self._suspending)
            self._suspending = None
        if self._making:
            self.heart.rest()

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Stop this process as it would have been without this handler."""
        with self._arming:
            faulthandler.cancel_dump_traceback_later()
            os.kill(os.getpid(), signal.SIGSTOP)

    def _arm(self) -> None:
        """Have the process end where this thread cannot run; not if it steps no environment."""
        if self._watched or self._making:
            with self._arming:
                later = self.seconds + _LATER
                faulthandler.dump_traceback_later(later, exit=True, file=_STDERR)

    def _run(self) -> None:
        every, beats, since = min(1.0, self.seconds / 4), -1, time.monotonic()
        before = since
        while not self._ended.wait(every):
            now, here = time.monotonic(), self.heart.beats
            if (gap := now - before) > every + LOOK:  # the process was suspended
                since += gap
                self._arm()
            before = now
            if here != beats or not str(self.heart):
                if beats >= 0 and here - beats > _FAST * (now - since):
                    for envs in self._watched:
                        envs.beat_by_row()
                beats, since = here, now
                self._arm()
            elif now - since > self.seconds:
                self._end(self.seconds)
            elif (asked := stopping.asked_at()) is not None and now - max(asked, since) > GRACE:
                self._end(now - since)

    def _end(self, seconds: float) -> None:
        column = self._column()
        where = str(self.heart) if column is None else f"environment {column}"
        text = f"rlpyt: {where} did not return for {seconds:.3g} s; the run ends"
        if stopping.asked_at() is None:  # else it was not given all of the time
            limit = START_LIMIT if self._making else STEP_LIMIT
            text += f". {limit} sets how long it may take"
        if self._folder is not None:
            stacks.note(self._folder / "stacks", [text])
            how = torchrun.resuming(self._folder, torchrun.expected())
            text += f"; stacks are in {self._folder / 'stacks'}. {how} goes on from the newest "
            text += "checkpoint"
        shows = "\x1b[?25h" if sys.stdout is not None and sys.stdout.isatty() else ""  # the cursor
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        if self._first is not None:
            traceback.print_exception(self._first)
        print(f"{shows}\n{text}", file=sys.stderr, flush=True)  # what matters most comes last
        if torchrun.met:
            _tell_ranks(text)
        os._exit(stopping.exit_code())

    def _column(self) -> int | None:
        """Whose step the main thread is in, as its stack says."""
        frame: FrameType | None = sys._current_frames().get(self._main)
        while frame is not None:
            if frame.f_code is InProcess.send.__code__:
                there: Any = frame.f_locals
                return there["self"].column(there.get("b", 0))
            frame = frame.f_back
        return None


def _tell_ranks(text: str) -> None:
    """Say to the other ranks why this one ends; their store may not answer, and nobody waits."""
    from rlpyt.ranks import world  # which imports PyTorch, as workers do not

    error = StopAsked(text) if stopping.asked_by() else UsageError(text)
    told = threading.Thread(target=world().failed, args=(error,), daemon=True)
    told.start()
    told.join(_LATER)
