"""Environments one by one: what is done to one column, by name in errors and under a watch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

import gymnasium

from rlpyt.arrays import tree_items
from rlpyt.envs.actions import action_reader
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import EnvironmentFault, warn_beside
from rlpyt.noise import ResetSeeds
from rlpyt.processes.heart import CLOSE, RESET, RESTORE, STEP
from rlpyt.rows import Row
from rlpyt.vector.action_log import ActionLog
from rlpyt.vector.calls import Calls
from rlpyt.vector.not_finite import NotFinite
from rlpyt.vector.values import flag, record


@final
class Singles:
    """B environments, each with its seeds, its resets and the actions of its episode.

    Attributes:
        write: an observation into a column of rows.
        read: a row's actions, as environments take them.
        resets: begun so far, by column.
        log: the actions of each column's episode, which whoever steps it appends.
        extras: whether a mask or numbers of infos are recorded.

    Args:
        envs: the environments, one a column.
        spec: what they observe and how they act.
        seeds: gives the seed of reset k of a column.
        calls: what is said of a call into one of them.
        resets: [B] int64, where the resets of each column are counted; None: in memory of its own.
        drop: give up episodes in which a NaN or an infinity arrives.
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, Any]],
        spec: EnvSpec,
        seeds: ResetSeeds,
        calls: Calls,
        resets: Any = None,
        drop: bool = False,
    ) -> None:
        self.envs, self.spec, self.calls, self._seeds = list(envs), spec, calls, seeds
        self.write = observation_writer(envs[0].observation_space, spec.observation)
        self.read = action_reader(envs[0].action_space, spec.action)
        # Resets begun, per column: one that failed is not done again in the same way.
        self.resets: Any = [0] * len(envs) if resets is None else memoryview(resets)
        self.log = ActionLog(len(envs))
        self.extras = spec.mask is not None or bool(spec.env_info)
        self._not_finite = NotFinite(spec, calls.numbers) if drop else None

    def reset(self, row: Row, b: int) -> None:
        """Begin the next episode of column b whose first observation is to be used."""
        self._reset_once(row, b)
        if self._not_finite is not None:
            row.reward[b] = 0  # what lies there is of another row
            while self._not_finite.field(row, b):
                self._tell_of_lost(row, b)
                self._reset_once(row, b)

    def seed_spaces(self, b: int) -> None:
        """Begin the generators of column b's spaces anew, from which some environments draw.

        `reset(seed=...)` does not, and on their own they begin differently in every process.
        """
        env, seeds = self.envs[b], self._seeds.spaces(self.calls.numbers[b], self.resets[b])
        for space, seed in zip((env.action_space, env.observation_space), seeds, strict=True):
            space.seed(seed)

    def begin_anew(self, row: Row) -> list[int]:
        """Reset the columns of a row that arrived in which something is not finite.

        Returns:
            These columns.
        """
        if self._not_finite is None:
            return []
        given_up = self._not_finite.columns(row)
        for b in given_up:
            self._tell_of_lost(row, b)
            self.reset(row, b)
        return given_up

    def step(self, row: Row, b: int, action: Any) -> bool:
        """Step one environment, and write what it observes; whether its episode is over."""
        self.calls.beat(b, STEP)
        try:
            value, _, terminated, truncated, info = self.envs[b].step(action)
            self.write(row.observation, b, value)
            if self.extras:
                record(self.spec, row, b, value, info)
            unusable = self._not_finite is not None and bool(self._not_finite.field(row, b))
            return flag(terminated) or flag(truncated) or unusable
        except BaseException as error:
            self.calls.name(error, b, f"step({action!r})")
            raise

    def bring_back(self, b: int, row: Row, check: Row) -> bool:
        """Step column b through its current episode; True where it ends at what `row` observed.

        Args:
            check: a copy of `row`, into which the last observation is written.
        """
        actions = self.log.episode(b)
        if actions is None:
            return False
        env = self.envs[b]
        try:
            with self.calls.no_exit(b, "stepped again,"):
                observation, _ = env.reset(seed=self.seed(b, self.resets[b] - 1))
                for action in actions:
                    self.calls.beat(b, RESTORE)
                    observation, *_ = env.step(self.read(action)[b])
                self.write(check.observation, b, observation)
        except Exception as error:
            name = self.calls.short(b)
            what = f"{name} failed while it was stepped again: {error!r}"
            warnings.warn(what, RuntimeWarning, stacklevel=3)
            return False
        return _same(row, check, b)

    def seed(self, b: int, k: int) -> int:
        """Of reset k of column b."""
        return self._seeds(self.calls.numbers[b], k)

    def close(self) -> None:
        """Close every environment; one that fails is told of, and masks nothing."""
        failed: list[str] = []
        for b, env in enumerate(self.envs):
            self.calls.beat(b, CLOSE)
            try:
                with self.calls.no_exit(b, "close()"):
                    env.close()
            except Exception as error:
                name = self.calls.short(b)
                failed.append(f"{name} could not be closed: {error!r}")
        self.envs = []
        self.calls.rest()
        for what in failed:
            warn_beside(what)

    def _reset_once(self, row: Row, b: int) -> None:
        count = self.resets[b]
        seed = self.seed(b, count)
        self.resets[b] = count + 1
        self.calls.beat(b, RESET)
        try:
            observation, info = self.envs[b].reset(seed=seed)
            self.write(row.observation, b, observation)
            if self.extras:
                record(self.spec, row, b, observation, info)
        except BaseException as error:
            self.calls.name(error, b, f"reset(seed={seed})")
            raise
        self.log.begin(b)

    def _tell_of_lost(self, row: Row, b: int) -> None:
        """Tell of what arrived in column b and is not finite; raise where nothing else does."""
        assert self._not_finite is not None
        reset, steps = self.resets[b] - 1, self.log.steps(b)
        call = f"reset(seed={self.seed(b, reset)})"
        self._not_finite.tell(row, b, f"step {steps} after {call}" if steps else call)
        try:
            self._not_finite.count(b, reset, steps)
        except EnvironmentFault as error:
            self.calls.name(error, b, call)
            raise


def _same(row: Row, check: Row, b: int) -> bool:
    """Whether column b of both rows observed the same, bit for bit."""
    pairs = zip(tree_items(row.observation), tree_items(check.observation), strict=True)
    return all(x[b].tobytes() == y[b].tobytes() for (_, x), (_, y) in pairs)
