"""The errors a user meets: their own mistake, an environment's, and a process that is no more."""

from __future__ import annotations

from collections.abc import Sequence
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
            first, last = self.columns[0], self.columns[-1]
            one = len(self.columns) == 1
            parts.append(f"environment {first}" if one else f"environments {first} to {last}")
        return (
            f"{self.worker} ({', '.join(parts)}) {self.how}"
            if parts
            else f"{self.worker} {self.how}"
        )

    def __str__(self) -> str:
        return f"{self.message}\n\n{self.traceback}" if self.traceback else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.worker, self.how, self.columns, self.pid, self.traceback)


class WaitedTooLong(TimeoutError):
    """What was waited for did not come in time."""


class StopAsked(RuntimeError):
    """Something was left unfinished because the run was asked to stop."""
