"""Columns of a ring that advance together, for the one process that writes them.

`ring.py` has the protocol between a block's writer and the ring's readers.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.frames import FrameStacks
from rlpyt.rows import Inputs, Row, Slot, float_leaves, read_inputs
from rlpyt.storage import as_arrays, as_tensors

if TYPE_CHECKING:
    from rlpyt.ring import Ring

RESERVED, ANSWERED, RENEWED = 0, 1, 2  # the counters of a block
_STORES_IN_ORDER = platform.machine() in ("x86_64", "AMD64")


def fence() -> None:
    """Let every load and store before it happen before every one after it.

    x86-64 keeps the order of stores and that of loads by itself. Elsewhere: what stands before a
    lock may move into it, and so may what stands behind, but nothing leaves one for the other.
    """
    if not _STORES_IN_ORDER:
        lock = Lock()  # new each time: one that another thread holds during a fork stays held
        for _ in range(2):
            lock.acquire()
            lock.release()


class Block:
    """A slice of the ring's columns."""

    def __init__(self, ring: Ring, index: int, columns: slice) -> None:
        self.ring, self.index, self.columns = ring, index, columns
        self.rows: Row = ring.rows[:, columns]  # numpy, [S, b, ...]
        self.states = as_tensors(tree_map(lambda x: x[:, columns], ring.states))  # [S / k, b, ...]
        self._counters = ring._counters[:, index]
        tensors: Row = as_tensors(self.rows)
        self._inputs = read_inputs(tensors, tensors.observation, tensors.action, ring.reads)
        self._floats = bool(float_leaves(self.rows.action))
        self._stacks = FrameStacks(self.rows.observation, None, ring.frame_stack)

    def part(self, columns: slice) -> Block:
        """Some of its columns, counted from its first: for who answers them, not for a writer."""
        first = self.columns.start
        return Block(self.ring, self.index, slice(first + columns.start, first + columns.stop))

    @property
    def answered(self) -> int:
        return int(self._counters[ANSWERED])

    @property
    def reserved(self) -> int:
        return int(self._counters[RESERVED])

    def begin(self, reset: Callable[[Row], None]) -> int:
        """Let a new writer's environments write row a = answered; returns a.

        What a writer before it left unanswered is lost. An episode that was still going on is
        cut: row a says so, and `answer` ends it.
        """
        a = self.answered
        row = self.at(a).row
        reset(row)
        row.cut[:] = ~self.at(a - 1).row.last if a else False
        return a

    def clear(self) -> None:
        """Forget all rows: the next one that arrives is row 0 of a ring that was never written."""
        written = self.reserved > 1 or self._counters[RENEWED]
        if written:  # else it is zero, and takes no memory until rows are
            for leaf in tree_leaves((self.rows, as_arrays(self.states))):
                leaf[:] = 0
        self._counters[:RENEWED] = 1, 0
        self._counters[RENEWED] += 1

    def go_on_at(self, a: int, lo: int | None = None) -> None:
        """Let row a be in flight, and of those before it rows lo .. a-1 be there to be read.

        Args:
            lo: None: no item can be read, whatever lies there.
        """
        lo = a - self.ring.history if lo is None else lo
        reserved = max(a + 1, lo + self.ring.num_slots - self.ring.margin)
        self._counters[:RENEWED] = reserved, a
        self._counters[RENEWED] += 1

    def reserve(self, horizon: int) -> int:
        """Announce that rows a .. a+T-1 will be answered and row a+T will arrive; returns a."""
        if horizon > self.ring.horizon:
            raise ValueError(f"a window of {horizon} rows; this ring's have {self.ring.horizon}")
        a = self.answered
        self._counters[RESERVED] = max(self.reserved, a + horizon + 1)  # more: of a killed writer
        fence()
        return a

    def answer(self, horizon: int) -> None:
        """Publish the window, whose T rows are all answered."""
        a = self.answered
        if a + horizon >= self.reserved:
            raise RuntimeError(f"row {a + horizon} is in flight but was not reserved")
        cut = self.rows.cut[a % self.ring.num_slots]
        if a and np.count_nonzero(cut):
            # not earlier: a writer that dies before this leaves the cut to the next one
            self.rows.truncated[(a - 1) % self.ring.num_slots, cut] = True
        fence()
        self._counters[ANSWERED] = a + horizon

    def at(self, n: int) -> Slot:
        """Row n, [b, ...], where it lies."""
        row = self.rows[n % self.ring.num_slots]
        return Slot(row, float_leaves(row.action) if self._floats else [])

    def acting_inputs(self, n: int) -> Inputs:
        """What the agent reads at row n, tensors [b, ...]; stacks are valid until the next call."""
        s, k = n % self.ring.num_slots, self.ring.frame_stack
        observation, reward, first, action, mask = self._inputs
        observation = observation[s]
        if k > 1:  # a view, or across the seam a copy
            back: Any = slice(s - k + 1, s + 1) if s >= k - 1 else np.arange(s - k + 1, s + 1)
            self._stacks.build(self.rows.first, back)
            observation = self._stacks.over(observation)
        return Inputs(
            observation,
            None if reward is None else reward[s],
            None if first is None else first[s],
            None if action is None else action[s - 1],
            None if mask is None else mask[s],
        )

    def kept_state(self, n: int) -> Any:
        """The state as fed at row n, a multiple of the state interval; a view, [b, ...]."""
        s = n % self.ring.num_slots // self.ring.state_interval
        return tree_map(lambda x: x[s], self.states)
