"""Environments stepped here, one after the other: the fastest for cheap ones, the simplest for all.

`send(row, next_row)` executes the row's actions and writes what arrives into the next row, in
place. The step after a last row resets, so every episode keeps its final observation.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from rlpyt import stopping
from rlpyt.arrays import tree_items, tree_map
from rlpyt.envs.actions import action_reader
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import EnvironmentFault, StopAsked, warn_beside
from rlpyt.noise import ResetSeeds
from rlpyt.processes.heart import CLOSE, RESET, RESTORE, SNAPSHOT, STEP, Heart
from rlpyt.rows import Row
from rlpyt.vector import snapshots
from rlpyt.vector.action_log import ActionLog
from rlpyt.vector.calls import Calls, Step
from rlpyt.vector.not_finite import NotFinite
from rlpyt.vector.random_steps import RandomSteps
from rlpyt.vector.values import flag, number, record
from rlpyt.vector.values import numbers as numbers

Ended = Sequence[tuple[int, dict[str, float]]]  # column of a row, numbers of its episode's info


class InProcess:
    """B environments behind `reset`, `send` and `recv`.

    Args:
        envs: the environments, one a column.
        spec: what they observe and how they act (`envs.make.describe`).
        seeds: gives the seed of reset k of a column.
        columns: numbers of these columns among those of the run; None: they are all.
        total: how many columns the run has.
        heart: beats before each call of an environment, where somebody watches.
        resets: [B] int64, where it counts the resets of each column; None: in memory of its own.
        decorrelate: random steps that each takes at most before the first row; 0: none.
        drop: give up episodes in which a NaN or an infinity arrives.
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, Any]],
        spec: EnvSpec,
        seeds: ResetSeeds,
        *,
        columns: range | None = None,
        total: int | None = None,
        heart: Heart | None = None,
        resets: Any = None,
        decorrelate: int = 0,
        drop: bool = False,
    ) -> None:
        self.spec, self.num_envs = spec, len(envs)
        self.groups = (slice(0, self.num_envs),)
        numbers = columns or range(self.num_envs)
        self._calls = Calls(spec.id, numbers, total or numbers.stop, heart)
        self._ended: list[tuple[int, dict[str, float]]] = []  # numbers of ended episodes' infos
        self._envs, self._seeds = list(envs), seeds
        space = envs[0].observation_space
        self._write = observation_writer(space, spec.observation)
        self._read = action_reader(envs[0].action_space, spec.action)
        self._heart = heart
        self.beat_by_row()
        self._steps = self._calls.beating(self._steps)
        # Resets begun, per column: one that failed is not done again in the same way.
        self._resets: Any = [0] * self.num_envs if resets is None else memoryview(resets)
        self._log = ActionLog(self.num_envs)
        # Python's arrays refuse None, which NumPy takes for NaN; and are written in half the time.
        self._rewards = array("d", [0.0] * self.num_envs)
        self._rewards_read = np.frombuffer(self._rewards)  # the same memory
        self._cut: list[int] = []  # columns whose next row begins after a lost episode
        self._decorrelate = decorrelate
        self._extras = spec.mask is not None or bool(spec.env_info)
        self._not_finite = NotFinite(spec, numbers) if drop else None

    def beat_by_row(self) -> None:
        """Let steps have one heartbeat a row: of cheap environments those of each cost 1 %."""
        self._steps: list[Step] = [env.step for env in self._envs]

    def column(self, b: int) -> int:
        """The number of column b among those of the run."""
        return self._calls.numbers[b]

    def reset(self, row: Row) -> None:
        """Write the first observation of every column into `row`, reset 0 of each."""
        for b in range(self.num_envs):
            self._resets[b] = 0
        self.begin(row)

    def begin(self, row: Row) -> None:
        """Write the first row of new episodes, with the next reset of every column."""
        self._log, self._cut = ActionLog(self.num_envs), []
        for b in range(self.num_envs):
            self._reset(row, b)
        if self._decorrelate:
            self._step_at_random(row)
        self._calls.rest()
        row.reward[:] = 0
        row.first[:] = True
        row.terminated[:] = row.truncated[:] = row.cut[:] = False

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Execute `row.action` where the row is not last, reset where it is."""
        last, cut = row.last, self._cut
        if cut:
            last[cut] = True
        next_row.first[...] = last
        next_row.terminated.fill(False)
        next_row.truncated.fill(False)
        next_row.cut.fill(False)
        heart = self._heart
        if heart is not None:
            heart.beat(-1, STEP)
        actions = self._read(row.action)
        self._log.append(row.action)
        observation, write, rewards = next_row.observation, self._write, self._rewards
        columns = zip(self._steps, actions, last.tolist(), strict=True)
        for b, (step, action, over) in enumerate(columns):
            if over:
                self._reset(next_row, b)
                rewards[b] = 0.0
                continue
            try:
                value, reward, terminated, truncated, info = step(action)
                write(observation, b, value)
                try:
                    rewards[b] = reward  # type: ignore[call-overload]  # what else raises
                except TypeError:
                    rewards[b] = number(reward)
                if self._extras:
                    record(self.spec, next_row, b, value, info)
                if terminated is not False or truncated is not False:
                    next_row.terminated[b] = terminated = flag(terminated)
                    next_row.truncated[b] = truncated = flag(truncated)
                    if info and (terminated or truncated):
                        self._ended.append((b, numbers(info)))
            except BaseException as error:
                self._calls.name(error, b, f"step({action!r})")
                raise
        next_row.reward[...] = self._rewards_read
        lost = [*cut, *self._begun_anew(next_row)]
        if lost:
            # Not earlier: where a reset fails, who comes after this process finds them open.
            row.truncated[lost] = next_row.first[lost] = next_row.cut[lost] = True
            next_row.terminated[lost] = next_row.truncated[lost] = False
            self._ended = [x for x in self._ended if x[0] not in lost]
            self._cut = []
        if heart is not None:
            heart.rest()

    def recv(self, row: Row, group: int = 0) -> Ended:
        """What was sent for has arrived already: the columns whose episodes ended there."""
        if not self._ended:
            return ()
        ended, self._ended = self._ended, []
        return ended

    def cut(self, row: Row) -> list[int]:
        """Give up the episodes that are open at `row`: with the next row it becomes their last.

        That row, marked `cut`, begins another.

        Returns:
            The columns that were cut.
        """
        self._cut = np.flatnonzero(~row.last).tolist()
        return list(self._cut)

    @property
    def resets(self) -> np.ndarray:
        """[B] resets begun so far."""
        return np.array(self._resets)

    def render(self, column: int) -> Any:
        """The frame [H, W, 3] of one environment, or whatever its render() returns."""
        with self._calls.no_exit(column, "render()"):
            return self._envs[column].render()

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on exactly: an environment's own snapshot, or seed and actions."""
        own = {}
        for b, env in enumerate(self._envs):
            if snapshots.offers(env) and b not in self._cut:
                self._calls.beat(b, SNAPSHOT)
                with self._calls.no_exit(b, "snapshot()"):
                    own[str(self._calls.numbers[b])] = snapshots.snapshot(env)
        self._calls.rest()
        state = {"resets": self.resets, "log": self._log.snapshot(), "own": own}
        return state | ({"cut": np.array(self._cut)} if self._cut else {})

    merged = staticmethod(snapshots.merged)
    part_of = staticmethod(snapshots.part_of)

    def restore(self, state: dict[str, Any], row: Row) -> list[int]:
        """Bring every environment to where `row` arrived.

        An environment that offers snapshots is restored by its own. Another is reset with its
        episode's seed and stepped through the episode's actions; what it then observes is
        compared with `row`, bit for bit.

        A column that cannot be brought back is cut: with the next row `row` becomes the last of
        its episode. That row, marked `cut`, begins another.

        Returns:
            The columns that were cut.
        """
        if "log" not in state:
            state = self.part_of(state, slice(0, self.num_envs))
        for b, count in enumerate(np.asarray(state["resets"]).tolist()):
            self._resets[b] = count
        self._log = ActionLog.restored(state["log"], row.action)
        check = tree_map(np.copy, row)
        self._cut = [int(b) for b in state.get("cut", ())]  # once more: nothing came between
        for b, env in enumerate(self._envs):
            if b in self._cut:
                continue
            self._calls.beat(b, RESTORE)
            own = state["own"].get(str(self._calls.numbers[b]))
            if own is not None:
                with self._calls.no_exit(b, "restore()"):
                    env.reset(seed=self._seed(b, self._resets[b] - 1))
                    snapshots.restore(env, own)
            elif not self._brought_back(b, row, check) and not row.last[b]:
                self._cut.append(b)
        self._calls.rest()
        return list(self._cut)

    def metrics(self) -> dict[str, float]:
        """Nothing: what environments here take shows in the time of the loop."""
        return {}

    def close(self) -> None:
        """Close every environment; one that fails is told of, and masks nothing."""
        failed: list[str] = []
        for b, env in enumerate(self._envs):
            self._calls.beat(b, CLOSE)
            try:
                with self._calls.no_exit(b, "close()"):
                    env.close()
            except Exception as error:
                name = self._calls.short(b)
                failed.append(f"{name} could not be closed: {error!r}")
        self._envs = []
        self._calls.rest()
        for what in failed:
            warn_beside(what)

    def _step_at_random(self, row: Row) -> None:
        """Have every environment take random steps of its own number; `row` is what arrives then.

        All end together, and their actions are in the log: an episode that is open then can be
        brought back like any other.
        """
        most, draw = self._decorrelate, self._seeds.random_steps
        steps = [RandomSteps(self.spec, draw(number), most) for number in self._calls.numbers]
        tree_map(lambda x: x.fill(0), row.action)
        for left in range(max(own.count for own in steps), 0, -1):
            stepped = [b for b, own in enumerate(steps) if own.count >= left]
            for b in stepped:
                if steps[b].count == left:
                    self._log.begin(b)
                steps[b].answer(row, b)
            actions = self._read(row.action)
            self._log.append(row.action)
            for b in stepped:
                if stopping.is_asked():  # they may take longer than anybody wants to wait
                    raise StopAsked("stopped in the random steps before the first row")
                if self._ends(row, b, actions[b]):
                    self._reset(row, b)

    def _ends(self, row: Row, b: int, action: Any) -> bool:
        """Step one environment, and write what it observes; whether its episode is over."""
        self._calls.beat(b, STEP)
        try:
            value, _, terminated, truncated, info = self._envs[b].step(action)
            self._write(row.observation, b, value)
            if self._extras:
                record(self.spec, row, b, value, info)
            unusable = self._not_finite is not None and bool(self._not_finite.field(row, b))
            return flag(terminated) or flag(truncated) or unusable
        except BaseException as error:
            self._calls.name(error, b, f"step({action!r})")
            raise

    def _begun_anew(self, row: Row) -> list[int]:
        """Reset the columns of a row that arrived in which something is not finite.

        Returns:
            These columns.
        """
        if self._not_finite is None:
            return []
        given_up = self._not_finite.columns(row)
        for b in given_up:
            self._tell_of_lost(row, b)
            self._reset(row, b)
        return given_up

    def _tell_of_lost(self, row: Row, b: int) -> None:
        """Tell of what arrived in column b and is not finite; raise where nothing else does."""
        assert self._not_finite is not None
        reset, steps = self._resets[b] - 1, self._log.steps(b)
        call = f"reset(seed={self._seed(b, reset)})"
        self._not_finite.tell(row, b, f"step {steps} after {call}" if steps else call)
        try:
            self._not_finite.count(b, reset, steps)
        except EnvironmentFault as error:
            self._calls.name(error, b, call)
            raise

    def _reset(self, row: Row, b: int) -> None:
        """Begin the next episode of column b whose first observation is to be used."""
        self._reset_once(row, b)
        if self._not_finite is not None:
            row.reward[b] = 0  # what lies there is of another row
            while self._not_finite.field(row, b):
                self._tell_of_lost(row, b)
                self._reset_once(row, b)

    def _reset_once(self, row: Row, b: int) -> None:
        count = self._resets[b]
        seed = self._seed(b, count)
        self._resets[b] = count + 1
        self._calls.beat(b, RESET)
        try:
            observation, info = self._envs[b].reset(seed=seed)
            self._write(row.observation, b, observation)
            if self._extras:
                record(self.spec, row, b, observation, info)
        except BaseException as error:
            self._calls.name(error, b, f"reset(seed={seed})")
            raise
        self._log.begin(b)

    def _brought_back(self, b: int, row: Row, check: Row) -> bool:
        """Step column b through its current episode; True where it ends at what `row` observed.

        Args:
            check: a copy of `row`, into which the last observation is written.
        """
        actions = self._log.episode(b)
        if actions is None:
            return False
        env = self._envs[b]
        try:
            with self._calls.no_exit(b, "stepped again,"):
                observation, _ = env.reset(seed=self._seed(b, self._resets[b] - 1))
                for action in actions:
                    self._calls.beat(b, RESTORE)
                    observation, *_ = env.step(self._read(action)[b])
                self._write(check.observation, b, observation)
        except Exception as error:
            name = self._calls.short(b)
            what = f"{name} failed while it was stepped again: {error!r}"
            warnings.warn(what, RuntimeWarning, stacklevel=3)
            return False
        return _same(row, check, b)

    def _seed(self, b: int, k: int) -> int:
        """Of reset k of column b."""
        return self._seeds(self._calls.numbers[b], k)


def _same(row: Row, check: Row, b: int) -> bool:
    """Whether column b of both rows observed the same, bit for bit."""
    pairs = zip(tree_items(row.observation), tree_items(check.observation), strict=True)
    return all(x[b].tobytes() == y[b].tobytes() for (_, x), (_, y) in pairs)
