"""What a queue shows of its jobs: how far they are, and how long they still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rlpyt.launch import estimate
from rlpyt.launch.attempt import Attempt
from rlpyt.launch.journal import Record
from rlpyt.launch.progress import EVALUATION, Log, Progress
from rlpyt.launch.table import Row, Screen, summary

Running = Mapping[str, Attempt]  # by the name of the job


class Shown:
    """What is shown of jobs, read from their logs.

    Args:
        folder: the sweep's.
        records: what became of the jobs; more may come.
        screen: shows them.
        column: of progress.csv, which `Progress.curve` follows.
    """

    def __init__(
        self, folder: Path, records: dict[str, Record], screen: Screen, column: str = EVALUATION
    ) -> None:
        self._folder, self._records, self._screen, self._column = folder, records, screen, column
        self._logs: dict[str, Log] = {}

    def progress(self, name: str) -> Progress:
        """How far a job is."""
        return self._logs.setdefault(name, Log(self._folder / name, self._column)).read()

    def ended(self, name: str, running: Running, slots: int) -> None:
        """Show an end, beside those that run on."""
        counts = Counter(record.state for record in self._records.values())
        self._screen.ended(self._row(name, running), counts, self._left(running, slots))

    def draw(self, running: Running, slots: int, seconds: float) -> None:
        """Redraw the table, where there is one.

        Args:
            seconds: since the first job could begin.
        """
        if self._screen.live:
            rows = [self._row(name, running) for name in self._records]
            self._screen.draw(rows, summary(rows, seconds, self._left(running, slots)))

    def _row(self, name: str, running: Running) -> Row:
        record, attempt = self._records[name], running.get(name)
        progress = Progress() if record.state == "queued" else self.progress(name)
        return Row(record, progress, attempt and self._left_of(name, attempt))

    def _left(self, running: Running, slots: int) -> float | None:
        theirs = {name: (self._left_of(name, x), x.seconds) for name, x in running.items()}
        return estimate.of_all(self._records.values(), theirs, slots)

    def _left_of(self, name: str, attempt: Attempt) -> float | None:
        now, total = self.progress(name).env_steps, self._records[name].job.env_steps
        return estimate.of_run(now - attempt.steps_then, total - now, attempt.seconds)
