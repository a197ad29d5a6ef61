"""The rows of a ring that are being written: to a sampler, what a Window is."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.block import Block
from rlpyt.rows import Inputs, Row, Slot


class RingWindow:
    """T answered rows and the one after them, written in place where the replay serves them.

    It differs from a `Window` in that nothing is moved: rows keep their slots, and the learner
    reads them through the ring. A window may be shorter than the ring's horizon.

    Args:
        block: where the columns lie, all of them.
        state: the agent's initial state, [B, ...] tensors or ().
    """

    def __init__(self, block: Block, state: Any) -> None:
        self.block, self.state = block, state
        self.num_envs = block.columns.stop - block.columns.start
        self.longest = self.horizon = block.ring.horizon
        self.start = block.answered  # absolute number of row 0
        self.slots: list[Slot] = [block.at(self.start)]  # rows 0 .. T, or that in flight alone
        self._rows: Row | None = None  # of this window, once they were asked for
        self._keeps = bool(tree_leaves(state))
        self._interval = block.ring.state_interval

    def begin(self, horizon: int | None = None) -> None:
        """Go on behind the rows that are answered, with the one that has arrived."""
        self.horizon = horizon or self.longest
        self.start = self.block.reserve(self.horizon)
        self.slots = [self.block.at(self.start + t) for t in range(self.horizon + 1)]
        self._rows = None

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        if self._keeps and (self.start + t) % self._interval == 0:
            tree_map(lambda old, new: old.copy_(new), self.block.kept_state(self.start + t), state)

    def finish(self, state: Any) -> None:
        """All rows are answered and the next has arrived, at which the agent is fed `state`."""
        self.state = state
        self.block.answer(self.horizon)
        self._rows = None

    def restart(self, state: Any) -> Row:
        """Begin anew with an empty ring; returns the row that the environments write first."""
        self.state = state
        self.block.clear()
        self.start, self._rows = 0, None
        self.slots = [self.block.at(0)]
        return self.slots[0].row

    def rows_for(self, env_steps: int) -> int:
        """How many rows are collected when so many env steps are missing: no more than needed."""
        return min(self.longest, -(-env_steps // self.num_envs))

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [B, ...]; stacks are valid until the next call."""
        return self.block.acting_inputs(self.start + t)

    @property
    def rows(self) -> Row:
        """Rows 0 .. T, numpy [T+1, B, ...]; a view, or across the ring's seam a copy."""
        if self._rows is None:
            begin = self.start % self.block.ring.num_slots
            end = begin + self.horizon + 1
            at: Any = slice(begin, end)
            if end > self.block.ring.num_slots:
                at = np.arange(begin, end) % self.block.ring.num_slots
            self._rows = self.block.rows[at]
        return self._rows

    def carry(self) -> dict[str, Any]:
        """What the next window needs beside the replay: history, the row in flight, the state."""
        ring, a = self.block.ring, self.block.answered
        rows = self.block.rows[np.arange(a - ring.history, a + 1) % ring.num_slots]
        for leaf in tree_leaves((rows.action, rows.info)):
            leaf[-1] = 0  # not answered yet: what lies there is of an older row
        return {"rows": rows, "state": self.state, "start": a}

    example_carry = carry

    def restore(self, carry: dict[str, Any]) -> None:
        """Take up a carry; rows before it can be read only if they were loaded already."""
        ring, a = self.block.ring, int(carry["start"])
        self.state = carry["state"]
        self.block.rows[np.arange(a - ring.history, a + 1) % ring.num_slots] = carry["rows"]
        if self.block.answered != a:
            self.block.go_on_at(a)
        self.start, self._rows = a, None
        self.slots = [self.block.at(a)]
