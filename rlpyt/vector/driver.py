"""Who drives workers: asks them, waits for them, and goes on without those that fail."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from rlpyt.block import fence
from rlpyt.errors import WaitedTooLong, WorkerError
from rlpyt.processes.control import Control
from rlpyt.processes.handle import Child
from rlpyt.processes.wait import LOOK, Waiting
from rlpyt.samplers.options import SamplerOptions
from rlpyt.vector.handover import Handover
from rlpyt.vector.staff import Staff, Workers

TELL_AFTER = 5.0  # seconds of starting


@final
class Driver:
    """Drives the workers of a staff.

    Args:
        staff: has them; they are started when they are first needed.
        limits: time-outs, and what a failure means.
        tell: what is said of a slow start.
        on_loss: called with the number of a worker that failed, before another takes its place.

    Attributes:
        working: numbers of the workers that are there, or will be.
        restarts: so far.
    """

    def __init__(
        self,
        staff: Staff,
        limits: SamplerOptions,
        tell: Callable[[str], object],
        on_loss: Callable[[int], None],
    ) -> None:
        self._staff, self._limits, self._tell, self._on_loss = staff, limits, tell, on_loss
        self.working: list[int] = []
        self.restarts = 0
        self._waiting: Waiting | None = None  # for the workers that there are now
        self._workers: Workers | None = None
        self._asked_at = self._started_at = 0.0
        self._owing: set[int] = set()  # workers that were sent a message
        self._failures: list[int] = []  # process ids whose end was told of

    @property
    def is_open(self) -> bool:
        return self._workers is not None

    @property
    def workers(self) -> Workers:
        """The workers, all of which have made their environments."""
        if self._workers is None:
            workers = self._staff.workers()
            self.working = list(range(len(workers.posts)))
            self._workers = workers
            try:
                self._await_start(workers)
            except WorkerError as error:
                self._failures.append(error.pid)
                raise
        return self._workers

    @property
    def handover(self) -> Handover:
        return self.workers.handover

    def ask_row(self, group: int) -> None:
        """Ask for the next row of a group."""
        workers = self.workers
        fence()
        workers.handover.asked[group] += 1
        self._asked_at = time.monotonic()
        for i in self.working:
            workers.children[i].bell.ring()

    def receive_row(self, group: int) -> None:
        """Wait for the newest row that a group was asked for."""
        handover = self.handover
        asked, given, waiting = handover.asked[group], handover.given, self._waiting
        assert waiting is not None

        def arrived() -> bool:
            for i in self.working:  # noqa: SIM110  # a generator takes three times as long
                if given[i][group] < asked:
                    return False
            return True

        while not arrived():
            try:
                waiting.until(arrived, math.inf)
            except WorkerError as error:
                waiting = self._go_on_without(error)
        fence()  # rows are read behind their numbers

    def ask(self, what: str, given: Mapping[int, Any]) -> dict[int, Any]:
        """Ask workers by message, and return the answers of those that are still there then."""
        answers: dict[int, Any] = {}
        for i, content in given.items():
            if i not in self.working:  # it was dropped while another was sent to
                continue
            control = self._call(i, (what, content))
            while i in self._owing and control.unsent:  # also where another one failed meanwhile
                self._bounded(i, lambda control=control: control.flush(self._limit))
            self._asked_at = time.monotonic()
        for i in given:
            while i in self._owing:
                self._bounded(i, lambda i=i: self._receive(i, answers))
        return answers

    def close(self) -> list[WorkerError]:
        """End the workers; returns what went wrong meanwhile."""
        self._waiting = self._workers = None
        errors = self._staff.close()
        return [error for error in errors if error.pid not in self._failures]

    def _call(self, i: int, message: Any) -> Control:
        """Put down a message, and have the worker read: the pipe takes no large one by itself."""
        child = self.workers.children[i]
        self._owing.add(i)
        child.control.put(message)
        self.handover.called[i] += 1
        self._asked_at = time.monotonic()
        child.bell.ring()
        return child.control

    def _receive(self, i: int, answers: dict[int, Any]) -> None:
        control, waiting = self.workers.children[i].control, self._waiting
        assert waiting is not None
        waiting.until(control.has_message, math.inf, f"an answer of worker {i}")
        answers[i] = control.receive(self._limit)
        self._owing.discard(i)

    def _bounded(self, i: int, call: Callable[[], None]) -> None:
        """Exchange a message with a worker, or go on without it."""
        try:
            try:
                call()
            except WaitedTooLong:
                raise self._hung(self.workers.children[i]) from None
        except WorkerError as error:
            self._go_on_without(error)

    @property
    def _limit(self) -> float:
        return self._limits.env_step_timeout or math.inf

    def _watch(self) -> None:
        """Raise if a worker does not answer: the age of its last beat counts, not the wait's."""
        workers, limit = self._staff.workers(), self._limit
        handover = workers.handover
        for i in self.working:
            if not handover.ready[i]:
                self._tell_of_start(workers.children[i])
                continue
            if workers.children[i].heart.age(self._asked_at) <= limit:
                continue
            given = handover.given[i]
            if i in self._owing or any(a > b for a, b in zip(handover.asked, given, strict=True)):
                raise self._hung(workers.children[i])

    def _hung(self, child: Child) -> WorkerError:
        error = self._staff.overdue(child, self._limit)
        return _with_more(error, "; --env-step-timeout sets how long it may take")

    def _tell_of_start(self, child: Child) -> None:
        if time.monotonic() > self._started_at + TELL_AFTER:
            self._started_at = math.inf
            doing = str(child.heart) or "loading"
            self._tell(f"{child.name} is still starting after {TELL_AFTER:.0f} s ({doing})")

    def _await_start(self, workers: Workers) -> None:
        """Wait for all environments to be made."""
        handover = workers.handover
        limit = self._limits.start_timeout or math.inf
        every = min(LOOK, self._limit / 4, limit / 4, TELL_AFTER)
        waiting = self._waiting = self._staff.waiting("rows of the workers", self._watch, every)

        self._started_at = time.monotonic()

        def late() -> list[int]:
            return [i for i in self.working if not handover.ready[i]]

        try:
            waiting.until(lambda: not late(), limit, "workers to start")
        except WaitedTooLong:
            error = self._staff.overdue(workers.children[late()[0]], limit)
            raise _with_more(error, "; --start-timeout sets how long it may take") from None

    def _go_on_without(self, error: WorkerError) -> Waiting:
        """Replace or leave out the worker that failed, if that is how it should be.

        Returns:
            A wait for those that there are now.
        """
        limits, workers = self._limits, self._staff.workers()
        while True:
            self._failures.append(error.pid)
            failed = [i for i in self.working if workers.children[i].name == error.worker]
            spent = limits.on_worker_failure == "restart" and self.restarts >= limits.max_restarts
            if failed and spent:
                raise _with_more(
                    error,
                    f"; it was not replaced, after max_restarts={limits.max_restarts} restarts: "
                    "mend the environment, or allow more with --max-restarts",
                ) from error
            if not failed or limits.on_worker_failure == "raise":
                raise error
            i = failed[0]
            self._owing.discard(i)
            self._on_loss(i)
            if limits.on_worker_failure == "drop":
                self._staff.dismiss(i)
                self.working.remove(i)
                if not self.working:
                    raise error
            else:
                self.restarts += 1
                workers.handover.ready[i] = 0
                self._staff.replace(i)
            try:
                self._await_start(workers)
            except WorkerError as next_error:
                error = next_error
                continue
            assert self._waiting is not None
            return self._waiting


def _with_more(error: WorkerError, more: str) -> WorkerError:
    """The same, with the remedy behind what happened."""
    columns, how = error.columns, error.how + more
    return WorkerError(error.worker, how, columns, error.pid, error.traceback)
