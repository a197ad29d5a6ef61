"""Refuses what no run can go on from: a NaN, an infinity, a row that allows no action."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import accumulate
from operator import attrgetter
from typing import final

import numpy as np

from rlpyt.arrays import tree_items
from rlpyt.envs.spec import Box, EnvSpec, MultiDiscrete, leaf_form, leaves, not_finite, outside
from rlpyt.errors import EnvironmentFault
from rlpyt.rows import Row

# What finds a leaf in rows; the least and the greatest that it may hold.
Range = tuple[Callable[[Row], np.ndarray], np.ndarray, np.ndarray]


@final
class Checks:
    """Looks at what arrived and at what was answered.

    Args:
        spec: of the environments.
        strict_bounds: whether an observation out of its declared bounds is an error; else it is
            told of once.
        first_column: number of the environment in column 0.
        finite: False lets what is not finite in what arrived pass.
    """

    def __init__(
        self, spec: EnvSpec, strict_bounds: bool, first_column: int = 0, finite: bool = True
    ) -> None:
        self._spec, self._strict, self._column = spec, strict_bounds, first_column
        self._finite = finite
        self._ranges = _ranges(spec)
        sizes = spec.action.nvec if isinstance(spec.action, MultiDiscrete) else (spec.mask_size,)
        self._choices = [0, *accumulate(sizes[:-1])]  # where each one begins in a mask

    def arrived(self, rows: Row, first: int) -> None:
        """Refuse NaN and infinity in what arrived; say once when bounds are not kept.

        Args:
            rows: numpy [n, B, ...].
            first: number of the first of them.
        """
        reward = rows.reward
        if self._finite and np.count_nonzero(np.isfinite(reward)) < reward.size:
            self._raise("reward", reward, first)
        for leaf, least, greatest in self._ranges:
            x = leaf(rows)
            within = x >= least
            within &= x <= greatest  # a NaN is not, nor an infinity
            if np.count_nonzero(within) < within.size:
                self._look_closer(rows, first)
                break  # it has looked at every leaf
        if rows.mask is not None:
            self._allowed(rows, first)

    def answered(self, row: Row, n: int, begin: int = 0) -> None:
        """Refuse NaN and infinity in an answer before it is executed.

        Args:
            row: number n, numpy [b, ...] of the columns from `begin` on.
        """
        for path, values in tree_items(row.action):
            wrong = ~np.isfinite(values).reshape(len(values), -1).all(-1) & ~row.last
            if wrong.any():
                b = int(wrong.argmax())
                raise FloatingPointError(
                    f"{f'action.{path}'.rstrip('.')} for environment "
                    f"{self._column + begin + b} ({self._spec.id}) is not "
                    f"finite at row {n}: {values[b]}; the network diverged or its weights are "
                    "damaged: lower --lr, or start from an earlier checkpoint"
                )

    def _look_closer(self, rows: Row, first: int) -> None:
        """Some leaf of the observation is not within its range: why?"""
        spec = self._spec
        if self._finite:
            for path in not_finite(spec.observation, rows.observation, "observation"):
                self._raise(path, attrgetter(path)(rows), first)
        beyond = outside(spec.observation, rows.observation, "observation")
        if not beyond:
            return
        what = f"{spec.id}: {', '.join(beyond)} left the bounds that the observation space declares"
        if self._strict:
            raise EnvironmentFault(f"{what}; mend the space or drop --strict-bounds")
        warnings.warn(f"{what}; training goes on with the values as they are", stacklevel=4)
        self._ranges = _ranges(spec, bounds=False) if self._finite else []

    def _allowed(self, rows: Row, first: int) -> None:
        allowed = np.logical_or.reduceat(rows.mask, self._choices, axis=-1).all(-1)  # [n, B]
        empty = ~allowed & ~rows.last
        if empty.any():
            t, b = np.argwhere(empty)[0]
            raise EnvironmentFault(
                f"{self._name(b)} allowed no action at row {first + t}: its action mask is all "
                "false (or that of one component of a MultiDiscrete); a state without a valid "
                "action must end the episode"
            )

    def _raise(self, field: str, values: np.ndarray, first: int) -> None:
        flat = np.isfinite(values).reshape(*values.shape[:2], -1).all(-1)
        t, b = np.argwhere(~flat)[0]
        raise EnvironmentFault(
            f"{field} of {self._name(b)} is not finite at row {first + t}: {values[t, b]}; mend "
            "the environment, or wrap it so that it ends the episode first; --nan-policy drop has "
            "training go on with its next episode"
        )

    def _name(self, b: int) -> str:
        return f"environment {self._column + b} ({self._spec.id})"


def _ranges(spec: EnvSpec, bounds: bool = True) -> list[Range]:
    """Between what every leaf of an observation has to lie; those that cannot leave it left out.

    Args:
        bounds: keep to those that the space declares; else to finite numbers alone.
    """
    ranges: list[Range] = []
    for path, leaf in leaves(spec.observation):
        dtype = np.dtype(leaf_form(leaf)[1])
        if not isinstance(leaf, Box) or dtype.kind == "b":
            continue
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        # Stored values were rounded to float32; so must be what they are compared with.
        low, high = (x.clip(limits.min, limits.max) for x in (leaf.low, leaf.high))
        if not bounds:
            low, high = np.full_like(low, limits.min), np.full_like(high, limits.max)
        if dtype.kind == "f":
            low, high = low.astype(dtype), high.astype(dtype)
        if dtype.kind == "f" or (low > limits.min).any() or (high < limits.max).any():
            ranges.append((attrgetter(f"observation.{path}".rstrip(".")), low, high))
    return ranges
