"""The errors a user meets: their own mistake, an environment's, and a process that is no more."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class UsageError(ValueError):
    """An option, environment or file that cannot work; the message names value, rule and remedy.

    The command line prints it without a traceback and exits with code 2.
    """


class EnvironmentFault(RuntimeError):
    """An environment broke its contract; the message names environment, step and field."""


class WorkerError(RuntimeError):
    """A process of the run ended, failed or did not answer.

    Args:
        worker: its name.
        how: "was killed by SIGKILL (-9; out of memory?)".
        columns: of the environments that it stepped.
        pid: its number.
        traceback: as text, written by the process itself; "" where it could not.
    """

    def __init__(
        self, worker: str, how: str, columns: Sequence[int] = (), pid: int = 0, traceback: str = ""
    ) -> None:
        super().__init__(worker, how, columns, pid, traceback)
        self.worker, self.how, self.columns = worker, how, tuple(columns)
        self.pid, self.traceback = pid, traceback

    @property
    def message(self) -> str:
        """One line."""
        parts = [f"pid {self.pid}"] if self.pid else []
        if self.columns:
            several = "s" if len(self.columns) > 1 else ""
            parts.append(f"environment{several} {_ranges(self.columns)}")
        who = f"{self.worker} ({', '.join(parts)})" if parts else self.worker
        return f"{who} {self.how}"

    def __str__(self) -> str:
        return f"{self.message}\n\n{self.traceback}" if self.traceback else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.worker, self.how, self.columns, self.pid, self.traceback)


class RankError(RuntimeError):
    """Another process that trains the same agent failed, or is gone.

    Args:
        who: it is; or all that there is to say.
        traceback: of what it failed of, as text, written by that process.
    """

    def __init__(self, who: str, traceback: str = "") -> None:
        super().__init__(who, traceback)
        self.who, self.traceback = who, traceback

    def __str__(self) -> str:
        return f"{self.who} failed\n\n{self.traceback}" if self.traceback else self.who


def _ranges(numbers: Sequence[int]) -> str:
    """Increasing numbers as "0 to 3, 8 to 11"."""
    ends = [i for i, n in enumerate(numbers) if tuple(numbers[i + 1 : i + 2]) != (n + 1,)]
    begins = [0, *(i + 1 for i in ends[:-1])]
    pairs = ((numbers[i], numbers[j]) for i, j in zip(begins, ends, strict=True))
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in pairs)


def warn_beside(text: str) -> None:
    """Warn of what failed while something was closed; it hides no error that is under way.

    Where warnings are errors it becomes a note of that one.
    """
    first = sys.exc_info()[1]
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        if first is None:
            raise
        first.add_note(text)


def reason_of(error: OSError) -> str:
    """What the system says of an error, and the remedy where a limit of the process is behind."""
    if error.errno == errno.EFBIG:
        return f"{error.strerror}: raise the limit of a file's size (ulimit -f unlimited)"
    return error.strerror or str(error)


def from_here(path: Path) -> Path:
    """A path as it would be typed: from the working directory, where it lies below that."""
    with suppress(ValueError, OSError):  # it lies elsewhere; the directory is no more
        return path.relative_to(Path.cwd())
    return path


class WaitedTooLong(TimeoutError):
    """What was waited for did not come in time."""


class StopAsked(RuntimeError):
    """Something was left unfinished because the run was asked to stop.

    Args:
        text: what.
        asked: where another rank was: "interrupted" or "terminated".
    """

    def __init__(self, text: str, asked: str = "") -> None:
        super().__init__(text)
        self.asked = asked
