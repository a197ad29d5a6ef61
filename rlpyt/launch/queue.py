"""The queue: runs jobs on slots until all are done, and keeps the journal true meanwhile."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.launch import leftovers
from rlpyt.launch.attempt import Attempt
from rlpyt.launch.children import StarterDied
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Journal, Record, State, identity, job_event
from rlpyt.launch.place import Runs
from rlpyt.launch.progress import EVALUATION, Output, need
from rlpyt.launch.shown import Shown
from rlpyt.launch.slots import Slot
from rlpyt.launch.source import NoMore, Source
from rlpyt.launch.table import Screen
from rlpyt.launch.verdict import SEEN_SECONDS, judge, may_be_late
from rlpyt.stopping import StopSignal

HEAR_SECONDS = 0.2
LOOK_SECONDS = 1.0  # between readings of what runs wrote
GRACE_SECONDS = 20.0  # for a run that was asked to stop to save what it has
STARTERS = 3  # that may die one after the other without a run that ended
WAIT_SECONDS = 5.0  # a run that outlives its queue needs less
LOGS = "logs"
SIGNALS = {"interrupted": signal.SIGINT, "terminated": signal.SIGTERM}


class Queue:
    """Runs jobs on slots.

    Args:
        folder: the sweep's.
        book: its journal.
        records: what became of jobs before.
        slots: where they run.
        open_children: makes the starter, and another where that one died.
        screen: shows the jobs.
        retries: how often a run that failed is tried again.
        source: brings more jobs.
        column: of progress.csv, which the source watches.
    """

    def __init__(
        self,
        folder: Path,
        book: Journal,
        records: dict[str, Record],
        slots: Sequence[Slot],
        open_children: Callable[[], Runs],
        screen: Screen,
        retries: int = 1,
        source: Source | None = None,
        column: str = EVALUATION,
    ) -> None:
        self.folder, self.records, self.slots = folder, records, slots
        self.busy_seconds = 0.0  # of all slots together
        self._book, self._screen, self._open_children = book, screen, open_children
        self._retries, self._source = retries, source or NoMore()
        self._children: Runs
        self._todo: deque[str] = deque()
        self._running: dict[str, Attempt] = {}
        self._late: dict[str, Attempt] = {}  # over, and their folders do not say yet that all is
        self._shown = Shown(folder, records, screen, column)
        self._waits: dict[str, float] = {}  # for another process that has a run, since when
        self._begun = self._looked = time.monotonic()
        self._took: float | None = None
        self._starters = 0
        self._stop = ""
        self._signal = StopSignal()

    @property
    def seconds(self) -> float:
        """From when the first job could begin until now, or until the last one ended."""
        return time.monotonic() - self._begun if self._took is None else self._took

    def run(self, jobs: Sequence[Job], children: Runs) -> str:
        """Run until all is done; returns "finished", "interrupted" or "terminated".

        Args:
            jobs: those that are known; the ones that are done, or failed too often, are left.
            children: starts them; it is closed, with all that runs, whatever happens.
        """
        self._children = children
        (self.folder / LOGS).mkdir(exist_ok=True)
        try:
            with self._signal as stop:
                self._recover()
                self._add([*jobs, *self._source.begin(self.records, self._screen.say)])
                self._begun = time.monotonic()
                while self._go_on(stop.name):
                    self._hear()
                    self._look_again()
                    self._look()
                self._took = self.seconds
                self._draw()
        finally:
            self._children.close()
            self._screen.close()
        outcome = self._stop or "finished"
        self._book.write("stopped", why=outcome)
        return outcome

    def _recover(self) -> None:
        """Take up what an earlier queue left: runs that live on are ended, and gone on with."""
        left = [record for record in self.records.values() if record.state == "running"]
        leftovers.end(left, GRACE_SECONDS)
        for record in left:
            done = False
            with contextlib.suppress(UsageError):  # of a folder that says nothing yet: see `_next`
                done = need(self.folder / record.job.name) == "nothing"
            self._note(record.job.name, "finished" if done else "cut", None, 0.0)

    def _add(self, jobs: Sequence[Job]) -> None:
        """Take jobs up; one that is known keeps what became of it."""
        new = [job for job in jobs if job.name not in self.records]
        self._book.write_all([job_event(job) for job in new])
        self.records.update({job.name: Record(job) for job in new})
        known = [self.records[job.name] for job in jobs]
        for state in ("cut", "queued", "failed"):  # what was begun goes first
            for record in known:
                if record.state == state and record.lacks(self._retries):
                    self._todo.append(record.job.name)

    def _go_on(self, stop: str) -> bool:
        """Start what there is room for; False where nothing runs and nothing is to come."""
        if stop and not self._stop:
            self._stop = stop
            self._screen.say(f"{stop}: the runs save and end; once more ends them at once")
            for name, attempt in self._running.items():
                self._end(name, attempt, SIGNALS[stop])
        if not self._stop:
            self._fill()
        for name, attempt in self._running.items():
            if attempt.kill_at is not None and time.monotonic() > attempt.kill_at:
                self._children.signal(name, signal.SIGKILL)
        if self._running or self._late:
            return True
        return not self._stop and (bool(self._todo) or self._source.more())

    def _fill(self, *, drawing: bool = True) -> None:
        """Start jobs in the free slots; where `drawing`, the source may bring more of them."""
        taken = {attempt.slot.number for attempt in self._running.values()}
        for slot in self.slots:
            if len(self._running) >= len(self.slots):  # a cluster that lost a node has fewer
                return
            if slot.number not in taken:
                name = self._next(drawing)
                if name is None:
                    return
                self._start(name, slot)

    def _next(self, drawing: bool) -> str | None:
        """The next job that has to run; those that are done show on the way."""
        for _ in range(len(self._todo)):
            name = self._todo.popleft()
            try:
                match need(self.folder / name):
                    case "nothing":
                        self._note(name, "finished", 0, 0.0)
                        self._over(name)
                    case "wait":
                        self._tell_of_wait(name)
                        self._todo.append(name)
                    case _:
                        return name
            except UsageError as error:
                self._note(name, "failed", 2, 0.0, [str(error)])
                self._over(name)
        while drawing and (job := self._source.next()) is not None:
            self._add([job])
            if job.name in self._todo:
                return self._next(drawing)
        return None

    def _tell_of_wait(self, name: str) -> None:
        """Say once that somebody else has a run, unless it is for a moment."""
        now = time.monotonic()
        since = self._waits.setdefault(name, now)
        if now - since >= WAIT_SECONDS:
            self._screen.say(f"waiting for {name}, which another process trains")
            self._waits[name] = math.inf

    def _start(self, name: str, slot: Slot) -> None:
        folder = self.folder / name
        output = Output(self.folder / LOGS / f"{name}.log")
        resumed = need(folder) == "resume"
        job = self.records[name].job
        argv = ["resume", str(folder)] if resumed else job.train(self.folder)
        attempt = Attempt(slot, output, self._shown.progress(name).env_steps)
        self._running[name] = attempt
        with contextlib.suppress(StarterDied):  # which is heard of next
            self._children.start(name, argv, slot, output.path)

    def _hear(self) -> None:
        try:
            answers = self._children.hear(HEAR_SECONDS)
        except StarterDied as death:
            self._revive(death)
            return
        ended: list[tuple[str, Attempt, int]] = []
        for answer in answers:
            name = answer.get("started") or answer.get("ended")
            if name not in self._running:
                continue
            if "started" in answer:
                self._began(name, self._running[name], answer)
            else:
                ended.append((name, self._running.pop(name), answer["code"]))
        if ended and not self._signal.name:
            self._fill(drawing=False)  # no slot waits for what is written of the run before
        for name, attempt, code in ended:
            self._starters, attempt.over = 0, time.monotonic()
            if may_be_late(self.folder / name, code):
                self._late[name] = attempt
            else:
                self._ended(name, attempt, code)

    def _look_again(self) -> None:
        """Take up ends whose folders say by now that all is done, or had time to say so."""
        for name, attempt in list(self._late.items()):
            assert attempt.over is not None
            over = time.monotonic() - attempt.over > SEEN_SECONDS
            if over or not may_be_late(self.folder / name, 0):
                del self._late[name]
                self._ended(name, attempt, 0)

    def _began(self, name: str, attempt: Attempt, answer: Mapping[str, Any]) -> None:
        """Take up that a run has a process: here, or on the node that its answer names."""
        record, pid, node = self.records[name], answer["pid"], answer.get("node")
        attempt.begun = time.monotonic()
        record.state, record.slot = "running", attempt.slot.number
        record.pid, record.identity = pid, "" if pid is None else identity(pid)
        about = {"slot": record.slot, "pid": pid, "identity": record.identity}
        self._book.write("start", run=name, **about, **({"node": node} if node else {}))

    def _revive(self, death: StarterDied) -> None:
        """All runs died with their starter; they are gone on with under another."""
        died, self._running = self._running, {}
        for name, attempt in died.items():
            self._ended(name, attempt, None, starter_died=True)
        self._children.close()
        self._starters += 1
        if self._starters == STARTERS:
            raise RuntimeError(f"the process that starts runs died {STARTERS} times: {death}")
        if not self._stop or self._late:
            self._children = self._open_children()

    def _ended(
        self, name: str, attempt: Attempt, code: int | None, *, starter_died: bool = False
    ) -> None:
        """Take up an end; a code of None says that the run was lost with what ran it."""
        record = self.records[name]
        self.busy_seconds += attempt.seconds
        killed, pruned = bool(self._stop), attempt.pruned
        state = judge(self.folder / name, code, attempt.seconds, pruned=pruned, killed=killed)
        stranger = state == "cut" and not self._stop and not starter_died
        if code is None and stranger:  # no fault of a run that gets further each time, or had not
            further = self._shown.progress(name).env_steps > attempt.steps_then  # begun
            stranger = attempt.begun is not None and not further
        tail = attempt.output.tail(code) if state == "failed" else []
        self._note(name, state, code, attempt.seconds, tail, stranger=stranger)
        if state == "cut" and (not stranger or record.failures <= self._retries):
            self._todo.appendleft(name)
        elif state == "failed" and record.lacks(self._retries):
            self._todo.append(name)
        else:
            self._over(name)

    def _over(self, name: str) -> None:
        """Tell the source that a job will not run again."""
        record = self.records[name]
        self._source.ended(record.job, record.state, self._shown.progress(name))

    def _note(
        self,
        name: str,
        state: State,
        code: int | None,
        seconds: float,
        tail: Sequence[str] = (),
        *,
        stranger: bool = False,
    ) -> None:
        """Write down an end, and show it.

        Args:
            stranger: it was stopped by someone else, which may happen again: it counts as failed.
        """
        event: dict[str, Any] = {"state": state, "code": code, "seconds": round(seconds, 3)}
        event |= ({"tail": list(tail)} if tail else {}) | ({"stranger": True} if stranger else {})
        self._book.write("end", run=name, **event)
        record = self.records[name]
        record.end(event)
        self._shown.ended(name, self._running, len(self.slots))

    def _end(self, name: str, attempt: Attempt, number: int) -> None:
        """Ask a run to save and end; it is killed where it does not."""
        self._children.signal(name, number)
        attempt.kill_at = time.monotonic() + GRACE_SECONDS

    def _look(self) -> None:
        """Read what runs wrote, tell the source, and draw."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for name, attempt in self._running.items():
            job, progress = self.records[name].job, self._shown.progress(name)
            if not self._stop and not attempt.pruned and self._source.seen(job, progress):
                attempt.pruned = True
                self._end(name, attempt, signal.SIGTERM)
        self._draw()

    def _draw(self) -> None:
        self._shown.draw(self._running, len(self.slots), self.seconds)
