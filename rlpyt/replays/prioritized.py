"""Items drawn by priority (Schaul et al., 2016, section 3.3, proportional; in strata, B.2.1).

Priorities belong to the learner alone. Every start of an item has a leaf in a sum tree, at the
place of the slot that keeps its state, and `sync` brings the leaves in line with the ring:

    death   a row that the item is read with cannot be read any more: 0
    birth   all of its rows are answered: the running maximum, or what `entry` computes

Items without a live row stay at 0. An update of an item that has died is ignored, whichever
item may have its leaf by now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from torch import Tensor

from rlpyt.ranks import world
from rlpyt.replays.drawn import Drawn
from rlpyt.replays.sum_tree import SumTree
from rlpyt.ring import Ring
from rlpyt.rows import Window

Entry = Callable[[np.ndarray, np.ndarray], np.ndarray]
FLOOR = 1e-6  # of a priority: an item without error can be drawn again (the paper's epsilon)


@final
class Prioritized:
    """Draws items in proportion to priority^alpha.

    Args:
        ring: what is drawn from.
        length: rows of an item.
        trained: those of them that are learned from, counted from its first.
        alpha: 0 is uniform, 1 proportional.
        unique: no item is twice in a draw.
        needed: items without which none is drawn; those of a draw, if they are to be unique.
        entry: priorities [M] of new items from their starts and columns, [M]; None: the largest
            that there has been, at first 1.
    """

    def __init__(
        self,
        ring: Ring,
        length: int,
        trained: range,
        alpha: float,
        *,
        unique: bool = False,
        needed: int = 1,
        entry: Entry | None = None,
    ) -> None:
        self.ring, self.length, self.trained = ring, length, trained
        self.alpha, self.unique, self.needed, self.entry = alpha, unique, needed, entry
        self.largest = 1.0
        self._ranks = world()
        self.live = 0  # items that can be drawn
        self._places = ring.num_slots // ring.state_interval  # of starts, in each column
        self._tree = SumTree(self._places * ring.num_envs)
        self._columns = np.array([x.columns.start for x in ring.blocks])
        self._begins = self._places * self._columns  # of each block's leaves
        self._first = np.zeros(len(ring.blocks), np.int64)  # starts from here on have not died,
        self._end = np.zeros(len(ring.blocks), np.int64)  # and from here on are not born
        self._progress = b""

    @property
    def ready(self) -> bool:
        """Whether there are the items that are needed."""
        self.sync()
        return self.live >= self.needed

    def draw(self, window: Window, generator: np.random.Generator, beta: float = 1.0) -> Drawn:
        """Fill a window of the ring with a draw.

        Args:
            window: for N items of `length` rows.
            beta: 1 corrects the weights for the priorities in full, 0 not at all (section 3.4).
        """
        self.sync()
        leaf = self._choose(window.num_envs, generator)
        value = self._tree.leaves[leaf]
        starts, columns = self._items_at(leaf)
        lost = np.flatnonzero(~self.ring.gather(window, starts, columns))
        while len(lost):  # to the writer, which has come too close
            self.sync()
            leaf[lost] = self._choose(len(lost), generator, np.delete(leaf, lost))
            value[lost] = self._tree.leaves[leaf[lost]]
            starts[lost], columns[lost] = self._items_at(leaf[lost])
            lost = lost[~self.ring.gather(window, starts[lost], columns[lost], lost)]
        least = value[value.argmin()]
        if self._ranks.size > 1:  # whose shares of the mass count, each of its own rows
            (lowest,) = self._ranks.greatest(-least / self._tree.total)
            least = -lowest * self._tree.total
        weights = (value / least) ** -beta
        return Drawn(starts, columns, weights.astype(np.float32))

    def update(self, drawn: Drawn, priority: np.ndarray | Tensor) -> None:
        """Set the priorities of drawn items, those that have died meanwhile excepted.

        Args:
            priority: [N] |TD error|; of an item that was drawn twice the last counts.
        """
        starts, columns = drawn.starts, drawn.columns
        error = _checked(priority, starts, columns)
        self.sync()
        fresh = starts >= self._first[self._block_of(columns)]
        if np.count_nonzero(fresh) < len(fresh):
            starts, columns, error = starts[fresh], columns[fresh], error[fresh]
        if len(starts):
            self.largest = max(self.largest, float(error[error.argmax()]))
            self._tree.set(self._leaves_of(starts, columns), self._value(error))

    def sync(self) -> None:
        """Bring the leaves in line with the rows that can be read now."""
        progress = self.ring.progress
        if progress == self._progress:
            return
        first, counts = self.ring.starts(self.length)
        ends = first + self.ring.state_interval * counts
        for i, (begin, end) in enumerate(zip(first.tolist(), ends.tolist(), strict=True)):
            if end < self._end[i]:  # the block's rows began anew
                self._bury(i, int(self._end[i]))
                self._first[i] = self._end[i] = 0
            self._bury(i, begin)
            self._bear(i, end)
        self._progress = progress

    def state(self) -> dict[str, Any]:
        """What `load` needs, in the order of rows, so that another capacity can take it up.

        It is of the rows that there are: not of those at the last draw, which may be long ago.
        """
        self.sync()
        blocks, bounds = [], zip(self._first.tolist(), self._end.tolist(), strict=True)
        for i, (first, end) in enumerate(bounds):
            parts = [self._tree.leaves[x] for x in self._ranges(i, first, end)]
            leaves = np.concatenate([np.zeros(0), *parts]).reshape(-1, int(self.ring.sizes[i]))
            blocks.append({"first": first, "leaves": leaves})
        return {"largest": self.largest, "blocks": blocks}

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state, or what a ring of less capacity has places for."""
        self.largest = float(state["largest"])
        self.live = 0
        self._tree = SumTree(len(self._tree.leaves))
        for i, saved in enumerate(state["blocks"]):
            leaves = np.asarray(saved["leaves"], np.float64)[-self._places :]  # [n, b]
            end = int(saved["first"]) + self.ring.state_interval * len(saved["leaves"])
            first = end - self.ring.state_interval * len(leaves)
            self._first[i], self._end[i] = first, end
            self._write(i, first, leaves)
        self._progress = b""

    def _choose(
        self, items: int, generator: np.random.Generator, taken: np.ndarray | None = None
    ) -> np.ndarray:
        """Leaves [items]; if they are to be unique, none of them in `taken`."""
        if not self.live:
            raise RuntimeError(
                f"no {self.length} rows of one environment, a live one among them, can be read; "
                "collect more"
            )
        if not self.unique:
            return self._draw(items, generator)
        tree = self._tree
        hidden = np.zeros(0, np.int64) if taken is None else taken
        values, wanted = tree.leaves[hidden], len(hidden) + items
        if self.live - np.count_nonzero(values) < items:
            raise RuntimeError(
                f"a draw of {wanted} different items, and {self.live} are there; collect more"
            )
        if len(hidden):
            tree.set(hidden, 0.0)
        while True:
            new = np.unique(self._draw(wanted - len(hidden), generator))
            hidden, values = np.append(hidden, new), np.append(values, tree.leaves[new])
            if len(hidden) == wanted:
                break
            tree.set(new, 0.0)
        if wanted > len(new):
            tree.set(hidden, values)
        return hidden[wanted - items :]

    def _draw(self, items: int, generator: np.random.Generator) -> np.ndarray:
        """Leaves [items], each from a stratum of equal mass."""
        strata = np.arange(items) + generator.random(items)
        return self._tree.find(strata * (self._tree.total / items))

    def _value(self, priority: Any) -> Any:
        return np.maximum(priority, FLOOR) ** self.alpha

    def _bear(self, i: int, end: int) -> None:
        """Give leaves to the starts of block i before `end`."""
        begin = max(int(self._end[i]), int(self._first[i]))
        self._end[i] = max(end, begin)
        if begin >= end:
            return
        columns = self.ring.columns[i]
        starts = np.arange(begin, end, self.ring.state_interval)
        live = self.ring.live(starts[:, None], columns, self.trained)
        leaves = live * self._value(self.largest)  # [n, b]
        if self.entry is not None and live.any():
            row, column = np.nonzero(live)
            at = starts[row], columns[column]
            leaves[live] = self._value(_checked(self.entry(*at), *at))
        self._write(i, begin, leaves)

    def _bury(self, i: int, begin: int) -> None:
        """Take the leaves of the starts of block i before `begin`."""
        for part in self._ranges(i, int(self._first[i]), min(begin, int(self._end[i]))):
            dead = self._tree.leaves[part]
            self.live -= int(np.count_nonzero(dead))
            self._tree.set_range(part.start, np.zeros(len(dead)))
        self._first[i] = begin

    def _write(self, i: int, begin: int, leaves: np.ndarray) -> None:
        """Set the leaves [n, b], so far 0, of the n starts of block i from `begin` on."""
        self.live += int(np.count_nonzero(leaves))
        flat, done = leaves.reshape(-1), 0
        for part in self._ranges(i, begin, begin + len(leaves) * self.ring.state_interval):
            count = part.stop - part.start
            self._tree.set_range(part.start, flat[done : done + count])
            done += count

    def _ranges(self, i: int, begin: int, end: int) -> list[slice]:
        """Where the leaves of the starts begin .. end-1 of block i lie, across the seam in two."""
        k, width, offset = self.ring.state_interval, int(self.ring.sizes[i]), int(self._begins[i])
        place, count = begin // k % self._places, max(0, (end - begin) // k)
        parts = (place, min(place + count, self._places)), (0, place + count - self._places)
        return [slice(offset + a * width, offset + b * width) for a, b in parts if b > a]

    def _items_at(self, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts and columns [M] of the items that have these leaves."""
        one = len(self._begins) == 1
        block = 0 if one else self._begins.searchsorted(leaf, "right") - 1
        first, k, slots = self._first[block], self.ring.state_interval, self.ring.num_slots
        place, column = np.divmod(leaf - self._begins[block], self.ring.sizes[block])
        return first + (place * k - first) % slots, self._columns[block] + column

    def _leaves_of(self, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The inverse of `_items_at`."""
        block = self._block_of(columns)
        place = starts // self.ring.state_interval % self._places
        within = place * self.ring.sizes[block] + columns
        return within + (self._begins[block] - self._columns[block])

    def _block_of(self, columns: np.ndarray) -> Any:
        """The blocks [M] of columns; one number where there is but one, which is faster."""
        return self.ring.block_of[columns] if len(self._begins) > 1 else 0


def _checked(priority: np.ndarray | Tensor, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Priorities [M] as float64; one that is negative or not finite is an error."""
    array = priority.numpy(force=True) if isinstance(priority, Tensor) else priority
    error = np.asarray(array, np.float64)
    if not len(error):
        return error
    # argmin and argmax find a NaN first, and are three times as fast as min and max.
    if error[error.argmin()] >= 0 and error[error.argmax()] < np.inf:
        return error
    i = int(np.flatnonzero(~((error >= 0) & (error < np.inf)))[0])
    raise FloatingPointError(
        f"priority {error[i]} of the item at row {starts[i]} of environment {columns[i]}; a "
        "priority is an absolute error, finite and at least 0. None was changed; lower --lr or "
        "--max-grad-norm, or clip rewards"
    )
