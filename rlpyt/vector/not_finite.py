"""A NaN or an infinity of one environment, where `nan_policy` is drop: it is given up in time.

What is not finite never becomes a row. Whoever steps the environment looks at what arrived before
anybody else sees it, cuts the episode as if its process had been lost, and tells of it.
"""

from __future__ import annotations

import warnings
from operator import attrgetter
from typing import final

import numpy as np

from rlpyt.envs.spec import EnvSpec, leaf_form, leaves
from rlpyt.errors import EnvironmentFault
from rlpyt.rows import Row
from rlpyt.vector.lost import Blank

MOST_EPISODES = 10  # of an environment, in a row without one finite step; then the run ends
MOST_ROWS = 10_000  # of a pool, in a row with every column given up; as long as episodes last


@final
class NotFinite:
    """Finds the columns of a row whose reward or observation no learner can use.

    Args:
        spec: of the environments.
        numbers: of these columns among those of the run.
    """

    def __init__(self, spec: EnvSpec, numbers: range) -> None:
        self._id, self._numbers = spec.id, numbers
        forms = [(path, np.dtype(leaf_form(leaf)[1])) for path, leaf in leaves(spec.observation)]
        observed = [f"observation.{path}".rstrip(".") for path, dtype in forms if dtype.kind == "f"]
        self._leaves = [(name, attrgetter(name)) for name in ("reward", *observed)]
        self._told: set[int] = set()
        self._in_vain = [(-1, 0) for _ in numbers]  # by column: newest reset, how many in a row

    def columns(self, row: Row) -> list[int]:
        """The columns of a row, [B, ...], that are not finite."""
        found: set[int] = set()
        for _, leaf in self._leaves:
            finite = np.isfinite(leaf(row))
            if np.count_nonzero(finite) < finite.size:
                found.update(np.flatnonzero(~finite.reshape(len(finite), -1).all(-1)).tolist())
        return sorted(found)

    def field(self, row: Row, b: int) -> str:
        """The first field of column b that is not finite, such as "observation.image"; or ""."""
        wrong = (name for name, leaf in self._leaves if not np.isfinite(leaf(row)[b]).all())
        return next(wrong, "")

    def tell(self, row: Row, b: int, where: str) -> None:
        """Warn of what arrived in column b, the first time.

        Args:
            where: "step 3 after reset(seed=5)".
        """
        if b in self._told:
            return
        self._told.add(b)
        name = self.field(row, b)
        warnings.warn(
            f"{name} of environment {self._numbers[b]} ({self._id}) is not finite at {where}: "
            f"{attrgetter(name)(row)[b]}; its episode is cut there, as --nan-policy drop has it "
            "(rollout/episodes_cut counts them; of this environment no more are told of)",
            stacklevel=3,
        )

    def count(self, b: int, reset: int, steps: int) -> None:
        """Raise where column b has begun MOST_EPISODES episodes in a row without one finite step.

        Args:
            reset: number of that by which the episode began.
            steps: up to what was not finite; 0 where that is what the reset observed.
        """
        before, in_vain = self._in_vain[b]
        in_vain = in_vain + 1 if steps < 2 and before == reset - 1 else 1
        self._in_vain[b] = reset, in_vain
        if in_vain == MOST_EPISODES:
            raise EnvironmentFault(
                f"{MOST_EPISODES} episodes in a row have ended with their first step, not finite; "
                "mend the environment: there is nothing that --nan-policy drop could keep"
            )


@final
class Dropped:
    """Columns of a pool that were given up: of no episode, until the pool itself begins another.

    Args:
        spec: of the environments.
        numbers: of the pool's columns among those of the run.
    """

    def __init__(self, spec: EnvSpec, numbers: range) -> None:
        self._not_finite, self._blank = NotFinite(spec, numbers), Blank(spec)
        self._id, self._gone = spec.id, np.zeros(len(numbers), np.bool_)
        self._sent: Row | None = None
        self._empty = 0  # rows in a row of which every column was given up

    def begin(self, row: Row) -> None:
        """Take up a row [B, ...] that arrived with a reset of all columns."""
        self._gone[:], self._sent = False, None
        self.recv(row, self._gone)

    def send(self, row: Row) -> np.ndarray:
        """The columns [B] that the pool resets when it is sent an answered row."""
        self._sent = row
        return row.last & ~self._gone

    def recv(self, row: Row, ended: np.ndarray) -> np.ndarray:
        """Empty what is given up in a row that arrived; those of the others that `ended` there.

        Args:
            ended: [B], episodes of the pool.
        """
        gone = self._gone.copy()
        for b in self._not_finite.columns(row):
            self._not_finite.tell(row, b, "a row of its pool")
            gone[b] = True
        sent = row if self._sent is None else self._sent
        over = sent.last & ~self._gone  # by themselves: what follows cuts nothing
        for b in np.flatnonzero(gone).tolist():
            self._blank.write(sent[b : b + 1], row[b : b + 1])
            row.cut[b] = not over[b]
        self._empty = self._empty + 1 if gone.all() else 0
        if self._empty == MOST_ROWS:
            raise EnvironmentFault(
                f"no environment of the pool of {self._id} gave a finite row, or began another "
                f"episode, in {MOST_ROWS} rows; mend them, or choose --vectorization in-process, "
                "which begins the next episode at once"
            )
        self._gone = gone & ~ended
        return ended & ~gone
