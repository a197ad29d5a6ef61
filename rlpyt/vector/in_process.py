"""Environments stepped here, one after the other: the fastest for cheap ones, the simplest for all.

`send(row, next_row)` executes the row's actions and writes what arrives into the next row, in
place. The step after a last row resets, so every episode keeps its final observation.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from rlpyt import stopping
from rlpyt.arrays import tree_map
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import StopAsked
from rlpyt.noise import ResetSeeds
from rlpyt.processes.heart import RESTORE, SNAPSHOT, STEP, Heart
from rlpyt.rows import Row
from rlpyt.vector import snapshots
from rlpyt.vector.action_log import ActionLog
from rlpyt.vector.calls import Calls, Step
from rlpyt.vector.random_steps import RandomSteps
from rlpyt.vector.singles import Singles
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
        self._calls = calls = Calls(spec.id, numbers, total or numbers.stop, heart)
        self._singles = Singles(envs, spec, seeds, calls, resets, drop)
        self._ended: list[tuple[int, dict[str, float]]] = []  # numbers of ended episodes' infos
        self._seeds = seeds
        self._heart = heart
        self.beat_by_row()
        self._steps = calls.beating(self._steps)
        # Python's arrays refuse None, which NumPy takes for NaN; and are written in half the time.
        self._rewards = array("d", [0.0] * self.num_envs)
        self._rewards_read = np.frombuffer(self._rewards)  # the same memory
        self._cut: list[int] = []  # columns whose next row begins after a lost episode
        self._decorrelate = decorrelate

    def beat_by_row(self) -> None:
        """Let steps have one heartbeat a row: of cheap environments those of each cost 1 %."""
        self._steps: list[Step] = [env.step for env in self._singles.envs]

    def column(self, b: int) -> int:
        """The number of column b among those of the run."""
        return self._calls.numbers[b]

    def steps(self, env: gymnasium.Env[Any, Any]) -> bool:
        """Whether this is an innermost environment of its own, and not closed."""
        return any(one.unwrapped is env for one in self._singles.envs)

    def reset(self, row: Row) -> None:
        """Write the first observation of every column into `row`, reset 0 of each."""
        for b in range(self.num_envs):
            self._singles.resets[b] = 0
        self.begin(row)

    def begin(self, row: Row) -> None:
        """Write the first row of new episodes, with the next reset of every column."""
        self._singles.log, self._cut = ActionLog(self.num_envs), []
        for b in range(self.num_envs):
            self._singles.seed_spaces(b)
            self._singles.reset(row, b)
        if self._decorrelate:
            self._step_at_random(row)
        self._calls.rest()
        row.reward[:] = 0
        row.first[:] = True
        row.terminated[:] = row.truncated[:] = row.cut[:] = False

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Execute `row.action` where the row is not last, reset where it is."""
        last, cut, singles = row.last, self._cut, self._singles
        if cut:
            last[cut] = True
        next_row.first[...] = last
        next_row.terminated.fill(False)
        next_row.truncated.fill(False)
        next_row.cut.fill(False)
        heart = self._heart
        if heart is not None:
            heart.beat(-1, STEP)
        actions = singles.read(row.action)
        singles.log.append(row.action)
        observation, rewards = next_row.observation, self._rewards
        write, extras = singles.write, singles.extras
        columns = zip(self._steps, actions, last.tolist(), strict=True)
        for b, (step, action, over) in enumerate(columns):
            if over:
                singles.reset(next_row, b)
                rewards[b] = 0.0
                continue
            try:
                value, reward, terminated, truncated, info = step(action)
                write(observation, b, value)
                try:
                    rewards[b] = reward  # type: ignore[call-overload]  # what else raises
                except TypeError:
                    rewards[b] = number(reward)
                if extras:
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
        lost = [*cut, *singles.begin_anew(next_row)]
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
        return np.array(self._singles.resets)

    def render(self, column: int) -> Any:
        """The frame [H, W, 3] of one environment, or whatever its render() returns."""
        with self._calls.no_exit(column, "render()"):
            return self._singles.envs[column].render()

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on exactly: an environment's own snapshot, or seed and actions."""
        own = {}
        for b, env in enumerate(self._singles.envs):
            if snapshots.offers(env) and b not in self._cut:
                self._calls.beat(b, SNAPSHOT)
                try:
                    own[str(self._calls.numbers[b])] = snapshots.snapshot(env)
                except BaseException as error:
                    self._calls.name(error, b, "snapshot()")
                    raise
        self._calls.rest()
        state = {"resets": self.resets, "log": self._singles.log.snapshot(), "own": own}
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
        singles = self._singles
        for b, count in enumerate(np.asarray(state["resets"]).tolist()):
            singles.resets[b] = count
        singles.log = ActionLog.restored(state["log"], row.action)
        check = tree_map(np.copy, row)
        self._cut = [int(b) for b in state.get("cut", ())]  # once more: nothing came between
        for b, env in enumerate(singles.envs):
            singles.seed_spaces(b)
            if b in self._cut:
                continue
            self._calls.beat(b, RESTORE)
            own = state["own"].get(str(self._calls.numbers[b]))
            if own is not None:
                with self._calls.no_exit(b, "restore()"):
                    env.reset(seed=singles.seed(b, singles.resets[b] - 1))
                    snapshots.restore(env, own)
            elif not singles.bring_back(b, row, check) and not row.last[b]:
                self._cut.append(b)
        self._calls.rest()
        return list(self._cut)

    def metrics(self) -> dict[str, float]:
        """Nothing: what environments here take shows in the time of the loop."""
        return {}

    def close(self) -> None:
        """Close every environment; one that fails is told of, and masks nothing."""
        self._singles.close()

    def _step_at_random(self, row: Row) -> None:
        """Have every environment take random steps of its own number; `row` is what arrives then.

        All end together, and their actions are in the log: an episode that is open then can be
        brought back like any other.
        """
        singles, most, draw = self._singles, self._decorrelate, self._seeds.random_steps
        steps = [RandomSteps(self.spec, draw(number), most) for number in self._calls.numbers]
        tree_map(lambda x: x.fill(0), row.action)
        for left in range(max(own.count for own in steps), 0, -1):
            stepped = [b for b, own in enumerate(steps) if own.count >= left]
            for b in stepped:
                if steps[b].count == left:
                    singles.log.begin(b)
                steps[b].answer(row, b)
            actions = singles.read(row.action)
            singles.log.append(row.action)
            for b in stepped:
                if stopping.is_asked():  # they may take longer than anybody wants to wait
                    raise StopAsked("stopped in the random steps before the first row")
                if singles.step(row, b, actions[b]):
                    singles.reset(row, b)
