"""A child as others see it: what it does, how it ended, and its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, final

from rlpyt.descriptors import Descriptor
from rlpyt.errors import WorkerError
from rlpyt.processes import ending, server, stacks
from rlpyt.processes.bell import Bell
from rlpyt.processes.box import Box
from rlpyt.processes.control import Control

_REAP = 5.0  # seconds for the system to take a killed process away


@final
class Child:
    """Another process of the run, as seen by the one that started it, or by one that was given it.

    Handed to a third process it can be watched, asked and blamed there, but not ended.

    Attributes:
        name, pid, columns: as started; columns are those of the environments that it steps.
        sentinel: descriptor that becomes readable when the process ends.
        bell: wakes it.
        heart: its last beat.
        control: a pipe to it for what is not a row.
    """

    def __init__(
        self,
        name: str,
        pid: int,
        columns: tuple[int, ...],
        ends: Descriptor,
        bell: Bell,
        box: Box,
        pipe: Descriptor,
        process: BaseProcess | None = None,
        folder: Path | None = None,
        watch: Callable[[], object] | None = None,
        mark: str = "",
    ) -> None:
        self.name, self.pid, self.columns = name, pid, columns
        self.bell, self.box, self.heart = bell, box, box.heart
        self.control = Control(pipe, name, watch or self.look)
        self._ends, self._pipe, self._process, self._folder = ends, pipe, process, folder
        self._mark = mark  # of what it starts, until that is ended
        self.stacks_when_hung = ""

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.name, self.pid, self.columns, self._ends, self.bell, self.box, self._pipe
        return Child, kept

    @property
    def sentinel(self) -> int:
        return self._ends.fileno()

    def alive(self) -> bool:
        return not self._ends.closed and not ending.ready([self.sentinel])

    def ended(self) -> str | None:
        """None while it lives, or how it ended: "was killed by SIGKILL (-9; out of memory?)"."""
        if self.alive():
            return None
        if self.box.finished:
            return "has finished"
        if self._process is None:
            return "has ended"
        return ending.how(self._exit_code())

    def failure(self) -> str | None:
        """The traceback that it left, as text."""
        failure = self.box.failure
        return failure and failure[1]

    def look(self) -> None:
        """Raise WorkerError if it failed, is blamed, or ended without having finished."""
        if self.box.troubled or not self.alive():
            error = self.error()
            if error is not None:
                raise error

    def error(self) -> WorkerError | None:
        """What is wrong with it; None if nothing is."""
        failure, blamed = self.box.failure, self.box.blamed
        if failure is not None:
            summary, text = failure
            return self._error(f"failed: {summary}{self._doing()}", text)
        if blamed is not None:
            return self._error(blamed, self.stacks_when_hung)
        ended = self.ended()
        if ended is None or self.box.finished:
            return None
        crash = stacks.crash(self._folder, self.name, self.pid) if self._folder else ""
        return self._error(f"{ended}{self._doing()}", crash)

    def blame(self, how: str) -> WorkerError:
        """Say what is wrong with it to the process that can end it; returned to be raised."""
        self.box.blame(how)
        return self._error(how, "")

    def kill(self) -> None:
        """End it with everything that it started; bounded, and harmless when repeated."""
        self.strike()
        self.reap()
        end_strays([self])

    def strike(self) -> None:
        """Send the signal that ends it."""
        process = self._process
        if process is None:
            raise RuntimeError(f"only the process that started {self.name} can end it")
        if not self.alive():
            return
        if hasattr(signal, "pidfd_send_signal"):  # its number could be another's by now
            with suppress(OSError):
                signal.pidfd_send_signal(self.sentinel, signal.SIGKILL)
        else:
            process.kill()
        ending.kill_group(self.pid)

    def reap(self) -> None:
        """Wait for the end of what was struck, and end what it left behind."""
        if self._process is None or self._ends.closed:
            return
        self._process.join(_REAP)
        if not _exists(self.pid):  # else it is somebody new, or not to be ended
            ending.kill_group(self.pid)

    def close(self) -> None:
        """Kill it if it lives and give back what was held for it."""
        self.kill()
        if self._ends.closed or self._process is None:
            return
        for part in (self._ends, self._pipe, self.bell, self.box.memory):
            part.close()
        with suppress(ValueError):  # the system has not let it go in time
            self._process.close()

    def take_mark(self) -> str:
        """The mark of what it has started and nobody ended yet; "" from the second time on."""
        mark, self._mark = self._mark, ""
        return mark

    def _doing(self) -> str:
        doing = str(self.heart)
        return f" ({doing})" if doing else ""

    def _exit_code(self) -> int | None:
        process = self._process
        assert process is not None
        with suppress(ValueError):  # closed
            process.join(1.0)  # it is no more; only the news may be under way
            code = process.exitcode
            if code == 255 and not server.server_lives():  # which is how multiprocessing says it
                return None
            return code
        return None

    def _error(self, how: str, text: str) -> WorkerError:
        return WorkerError(self.name, how, self.columns, self.pid, text)


def end_strays(children: Iterable[Child]) -> None:
    """End what children that are no more have started and that left their groups."""
    if marks := [mark for child in children if (mark := child.take_mark())]:
        ending.kill_marked(marks)


def ends_of(process: BaseProcess) -> Descriptor:
    """What becomes readable when a process ends."""
    with suppress(AttributeError, OSError):  # no such call; it has ended already
        return Descriptor(os.pidfd_open(process.pid or 0))
    return Descriptor(os.dup(process.sentinel))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
