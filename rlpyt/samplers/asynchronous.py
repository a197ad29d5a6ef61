"""The learner's side of asynchronous sampling: windows are there, or soon are, when it asks.

A process of its own collects while this one learns. `collect` returns what has come since the call
before, and waits only where nothing has; then the learner makes the updates that are due for these
rows. The sampler in turn may be ahead by `lag` windows (`turns.py`). So the replay ratio holds
whichever side is slower, and a run is determined by which windows each call found and by which
version of the weights each was collected: a `Schedule` records both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, final

import numpy as np

from rlpyt.errors import WaitedTooLong, WorkerError
from rlpyt.processes.wait import Waiting
from rlpyt.ring_window import RingWindow
from rlpyt.rotation import Rotation
from rlpyt.samplers.arrivals import arrivals_of
from rlpyt.samplers.branch import Branch
from rlpyt.samplers.link import ACT, ENV, WAIT, Entry
from rlpyt.samplers.messages import Messages
from rlpyt.samplers.options import START_LIMIT, STEP_LIMIT, SamplerOptions
from rlpyt.samplers.published import Published
from rlpyt.samplers.replicated import looks_every
from rlpyt.samplers.schedule import Found, Schedule, lag_metrics
from rlpyt.tree_format import like
from rlpyt.vector.lost import lost, resets_of


@final
class AsynchronousSampler:
    """Gives the learner windows that a sampler in the background collects.

    Args:
        branch: the processes that collect.
        agent: learns; the others act with its weights.
        published: to them.
        window: the rows, in shared memory, with the states that agents are fed.
        limits: time-outs, and what a failure means; to restart is to start all of them anew.
        check: called before weights are published; raises where they are not finite.
        schedule: makes what records what is found, beginning with this row; None does not.
        first_resets: how often an environment has begun by row 0, at most.
    """

    def __init__(
        self,
        branch: Branch,
        agent: Any,
        published: Published,
        window: RingWindow | Rotation,
        limits: SamplerOptions,
        check: Callable[[], None] | None = None,
        schedule: Callable[[int], Schedule] | None = None,
        first_resets: int = 1,
    ) -> None:
        self._first_resets = first_resets
        self.agent, self.window = agent, window
        self.schedule: Schedule | None = None
        self._make_schedule = schedule
        # Of the sampler's process, meanwhile; and in which this one waited for it.
        self.seconds = {"env": 0.0, "act": 0.0, "wait": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the windows' endings
        self._branch, self._link, self._turns = branch, branch.link, branch.link.turns
        self._published, self._arrivals = published, arrivals_of(window)
        self._limits, self._check_agent = limits, check
        self._messages, self._restarts = Messages(), 0  # before the processes that there are
        self._taken = 0  # windows of this process
        self._boundary = 0  # the row after them
        self._resets: np.ndarray = np.zeros(window.num_envs, np.int64)  # by column, up to there
        self._starts = 0  # of pools, which reset all columns at once
        self._rests = True
        self._waiting: Waiting | None = None
        self._asked_at = 0.0
        self._line = _Line()
        self._counted = np.zeros(2)  # of the sampler's seconds, in `self.seconds`

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        self._open()
        self._ask("reset")
        self._begin(0)
        self._resets[:], self._starts = self._first_resets, 1

    def rows_for(self, env_steps: int) -> int:
        """How many rows are collected next: the sampler's process knows, and decides."""
        return self.window.rows_for(env_steps)

    def collect(self, horizon: int | None = None, env_steps: int | None = None) -> Any:
        """The windows that have come since the last call, or the first that comes.

        Args:
            horizon: is of no matter.
            env_steps: of the run so far.
        """
        assert env_steps is not None
        if self._check_agent is not None:
            self._check_agent()
        self.agent.set_exploration(env_steps)
        self._published.publish()
        begun = perf_counter()
        while True:
            try:
                self._go_on(env_steps)
                self._await(env_steps)
                break
            except WorkerError as error:
                self._recover(error)
        waited = perf_counter() - begun
        self._line.waited += waited
        self.seconds["wait"] += waited
        found = self._take(rested=False)
        self._turns.permit(self._taken)
        self._branch.child.bell.ring()
        return found

    def settle(self) -> Iterator[Any]:
        """Have the sampler rest, and give out the windows that it has collected by then."""
        failed = None
        if not self._rests:
            try:
                self._rest()
            except WorkerError as error:
                failed = error
        while self._turns.look() > self._taken:
            yield self._take(rested=True)
        if failed is not None:
            self._recover(failed)

    def nothing(self) -> Any:
        """A window of no rows, behind those that were taken: for a ring that is drawn from."""
        return self._arrivals.nothing(self._boundary)

    def snapshot(self) -> dict[str, Any]:
        """What the next window depends on beside weights and replay, once it is settled."""
        if not self._rests or self._turns.look() > self._taken:
            raise RuntimeError("a sampler at work is settled before it is saved")
        while True:
            try:
                envs = self._ask("snapshot")
                break
            except WorkerError as error:
                self._recover(error)
        return {"window": self.window.carry(), "envs": envs}

    def restore(self, state: dict[str, Any]) -> list[int]:
        """Take up a snapshot, of whatever sampler; returns the columns that were cut."""
        window = self.window
        window.restore(like(window.example_carry(), state["window"], "window"))
        self._begin(window.boundary)
        self._resets[:] = resets_of(state["envs"], window.num_envs)
        # A pool goes on with a reset.
        self._starts = int(state["envs"].get("starts", self._resets.max())) + 1
        self._open()
        return self._ask("restore", self._boundary, state["envs"])

    def metrics(self) -> dict[str, float]:
        """Since the line before: shares of time in which each side waited, and age of weights."""
        line, spent = self._line, self._link.seconds.copy()
        seconds = max(perf_counter() - line.begun, 1e-9)
        told = {
            "time/wait_learner": line.waited / seconds,
            "time/wait_sampler": float(spent[WAIT] - line.spent[WAIT]) / seconds,
        }
        told |= lag_metrics(line.lags)
        if self._limits.on_worker_failure == "restart":
            told["workers/restarts"] = self.restarts
            told["workers/dropped"] = self._link.dropped
        self._line = _Line(spent)
        return told

    @property
    def restarts(self) -> int:
        """Of all that collect together, and of the replicas that the sampler replaces itself."""
        return self._restarts + self._link.restarts

    def close(self) -> None:
        """End the processes that collect."""
        self._branch.close()

    def _begin(self, boundary: int) -> None:
        """The row of this number is answered next; nothing behind it is there."""
        self._boundary = boundary
        self._arrivals.begin()
        if self._make_schedule is not None:
            self.schedule = self._make_schedule(boundary)

    def _open(self) -> None:
        """Start the processes, where there are none; they rest."""
        if not self._branch.is_open:
            self._turns.begin_anew(self._taken)
            self._branch.open()
            self._waiting = self._branch.waiting(
                "the sampler", self._watch, looks_every(self._limits)
            )
            self._rests = False
        if not self._rests:
            assert self._waiting is not None
            seconds = self._limits.start_timeout
            self._asked_at = math.inf  # no call is overdue while environments are made
            try:
                what = "the sampler's start"
                self._waiting.until(lambda: self._turns.rests, seconds or math.inf, what)
            except WaitedTooLong:
                raise self._branch.overdue(seconds, START_LIMIT) from None
            self._rests = True

    def _rest(self) -> None:
        """Have the sampler rest; windows may be there then that were not taken."""
        self._turns.ask_to_rest()
        self._branch.child.bell.ring()
        self._wait(lambda: self._turns.rests, "the sampler to rest")
        self._rests = True

    def _go_on(self, env_steps: int) -> None:
        """End the sampler's rest."""
        if self._rests:
            self._ask("env steps", env_steps)
            self._turns.permit(self._taken)
            self._turns.ask_to_go_on()
            self._rests = False
        self._branch.child.bell.ring()

    def _await(self, env_steps: int) -> None:
        """Wait until there is a window that was not taken."""
        link, turns = self._link, self._turns
        self._wait(lambda: turns.look() > self._taken or link.over, "a window")
        if turns.look() == self._taken:
            # It takes the run to be over: other ranks have stepped less than it had guessed.
            self._rest()
            self._go_on(env_steps)
            self._wait(lambda: turns.look() > self._taken, "a window")

    def _take(self, rested: bool) -> Any:
        """The windows that are there, or the first of them."""
        link, taken = self._link, self._taken
        end = self._turns.look() if self._arrivals.together else taken + 1
        entries: list[Entry] = []
        self.infos, begun = {}, 0
        for w in range(taken, end):
            entry, news = link.read(w)
            entries.append(entry)
            self.infos |= {(begun + t, b): x for (t, b), x in news.items()}
            begun += entry.horizon
        found = self._arrivals.take(entries)
        self._taken, self._boundary = end, entries[-1].start + entries[-1].horizon
        self._resets += np.count_nonzero(found.rows.first[1:], axis=0)
        newest = self._published.version
        self._line.lags += [newest - entry.version for entry in entries]
        if self.schedule is not None:
            self.schedule.record(Found(rested, newest, tuple(x.version for x in entries)))
        spent = link.seconds[[ENV, ACT]]
        self.seconds["env"] += float(spent[0] - self._counted[0])
        self.seconds["act"] += float(spent[1] - self._counted[1])
        self._counted = spent
        return found

    def _recover(self, error: WorkerError) -> None:
        """Start all processes that collect anew, if that is how it should be; they rest then.

        The row behind the windows that were taken becomes its episode's last, where it is not yet,
        and the row after that begins another. A window that is published while they are ended is
        given up: nobody has seen it.
        """
        restarts = self.restarts
        if not self._limits.may_restart(restarts, error):
            raise error
        self._branch.close(kill=True)
        self._restarts = restarts + 1
        self._link.tell_losses(0, 0)
        self._arrivals.forget(self._boundary)
        try:
            self._open()
            if not self._boundary:
                self._ask("reset")
                return
            # The dead one did so unseen at most T times more.
            self._resets += self.window.longest
            envs = lost(self._resets, starts=self._starts)
            self._starts += 1
            self._ask("restore", self._boundary, envs)
        except WorkerError as next_error:
            self._recover(next_error)

    def _ask(self, what: str, *given: Any) -> Any:
        """Ask the sampler, which rests."""
        assert self._waiting is not None
        self._asked_at = time.monotonic()
        messages, child, limit = self._messages, self._branch.child, self._limits.env_step_timeout
        seconds = limit or math.inf
        try:
            number = messages.say(child, what, *given, seconds=seconds)
            return messages.hear(child, number, self._waiting, seconds)
        except WaitedTooLong:  # it is stopped in the midst of a message
            raise self._branch.overdue(limit, STEP_LIMIT) from None

    def _wait(self, ready: Callable[[], object], what: str) -> None:
        assert self._waiting is not None
        self._asked_at = time.monotonic()
        self._waiting.until(ready, math.inf, what)

    def _watch(self) -> None:
        if self._limits.env_step_timeout:
            self._branch.look_for_hangs(self._asked_at, self._limits.env_step_timeout)


class _Line:
    """What a line of the log averages over."""

    def __init__(self, spent: np.ndarray | None = None) -> None:
        self.begun, self.waited = perf_counter(), 0.0
        self.spent = np.zeros(8) if spent is None else spent  # by the sampler, before
        self.lags: list[int] = []
