"""Environments that worker processes step, and this one answers.

A row is asked for by its number and given by its number: the rows themselves lie where both sides,
and the learner, see them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, final

import numpy as np

from rlpyt.errors import warn_beside
from rlpyt.rows import Row
from rlpyt.samplers.options import SamplerOptions
from rlpyt.vector.driver import Driver
from rlpyt.vector.in_process import Ended, InProcess
from rlpyt.vector.lost import Blank, lost
from rlpyt.vector.staff import Staff


@final
class WorkerEnvironments:
    """B environments in worker processes behind `reset`, `send` and `recv`, in groups.

    Args:
        staff: has the workers, which are started when they are first needed.
        window: whose rows are written; `boundary` is asked of it.
        limits: time-outs, and what a failure means.
        tell: what is said of a slow start.
    """

    def __init__(
        self,
        staff: Staff,
        window: Any,
        limits: SamplerOptions,
        tell: Callable[[str], object] = warnings.warn,
    ) -> None:
        self.spec, self.num_envs = staff.spec, window.num_envs
        groups = self._columns = staff.groups
        self.groups = tuple(slice(columns.start, columns.stop) for columns in groups)
        self._window, self._blank = window, Blank(staff.spec)
        self._driver = Driver(staff, limits, tell, self._forget)
        self._tells = limits.on_worker_failure != "raise"
        self._sent: list[Any] = [None for _ in groups]  # the rows that were answered last
        self._ended: list[list[tuple[int, dict[str, float]]]] = [[] for _ in groups]
        self._line = time.perf_counter(), np.zeros(0)  # of the log before: when, and who was busy

    def reset(self, row: Row) -> None:
        """Have the first observation of every column written, reset 0 of each."""
        driver, handover = self._driver, self._driver.handover
        for g in range(len(self.groups)):  # what was asked for before is asked for no more
            handover.asked[g] = 0
            for given in handover.given:
                given[g] = 0
            self._sent[g] = None
        driver.ask("reset", dict.fromkeys(driver.working))
        for g in range(len(self.groups)):
            handover.asked[g] = 1  # a worker that took another's place begins by itself
            self.recv(row[self.groups[g]], g)

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Ask for the row after a group's, which has been answered."""
        self._sent[group] = row
        self._driver.ask_row(group)

    def recv(self, row: Row, group: int = 0) -> Ended:
        """Wait for what was asked for; the columns of the group whose episodes ended there."""
        driver = self._driver
        driver.receive_row(group)
        handover = driver.handover
        if len(driver.working) < handover.workers:
            self._leave_empty(row, group)
        for i in driver.working:
            if handover.told[i] != handover.heard[i]:
                self._hear(i)
        if not self._ended[group]:
            return ()
        ended, self._ended[group] = self._ended[group], []
        return ended

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on exactly, in the form that InProcess has of all columns."""
        driver = self._driver
        handover, posts = driver.handover, driver.workers.posts
        answers = driver.ask("snapshot", dict.fromkeys(driver.working))
        parts = []
        for g in range(len(self.groups)):
            for post in posts:
                own = post.columns[g]
                gone = lost(handover.resets[own.start : own.stop].copy())
                parts.append(answers[post.number][g] if post.number in answers else gone)
        return InProcess.merged(parts)

    def restore(self, state: dict[str, Any], row: Row) -> list[int]:
        """Bring every environment to where `row` arrived; returns the columns that were cut."""
        driver, n, given = self._driver, self._window.boundary, {}
        for post in driver.workers.posts:
            own = [slice(columns.start, columns.stop) for columns in post.columns]
            given[post.number] = [InProcess.part_of(state, columns) for columns in own], n
        answers = driver.ask("restore", given)
        if len(answers) < len(given):
            raise RuntimeError("a worker failed while it restored its environments")
        for g in range(len(self.groups)):
            driver.handover.asked[g] = n + 1
        return sorted(b for answer in answers.values() for cut in answer for b in cut)

    def metrics(self) -> dict[str, float]:
        """What a line of the log says of workers, since the line before.

        `workers/slowest` is the one whose environments took longest, `workers/slowest_share` the
        share of the time in which the others waited for it.
        """
        told: dict[str, float] = {}
        if not self._driver.is_open:
            return told
        posts, working = self._driver.workers.posts, self._driver.working
        if self._tells:
            told["workers/restarts"] = self._driver.restarts
            gone = [post for post in posts if post.number not in working]
            told["workers/dropped"] = sum(len(x) for post in gone for x in post.columns)
        (begun, before), busy = self._line, self._driver.handover.busy.copy()
        self._line = time.perf_counter(), busy
        spent = busy - before if len(before) else busy
        if len(spent) > 1:
            slowest = int(spent.argmax())
            waited = spent[slowest] - np.delete(spent, slowest).mean()
            told["workers/slowest"] = slowest
            told["workers/slowest_share"] = float(waited / max(self._line[0] - begun, 1e-9))
        return told

    def close(self) -> None:
        """Have every environment closed, and end the workers."""
        for error in self._driver.close():
            warn_beside(f"while it was closed: {error.message}")

    def _leave_empty(self, row: Row, group: int) -> None:
        """Write a group's row in columns that nobody steps any more."""
        sent, begin = self._sent[group], self._columns[group].start
        for post in self._driver.workers.posts:
            if post.number not in self._driver.working:
                own = post.columns[group]
                at = slice(own.start - begin, own.stop - begin)
                self._blank.write(row[at] if sent is None else sent[at], row[at])

    def _hear(self, i: int) -> list[Any]:
        """Take what a worker told of ended episodes: row, group, columns with their numbers."""
        heard, columns = self._driver.handover.hear(i), self._driver.workers.posts[i].columns
        for _, g, ended in heard:
            first = columns[g].start - self._columns[g].start
            self._ended[g] += [(first + b, numbers) for b, numbers in ended]
        return heard

    def _forget(self, i: int) -> None:
        """Leave out what a worker that failed told of rows that it did not give."""
        columns = self._driver.workers.posts[i].columns
        given = self._driver.handover.given[i]
        for n, g, _ in self._hear(i):
            if n >= given[g]:
                own = [b - self._columns[g].start for b in columns[g]]
                self._ended[g] = [x for x in self._ended[g] if x[0] not in own]
