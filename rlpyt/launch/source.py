"""Where a queue's jobs come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Record, State
from rlpyt.launch.progress import Progress


class Source(Protocol):
    """Where jobs come from that are not known from the beginning, and who watches all of them."""

    def begin(self, records: dict[str, Record], say: Callable[[str], None]) -> Sequence[Job]:
        """Take up what an earlier queue left; returns the jobs that are to go on."""
        ...

    def next(self) -> Job | None:
        """A job to start now; None where there is none now."""
        ...

    def more(self) -> bool:
        """Whether there may be another job later."""
        ...

    def seen(self, job: Job, progress: Progress) -> bool:
        """Take a look at a job that runs; True ends it."""
        ...

    def ended(self, job: Job, state: State, progress: Progress) -> None:
        """Hear that a job will not run again."""
        ...


class NoMore:
    """The source of a queue whose jobs are all known."""

    def begin(self, records: dict[str, Record], say: Callable[[str], None]) -> Sequence[Job]:
        return []

    def next(self) -> Job | None:
        return None

    def more(self) -> bool:
        return False

    def seen(self, job: Job, progress: Progress) -> bool:
        return False

    def ended(self, job: Job, state: State, progress: Progress) -> None:
        pass
