"""The collection loop on other machines: each of W remote replicas has columns of its own.

Every window is asked of all of them at once, with the newest weights, and what each hands over is
copied to where it belongs. One that is lost costs the rows of its columns in that window: they are
of no episode. So are those of the windows after it, until another takes its place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol, final

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import WaitedTooLong, WorkerError
from rlpyt.processes.wait import check
from rlpyt.samplers.in_turns import InTurns
from rlpyt.samplers.options import START_LIMIT, SamplerOptions
from rlpyt.samplers.remote_replica import Collected
from rlpyt.storage import as_arrays, as_tensors
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.lost import Blank, lost, resets_of

HEAR_SECONDS = 0.5


class RemoteCrew(Protocol):
    """Remote replicas, each of which does one thing at a time."""

    @property
    def columns(self) -> Sequence[slice]:
        """Of each replica."""
        ...

    def open(self) -> None:
        """Ask for all replicas; each answers when it is ready."""
        ...

    def publish(self, agent: Any) -> None:
        """Have replicas act with an agent's present weights in what they are asked from here on."""
        ...

    def ask(self, i: int, what: str, *given: Any) -> None:
        """Ask replica i, which has answered what it was asked before."""
        ...

    def hear(self, numbers: Iterable[int], seconds: float) -> dict[int, Any]:
        """Answers of some replicas that have come; a WorkerError is that of one that was lost.

        Args:
            seconds: to wait at most, where none has.
        """
        ...

    def replace(self, i: int) -> None:
        """Ask for another replica in the place of one that was lost, which answers when ready."""
        ...

    def close(self) -> None:
        """End all of them."""
        ...


@final
class RemoteSampler(InTurns):
    """Fills one window after another by the work of remote replicas.

    Args:
        crew: the replicas.
        spec: of the environments.
        agent: whose weights they act with.
        window: of all columns, with the states that agents are fed.
        limits: time-outs, and what a failure means.
        check: called before each window; raises where the agent's weights are not finite.
        watch: called meanwhile; raises if waiting is idle.
        first_resets: how often an environment has begun by row 0, at most.
    """

    def __init__(
        self,
        crew: RemoteCrew,
        spec: EnvSpec,
        agent: Any,
        window: Any,
        limits: SamplerOptions,
        check: Callable[[], None] | None = None,
        watch: Callable[[], object] = lambda: None,
        first_resets: int = 1,
    ) -> None:
        self.agent, self.window = agent, window
        self._first_resets, self._at_start = first_resets, False  # nothing was collected yet
        self.seconds = {"env": 0.0, "act": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the window's endings
        self._crew, self._limits, self._check_agent, self._watch = crew, limits, check, watch
        self._parts = [window.part(columns) for columns in crew.columns]
        self._initial_state = tree_map(lambda x: x.clone(), window.state)
        self._resets = np.zeros(window.num_envs, np.int64)  # by column, up to the boundary row
        self._blank, self._is_open = Blank(spec), False
        self._restarts, self._missing = 0, set[int]()  # replicas: another is asked for
        self._dropped = set[int]()

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        row = self.window.restart(self._initial_state)
        for i, arrived in self._ask_all("reset", {}).items():
            row[self._crew.columns[i]] = arrived
        self._resets[:], self._at_start = self._first_resets, True

    def collect(self, horizon: int | None = None, env_steps: int | None = None) -> Any:
        """Have T rows answered with the agent's present weights, and the boundary row received.

        Args:
            horizon: T, where it is not the window's own.
            env_steps: of the run so far, by which agents set their exploration; None: as it is.
        """
        window, crew = self.window, self._crew
        self.infos = {}
        if self._check_agent is not None:
            self._check_agent()
        if env_steps is not None:
            self.agent.set_exploration(env_steps)
        self._take_in()
        window.begin(horizon)
        crew.publish(self.agent)
        for i in self._working:
            crew.ask(i, "collect", window.horizon, env_steps, self._fed(i))
        found = self._hear(self._working)
        for i, part in enumerate(self._parts):
            part.follow(window.start, window.horizon)
            if i in found:
                self._place(part, found[i])
            else:
                self._leave_empty(part)
        window.finish(window.state)
        self._at_start = False
        for name in self.seconds:
            spent = [x.seconds[name] for x in found.values()]
            self.seconds[name] += sum(spent) / max(len(spent), 1)
        self._resets += np.count_nonzero(window.rows.first[1:], axis=0)
        return window

    def snapshot_envs(self) -> dict[str, Any]:
        """The part of a snapshot that is of the environments; of lost ones how often they began."""
        found = self._ask_all("snapshot", {})
        parts = [found.get(i) or self._lost(i) for i in range(len(self._parts))]
        return InProcess.merged(parts)

    def restore_envs(self, state: dict[str, Any]) -> list[int]:
        """Bring them to where the row arrived that the window goes on with; see `restore`."""
        self._resets[:] = resets_of(state, len(self._resets))
        parts = [InProcess.part_of(state, columns) for columns in self._crew.columns]
        found = self._ask_all("restore", {i: self._going_on(i, x) for i, x in enumerate(parts)})
        return [b for i in found for b in self._go_on(i, found[i])]

    def metrics(self) -> dict[str, float]:
        """What a line of the log says of replicas."""
        restarts, dropped = self.losses
        return {"workers/restarts": restarts, "workers/dropped": dropped}

    @property
    def losses(self) -> tuple[int, int]:
        away = self._missing | self._dropped
        columns = [self._crew.columns[i] for i in away]
        return self._restarts, sum(x.stop - x.start for x in columns)

    def close(self) -> None:
        """End every replica."""
        self._crew.close()

    @property
    def _working(self) -> list[int]:
        away = self._missing | self._dropped
        return [i for i in range(len(self._parts)) if i not in away]

    def _ask_all(self, what: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Ask all replicas that there are, and return their answers."""
        if not self._is_open:
            self._is_open = True
            self._crew.open()
            self._await_ready(range(len(self._parts)))
        for i in self._working:
            self._crew.ask(i, what, *given.get(i, ()))
        return self._hear(self._working)

    def _await_ready(self, numbers: Iterable[int]) -> None:
        """Return once all of them are ready; one that fails in its start ends the run."""
        begun, owing = time.monotonic(), set(numbers)
        while owing:
            heard = self._crew.hear(owing, HEAR_SECONDS)
            owing -= heard.keys()
            for answer in heard.values():
                if isinstance(answer, WorkerError):
                    raise answer
            self._watch()
            self._check_start(begun, min(owing, default=0))

    def _check_start(self, begun: float, i: int) -> None:
        """Raise where a replica has been waited for since `begun`, for too long or in vain."""
        limit = self._limits.start_timeout
        try:
            check(begun, begun + (limit or math.inf), "remote replicas")
        except WaitedTooLong:
            raise WorkerError(
                f"remote replica {i}",
                f"was not ready after {limit:g} s (has the cluster a free CPU for it?); "
                f"{START_LIMIT} sets how long it may take",
            ) from None

    def _take_in(self) -> None:
        """Let those begin that were asked for in the place of lost ones and are ready now."""
        begun = time.monotonic()
        while self._missing:
            wait = 0.0 if self._working else HEAR_SECONDS  # there would be nothing but empty rows
            heard = self._crew.hear(self._missing, wait)
            for i, answer in heard.items():
                self._missing.discard(i)
                if isinstance(answer, WorkerError):
                    self._lose(i, answer)
                elif self._at_start:  # row 0, which the lost one may have written, comes anew
                    self._crew.ask(i, "reset")
                    for arrived in self._hear([i]).values():
                        self.window.slots[-1].row[self._crew.columns[i]] = arrived
                else:
                    self._crew.ask(i, "restore", *self._going_on(i, self._lost(i)))
                    for answer in self._hear([i]).values():
                        self._go_on(i, answer)
            if self._working:
                return
            self._watch()
            self._check_start(begun, min(self._missing, default=0))

    def _hear(self, numbers: Sequence[int]) -> dict[int, Any]:
        """Their answers, without those that were lost."""
        found: dict[int, Any] = {}
        begun, owing = time.monotonic(), set(numbers)
        while owing:
            heard = self._crew.hear(owing, HEAR_SECONDS)
            owing -= heard.keys()
            for i, answer in heard.items():
                if isinstance(answer, WorkerError):
                    self._lose(i, answer)
                else:
                    found[i] = answer
            self._watch()
            check(begun, math.inf, "remote replicas")
        return found

    def _lose(self, i: int, error: WorkerError) -> None:
        """Go on without a replica, or until another is there, if that is how it should be."""
        if self._limits.on_worker_failure == "drop":
            self._dropped.add(i)
            if len(self._dropped) == len(self._parts):
                raise error
        elif self._limits.may_restart(self._restarts, error):
            self._restarts += 1
            self._missing.add(i)
            self._crew.replace(i)
        else:
            raise error

    def _lost(self, i: int) -> dict[str, Any]:
        """The snapshot of environments of which nothing is left but how often they were reset.

        A lost replica did so unseen at most T times more.
        """
        return lost(self._resets[self._crew.columns[i]] + self.window.horizon)

    def _going_on(self, i: int, envs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a replica needs to go on: of its columns what the next window needs, and these."""
        at, carry = self._crew.columns[i], self.window.carry()
        carried = {"rows": carry["rows"][:, at], "state": self._fed(i), "start": carry["start"]}
        return carried, envs

    def _fed(self, i: int) -> Any:
        """The state [b, ...] that a replica is fed next: the learner may have a part in it."""
        return as_arrays(tree_map(lambda x: x[self._crew.columns[i]], self.window.state))

    def _go_on(self, i: int, answer: tuple[list[int], Any]) -> list[int]:
        """Take up where a replica went on; returns the columns that were cut."""
        cut, arrived = answer
        self.window.slots[-1].row[self._crew.columns[i]] = arrived
        return cut

    def _place(self, part: Any, given: Collected) -> None:
        """Put what a replica collected where it belongs."""
        for t, slot in enumerate(part.slots):
            slot.row[:] = given.rows[t]
        for t, state in given.kept:
            part.keep(t, _tensors(state))
        part.finish(_tensors(given.state))
        first = part.columns.start
        self.infos |= {(t, first + b): x for (t, b), x in given.infos.items()}

    def _leave_empty(self, part: Any) -> None:
        """Write rows of no episode, which nothing learns from, where nobody was at work."""
        rows = [slot.row for slot in part.slots]
        for row, next_row in pairwise(rows):
            self._blank.write(row, next_row)
            for leaf in tree_leaves((row.action, row.info)):
                leaf[...] = 0
        part.finish(tree_map(lambda x: x[part.columns], self._initial_state))


def _tensors(state: Any) -> Any:
    """Tensors of arrays that may be another program's to read, but not to write."""
    return as_tensors(tree_map(np.copy, state))
