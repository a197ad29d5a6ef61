"""A sum tree: leaves that are found with a probability proportional to their value.

The leaves are cut into at most TOP nodes, each the root of a binary tree that is stored level by
level. A search finds its node by the running sums of the nodes, and goes down from there:

    nodes             [1025 .. 2048]     the sums of these are searched directly
    ...
    pairs of leaves   [n / 2]
    leaves            [n]

In NumPy the number of calls is what costs: TOP saves 11 levels of 20 and costs 7 us. Every sum is
computed anew from the two below it, so rounding errors neither grow nor depend on the past.
"""

from __future__ import annotations

import numpy as np

TOP = 2048


class SumTree:
    """Leaves of at least 0, in double precision; all are 0 at first.

    Args:
        size: how many leaves.
    """

    def __init__(self, size: int) -> None:
        depth = max(0, -(-size // TOP) - 1).bit_length()
        nodes = -(-size >> depth)  # on top
        self._levels = [np.zeros(nodes << i) for i in range(depth, -1, -1)]  # from the leaves up
        # Two neighbours as one complex number are read at once.
        self._pairs = [level.view(np.complex128) for level in self._levels[:-1]]
        self._before = np.zeros(nodes + 1)  # sums of the nodes before each, and of all
        self._most = 0.0  # the largest mass that can be found
        self._changed = False
        self.leaves = self._levels[0][:size]  # [size], to be read only
        self.leaves.flags.writeable = False

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._levels[-1].sum())

    def set(self, index: np.ndarray, value: np.ndarray | float) -> None:
        """Set leaves [M]; of an index that is there twice the last value counts."""
        self._levels[0][index] = value
        for pairs, above in zip(self._pairs, self._levels[1:], strict=True):
            index = index >> 1
            both = pairs[index]
            above[index] = both.real + both.imag
        self._changed = True

    def set_range(self, begin: int, values: np.ndarray) -> None:
        """Set the consecutive leaves from `begin` on, [M]."""
        end = begin + len(values)
        self._levels[0][begin:end] = values
        for pairs, above in zip(self._pairs, self._levels[1:], strict=True):
            begin, end = begin >> 1, -(-end >> 1)
            both = pairs[begin:end]
            np.add(both.real, both.imag, above[begin:end])
        self._changed = True

    def find(self, mass: np.ndarray) -> np.ndarray:
        """For each mass [M] the leaf whose share of [0, total) it lies in, never one of 0.

        A mass of `total` and more finds the last leaf that is not 0.
        """
        if self._changed:
            np.add.accumulate(self._levels[-1], 0, None, self._before[1:])
            self._most = np.nextafter(self._before[-1], 0)
            self._changed = False
        if not self._before[-1]:
            raise ValueError("every leaf is 0, so there is none to be found")
        mass = np.minimum(mass, self._most)
        node = self._before.searchsorted(mass, "right") - 1
        mass -= self._before[node]  # what is left of it within the node
        for level in reversed(self._levels[:-1]):
            node += node
            left = level[node]
            right = mass >= left
            mass -= left * right
            node += right
        found = self._levels[0][node]
        if not found[found.argmin()]:
            self._leave_zeros(node)
        return node

    def _leave_zeros(self, node: np.ndarray) -> None:
        """Correct what rounding led too far, into leaves of 0: to the last one before that is not.

        Only where the sum of a subtree was rounded up, and the mass lies within this error.
        """
        positive = np.flatnonzero(self.leaves)
        zeros = np.flatnonzero(self._levels[0][node] == 0)
        before = positive.searchsorted(node[zeros]) - 1
        node[zeros] = positive[np.maximum(before, 0)]
