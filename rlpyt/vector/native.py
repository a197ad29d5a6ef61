"""Environments that step together in a pool of another library, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from rlpyt.envs.actions import action_reader
from rlpyt.envs.exits import no_exit
from rlpyt.envs.masks import MASK, valid_actions
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spec import Box, EnvSpec
from rlpyt.errors import EnvironmentFault
from rlpyt.noise import ResetSeeds
from rlpyt.rows import Row
from rlpyt.vector.in_process import Ended
from rlpyt.vector.not_finite import Dropped
from rlpyt.vector.pools import Infos, Pool


class NativeEnvironments:
    """A pool behind `reset`, `send` and `recv`.

    Pools have no state that could be saved: a resumed run cuts the episodes that were open, and
    `exact` says so.

    Args:
        pool: see `pool_for` and AtariPool.
        spec: what the environments observe and how they act.
        seeds: gives the seed of reset k of a column. Only resets that start a run are seeded; the
            later ones are the pool's own.
        columns: numbers of these columns among those of the run; None: they are all.
        drop: give up episodes in which a NaN or an infinity arrives. No pool begins another in one
            column: there are rows of no episode until it does so by itself.
    """

    exact = False

    def __init__(
        self,
        pool: Pool,
        spec: EnvSpec,
        seeds: ResetSeeds,
        columns: range | None = None,
        drop: bool = False,
    ) -> None:
        self.spec, self.num_envs = spec, pool.num_envs
        self.groups = (slice(0, self.num_envs),)
        self._numbers = columns or range(self.num_envs)
        self._pool, self._seeds = pool, seeds
        self._starts = 0  # times that all columns were reset
        self._cut: np.ndarray | None = None  # [B]; after a restore, until the next row
        self._cut_row: Any = None  # that was sent then
        self._last = np.zeros(pool.num_envs, np.bool_)  # of the row that was sent
        self._batched = batch_space(pool.observation_space, pool.num_envs)
        self._write = observation_writer(pool.observation_space, spec.observation)
        self._read = action_reader(pool.action_space, spec.action)
        self._dropped = Dropped(spec, self._numbers) if drop else None

    def reset(self, row: Row) -> None:
        """Write the first observation of every column into `row`."""
        self._starts = 0
        self._start(row, np.zeros(self.num_envs, np.bool_))

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Have `row.action` executed where the row is not last; the others are reset."""
        if self._cut is not None:
            self._cut_row = row
            return
        self._last = row.last
        if self._dropped is not None:
            self._last = self._dropped.send(row)
        actions = self._batch(self._read(row.action))
        with no_exit(f"{self.spec.id}, in a step of its pool,"):
            self._pool.send(actions, self._last)

    def recv(self, row: Row, group: int = 0) -> Ended:
        """Wait for what was sent for, and write it into `row`; whose episodes ended there."""
        if self._cut is not None:
            self._start(row, self._cut)
            self._cut_row.truncated[self._cut] = True
            self._cut = None
            return ()
        with no_exit(f"{self.spec.id}, in a step of its pool,"):
            observation, reward, terminated, truncated, infos = self._pool.recv()
        reward = self._one_each(reward, "rewards")
        terminated = self._one_each(terminated, "terminations") != 0
        truncated = self._one_each(truncated, "truncations") != 0
        last, ended = self._last, terminated | truncated
        if (last & ended).any():
            b = self._numbers[int((last & ended).argmax())]
            raise EnvironmentFault(
                f"environment {b} ({self.spec.id}) ended an episode in the step that resets it; "
                "its pool does not reset in the step after an episode's end"
            )
        row.reward[:] = np.where(last, 0, reward)
        row.terminated[:], row.truncated[:] = terminated, truncated
        row.first[:], row.cut[:] = last, False
        self._arrived(row, observation, infos)
        if self._dropped is not None:
            ended = self._dropped.recv(row, ended)
        if not (infos and ended.any()):
            return ()
        return [(b, _numbers(infos, b)) for b in np.flatnonzero(ended).tolist()]

    def snapshot(self) -> dict[str, Any]:
        """How often all columns were reset, so that the next time begins other episodes."""
        return {"starts": np.array(self._starts)}

    @staticmethod
    def merged(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The snapshot of all columns, of those of some each: groups are reset together."""
        return states[0]

    @staticmethod
    def part_of(state: dict[str, Any], columns: slice) -> dict[str, Any]:
        """Of the snapshot of all columns that of some."""
        return state

    def restore(self, state: dict[str, Any], row: Row) -> list[int]:
        """Cut every open episode: with the next row `row` becomes its last; that begins another.

        Returns:
            The columns that were cut.
        """
        # Of environments that were stepped one by one: that often one of them was reset.
        self._starts = int(state["starts"] if "starts" in state else np.max(state["resets"]))
        self._cut = cut = ~row.last
        return np.flatnonzero(cut).tolist()

    def metrics(self) -> dict[str, float]:
        """Nothing: what the pool takes shows in the time of the loop."""
        return {}

    def close(self) -> None:
        with no_exit(f"{self.spec.id}, while its pool was closed,"):
            self._pool.close()

    def _start(self, row: Row, cut: np.ndarray) -> None:
        """Reset all columns; the episodes before were cut where `cut` [B]."""
        seeds = [self._seeds(b, self._starts) for b in self._numbers]
        self._starts += 1
        with no_exit(f"{self.spec.id}, in a reset of its pool,"):
            observation, infos = self._pool.reset(seeds)
        row.reward[:] = 0
        row.terminated[:] = row.truncated[:] = False
        row.first[:], row.cut[:] = True, cut
        self._arrived(row, observation, infos)
        if self._dropped is not None:
            self._dropped.begin(row)

    def _one_each(self, values: Any, what: str) -> np.ndarray:
        """One number of each column, [B]; also of a list, or of [B, 1]."""
        array = np.asarray(values)
        if array.dtype.kind not in "biuf" or array.size != self.num_envs:
            raise EnvironmentFault(
                f"{self.spec.id}: its pool gave {what} of dtype {array.dtype} and shape "
                f"{array.shape}; one number of each of its {self.num_envs} environments is needed"
            )
        return array.reshape(self.num_envs)

    def _batch(self, actions: list[Any]) -> Any:
        """B actions as the pool takes them: arrays [B, ...] in the form of the action space."""
        space = self._pool.action_space
        if isinstance(space, Discrete):
            return np.array(actions, space.dtype)
        return concatenate(space, actions, create_empty_array(space, self.num_envs))

    def _arrived(self, row: Row, observation: Any, infos: Infos) -> None:
        spec, n = self.spec, self.num_envs
        storage = row.observation
        if (
            isinstance(spec.observation, Box)
            and isinstance(observation, np.ndarray)
            and observation.dtype == self._pool.observation_space.dtype
            and observation.shape == storage.shape
        ):
            storage[:] = observation
        else:
            for b, value in enumerate(iterate(self._batched, observation)):
                self._write(storage, b, value)
        if spec.mask is not None:
            source = observation if spec.mask == "observation" else infos
            row.mask[:] = True
            for b, mask in _present(source, MASK, n):
                row.mask[b] = valid_actions(mask, spec.mask_size)
        for name in spec.env_info:
            row.env_info[name][:] = np.nan
            for b, value in _present(infos, name, n):
                row.env_info[name][b] = value


def _present(source: Any, name: str, n: int) -> Iterator[tuple[int, Any]]:
    """(column, value) of those that have a value of this name."""
    values = source.get(name)
    if values is None:
        return
    present = source.get(f"_{name}")
    for b in range(n):
        if present is None or present[b]:
            yield b, values[b]


def _numbers(infos: Infos, b: int) -> dict[str, float]:
    """Column b's numeric scalars; text, arrays and None are left out."""
    return {
        name: float(values[b])
        for name, values in infos.items()
        if isinstance(values, np.ndarray)
        and values.ndim == 1
        and values.dtype.kind in "biuf"
        and not name.startswith("_")
        and (f"_{name}" not in infos or infos[f"_{name}"][b])
    }
