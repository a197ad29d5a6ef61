"""Random steps that an environment takes before a run begins, so that columns are not in step.

How many, and which actions, is a function of (root seed, column): the same whoever steps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import final

import numpy as np

from rlpyt.arrays import tree_leaves
from rlpyt.envs.spec import Box, Discrete, EnvSpec, Leaf, MultiDiscrete, leaf_form, leaves
from rlpyt.rows import Row


@final
class RandomSteps:
    """The steps of one column.

    Args:
        spec: of the environment; actions are uniform over its space, and those that its mask
            allows; normal where a coordinate has no two bounds.
        generator: draws them, and their number.
        most: they are 1 to so many.
    """

    def __init__(self, spec: EnvSpec, generator: np.random.Generator, most: int) -> None:
        self.count = int(generator.integers(1, most + 1))
        self._generator, self._masked = generator, spec.mask is not None
        self._parts = [leaf for _, leaf in leaves(spec.action)]

    def answer(self, row: Row, b: int) -> None:
        """Write the next action into column b of a row, which has arrived."""
        mask = row.mask[b] if self._masked else None
        for stored, part in zip(tree_leaves(row.action), self._parts, strict=True):
            stored[b] = self._draw(part, mask)

    def _draw(self, part: Leaf, mask: np.ndarray | None) -> np.ndarray | int | list[int]:
        generator = self._generator
        match part:
            case Discrete(n):
                return self._choice(n, mask)
            case MultiDiscrete(nvec):
                masks: Sequence[np.ndarray | None] = [None] * len(nvec)
                if mask is not None:
                    masks = np.split(mask, list(accumulate(nvec))[:-1])
                return [self._choice(n, own) for n, own in zip(nvec, masks, strict=True)]
            case Box(shape):
                bounded = np.isfinite(part.low) & np.isfinite(part.high)
                uniform, normal = generator.uniform(-1, 1, shape), generator.standard_normal(shape)
                return np.where(bounded, uniform, normal)
        return generator.integers(2, size=leaf_form(part)[0]).astype(np.bool_)

    def _choice(self, n: int, mask: np.ndarray | None) -> int:
        """One of n; of those that are allowed, if any is."""
        allowed = np.arange(n) if mask is None else np.flatnonzero(mask)
        return int(self._generator.choice(allowed if len(allowed) else n))
