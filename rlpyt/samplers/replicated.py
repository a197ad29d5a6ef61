"""The collection loop replicated: each of W processes answers and steps its own columns.

The driver makes room for a window, publishes the newest weights, asks all replicas at once, and
publishes the window when all of them gave their columns. So rows, and the learner's view of them,
are those of any other sampler; only the batches in which columns are answered are smaller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, final

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.block import fence
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import WaitedTooLong, WorkerError
from rlpyt.processes.handle import Child
from rlpyt.processes.wait import LOOK, Waiting
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Window
from rlpyt.samplers.crew import Crew, Staff
from rlpyt.samplers.in_turns import InTurns
from rlpyt.samplers.messages import Messages
from rlpyt.samplers.options import START_LIMIT, STEP_LIMIT, SamplerOptions
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.lost import Blank, lost, resets_of


@final
class ReplicatedSampler(InTurns):
    """Fills one window after another by the work of replicas.

    Args:
        staff: has the replicas.
        spec: of the environments.
        agent: whose weights they act with.
        window: in shared memory, with the states that agents are fed.
        limits: time-outs, and what a failure means.
        check: called before each window; raises where the agent's weights are not finite.
        first_resets: how often an environment has begun by row 0, at most.
    """

    def __init__(
        self,
        staff: Staff,
        spec: EnvSpec,
        agent: Any,
        window: Window | RingWindow,
        limits: SamplerOptions,
        check: Callable[[], None] | None = None,
        first_resets: int = 1,
    ) -> None:
        self.agent, self.window, self._first_resets = agent, window, first_resets
        self.seconds = {"env": 0.0, "act": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the window's endings
        self._staff, self._limits, self._check_agent = staff, limits, check
        self._initial_state = tree_map(lambda x: x.clone(), window.state)
        self._waiting: Waiting | None = None  # for the replicas that there are
        self._asked_at = 0.0
        self._count = 0  # of replicas, once there are some
        self._messages, self._owing = Messages(), set[int]()  # replicas that were sent one
        self._resets = np.zeros(window.num_envs, np.int64)  # by column, up to the boundary row
        self._restarts, self._new = 0, set[int]()  # replicas that were not told where to go on
        self._dropped: set[int] = set()
        self._blank = Blank(spec)
        self._times = np.zeros(0)  # seconds of work of each replica, since the line before
        self._line = time.perf_counter()

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        self.window.restart(self._initial_state)
        self._ask_each("reset", lambda i: ())
        self._resets[:] = self._first_resets

    def collect(self, horizon: int | None = None, env_steps: int | None = None) -> Any:
        """Have T rows answered with the agent's present weights, and the boundary row received.

        Args:
            horizon: T, where it is not the window's own.
            env_steps: of the run so far, by which agents set their exploration; None: as it is.
        """
        window, crew = self.window, self._ready()
        self.infos.clear()
        if self._check_agent is not None:
            self._check_agent()
        if env_steps is not None:
            self.agent.set_exploration(env_steps)
        window.begin(horizon)
        crew.publish(self.agent)
        crew.desk.ask(window.start, window.horizon, -1 if env_steps is None else env_steps)
        self._asked_at = time.monotonic()
        for i in self._working:
            crew.children[i].bell.ring()
        while True:
            try:
                self._receive()
                break
            except WorkerError as error:
                self._go_on_without(error, within=True)
        for i in self._dropped:
            self._leave_empty(crew.columns[i])
        window.finish(window.state)
        self._resets += np.count_nonzero(window.rows.first[1:], axis=0)
        return window

    def snapshot_envs(self) -> dict[str, Any]:
        """The part of a snapshot that is of the environments."""
        while True:
            try:
                return InProcess.merged(self._ask_each("snapshot", lambda i: ()))
            except WorkerError as error:
                self._go_on_without(error, within=False)

    def restore_envs(self, state: dict[str, Any]) -> list[int]:
        """Bring them to where the row arrived that the window goes on with; see `restore`."""
        envs = [InProcess.part_of(state, at) for at in self._ready().columns]
        cut = self._ask_each("restore", lambda i: (envs[i], *self._place(within=False)))
        self._resets[:] = resets_of(state, len(self._resets))
        return [b for part in cut for b in part]

    def metrics(self) -> dict[str, float]:
        """What a line of the log says of replicas, since the line before.

        `workers/slowest` is the one whose window took longest, `workers/slowest_share` the share of
        the time in which the others waited for it.
        """
        told: dict[str, float] = {}
        if self._limits.on_worker_failure != "raise":
            told["workers/restarts"] = self._restarts
            columns = [self._staff.crew().columns[i] for i in self._dropped]
            told["workers/dropped"] = sum(at.stop - at.start for at in columns)
        if len(self._times) > 1 and self._times.any():
            slowest = int(self._times.argmax())
            others = np.delete(self._times, slowest).mean()
            told["workers/slowest"] = slowest
            seconds = max(time.perf_counter() - self._line, 1e-9)
            told["workers/slowest_share"] = float((self._times[slowest] - others) / seconds)
            self._times[:] = 0
        self._line = time.perf_counter()
        return told

    def close(self) -> None:
        """End every replica."""
        self._staff.close()

    @property
    def _working(self) -> list[int]:
        return [i for i in range(self._count) if i not in self._dropped]

    def _ready(self) -> Crew:
        """The replicas, all of which have made their environments."""
        crew = self._staff.crew()
        if self._waiting is None:
            if not self._count:
                self._count = len(crew.columns)
                self._times = np.zeros(self._count)
            every = looks_every(self._limits)
            self._waiting = self._staff.waiting("replicas", self._watch, every)
            self._await_ready(crew, self._waiting)
        return crew

    def _await_ready(self, crew: Crew, waiting: Waiting) -> None:
        desk, seconds = crew.desk, self._limits.start_timeout
        self._asked_at = math.inf  # no call is overdue while environments are made
        try:
            waiting.until(lambda: desk.ready[self._working].all(), seconds or math.inf, "a start")
        except WaitedTooLong:
            late = next(i for i in self._working if not desk.ready[i])
            raise self._staff.overdue(crew.children[late], seconds, START_LIMIT) from None

    def _receive(self) -> None:
        """Wait until every replica that works has given the window, and take what came with it."""
        crew = self._ready()
        desk, working = crew.desk, self._working
        waiting = self._waiting
        assert waiting is not None
        asked = desk.asked
        waiting.until(lambda: (desk.given[working] == asked).all(), math.inf, "a window")
        fence()
        for i in working:
            begin = crew.columns[i].start
            self.infos |= {(t, begin + b): x for (t, b), x in desk.news.read(i).items()}
        seconds = desk.seconds[working, :2]  # [W, 2]
        self._times[working] += seconds.sum(1)
        for name, mean in zip(self.seconds, seconds.mean(0).tolist(), strict=True):
            self.seconds[name] += mean

    def _ask_each(self, what: str, given: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """Ask all replicas by message, and return their answers; of a dropped one what it lost."""
        crew = self._ready()
        self._asked_at = time.monotonic()
        self._owing.clear()
        numbers = {i: self._say(crew, i, what, *given(i)) for i in self._working}
        return [
            self._hear(crew, i, numbers[i]) if i in numbers else self._lost(crew, i)
            for i in range(len(crew.columns))
        ]

    def _say(self, crew: Crew, i: int, what: str, *given: Any) -> int:
        """Send a message; returns the number of the answer."""
        self._owing.add(i)
        with self._bounded(crew.children[i]) as seconds:
            return self._messages.say(crew.children[i], what, *given, seconds=seconds)

    def _hear(self, crew: Crew, i: int, number: int) -> Any:
        """The answer of this number."""
        assert self._waiting is not None
        with self._bounded(crew.children[i]) as seconds:
            answer = self._messages.hear(crew.children[i], number, self._waiting, seconds)
        self._owing.discard(i)
        return answer

    @contextmanager
    def _bounded(self, child: Child) -> Iterator[float]:
        """A replica that is stopped in the midst of a message is overdue, too."""
        limit = self._limits.env_step_timeout
        try:
            yield limit or math.inf
        except WaitedTooLong:
            raise self._staff.overdue(child, limit, STEP_LIMIT) from None

    def _watch(self) -> None:
        """Raise if a replica failed, or is in one call for too long."""
        crew, limit = self._staff.crew(), self._limits.env_step_timeout
        for i in self._working:
            child = crew.children[i]
            child.look()
            if limit and child.heart.age(self._asked_at) > limit and self._owes(crew, i):
                raise self._staff.overdue(child, limit, STEP_LIMIT)

    def _owes(self, crew: Crew, i: int) -> bool:
        """Whether a replica was asked for something that it did not give."""
        desk, child = crew.desk, crew.children[i]
        if desk.ready[i] and desk.given[i] != desk.asked:
            return True
        return i in self._owing and not child.control.has_message()

    def _go_on_without(self, error: WorkerError, within: bool) -> None:
        """Replace or leave out the replica that failed, if that is how it should be.

        Args:
            within: a window, which is asked for again; else between two.
        """
        crew, limits = self._staff.crew(), self._limits
        named = [i for i in self._working if crew.children[i].name == error.worker]
        drop = limits.on_worker_failure == "drop"
        if not named or not (drop or limits.may_restart(self._restarts, error)):
            raise error
        i = named[0]
        self._waiting = None
        self._owing.discard(i)
        if drop:
            self._staff.dismiss(i)
            self._dropped.add(i)
            if not self._working:
                raise error
            return
        self._restarts += 1
        self._new.add(i)
        crew.desk.ready[i] = 0
        crew.desk.given[i] = -1 if within else crew.desk.asked
        self._staff.replace(i)
        try:
            self._ready()
            self._asked_at = time.monotonic()
            for i in sorted(self._new):  # also one during whose start another failed
                envs = self._lost(crew, i)
                self._resets[crew.columns[i]] = envs["resets"]
                given = envs, *self._place(within)
                self._hear(crew, i, self._say(crew, i, "restore", *given))
                self._new.discard(i)
        except WorkerError as next_error:
            self._go_on_without(next_error, within)

    def _lost(self, crew: Crew, i: int) -> dict[str, Any]:
        """The snapshot of environments of which nothing is left but how often they were reset.

        A failed replica did so unseen at most T times more.
        """
        return lost(self._resets[crew.columns[i]] + self.window.horizon)

    def _place(self, within: bool) -> tuple[int, int, int]:
        """The row that has arrived and is to be answered: start and horizon of a window, and row.

        Args:
            within: a window, of which it is row 0; else it is behind the one before.
        """
        window: Any = self.window
        if within:
            return window.start, window.horizon, 0
        if isinstance(window, RingWindow):
            return window.boundary, window.longest, 0
        return window.start, window.horizon, -1

    def _leave_empty(self, columns: slice) -> None:
        """Write rows of no episode, which nothing learns from, where nobody is at work."""
        rows = [slot.row[columns] for slot in self.window.slots]
        for row, next_row in pairwise(rows):
            self._blank.write(row, next_row)
            for leaf in tree_leaves((row.action, row.info)):
                leaf[...] = 0


def looks_every(limits: SamplerOptions) -> float:
    """Seconds between looks at what other processes do."""
    return min(LOOK, (limits.env_step_timeout or math.inf) / 4)
