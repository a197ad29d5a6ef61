"""The rows of a ring that are being written: to a sampler, what a Window is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.block import Block
from rlpyt.rows import FedState, Inputs, Row, Slot

if TYPE_CHECKING:
    from rlpyt.storage import Memory


class RingWindow:
    """T answered rows and the one after them, written in place where the replay serves them.

    It differs from a `Window` in that nothing is moved: rows keep their slots, and the learner
    reads them through the ring. A window may be shorter than the ring's horizon.

    Args:
        block: where the columns lie, all of them.
        state: the agent's initial state, [B, ...] tensors or ().
        state_memory: shared, for the state that is fed next, which is then on the CPU.
    """

    def __init__(self, block: Block, state: Any, state_memory: Memory | None = None) -> None:
        self.block, self.places, self.memory = block, block.ring.places, block.ring.memory
        self._fed = FedState(state, state_memory)
        self.num_envs = block.columns.stop - block.columns.start
        self.columns, self.total_envs = slice(0, self.num_envs), self.num_envs
        self.longest = self.horizon = block.ring.horizon
        self.start = block.answered  # absolute number of row 0
        self.slots: list[Slot] = [block.at(self.start)]  # rows 0 .. T, or that in flight alone
        self._rows: Row | None = None  # of this window, once they were asked for

    @property
    def state(self) -> Any:
        """What the agent is fed at row 0, and after the window at the row in flight; [B, ...]."""
        return self._fed.state

    @state.setter
    def state(self, state: Any) -> None:
        self._fed.set(state)

    @property
    def boundary(self) -> int:
        """Absolute number of the row that has arrived and is not answered, between windows."""
        return self.block.answered

    def part(self, columns: slice) -> RingPart:
        """Some columns, seen as a window of their own."""
        return RingPart(self, columns)

    def begin(self, horizon: int | None = None) -> None:
        """Go on behind the rows that are answered, with the one that has arrived."""
        self.horizon = horizon or self.longest
        self.start = self.block.reserve(self.horizon)
        self.slots = slots_of(self.block, self.start, self.horizon)
        self._rows = None

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        keep(self.block, self.start + t, state)

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

    whole_inputs = acting_inputs

    @property
    def rows(self) -> Row:
        """Rows 0 .. T, numpy [T+1, B, ...]; a view, or across the ring's seam a copy."""
        if self._rows is None:
            self._rows = rows_of(self.block, self.start, self.horizon)
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
        self.go_on_behind(a)

    def go_on_behind(self, boundary: int) -> None:
        """Let the next window begin with the row in flight, which lies where its number says."""
        self.start, self._rows = boundary, None
        self.slots = [self.block.at(boundary)]


class RingPart:
    """Some columns of a ring's window: the same rows and states, seen as a window of their own.

    It reserves and publishes nothing. Where the window itself is in another process, who is at
    work there says by `follow` which rows are present.
    """

    def __init__(self, whole: RingWindow, columns: slice) -> None:
        self.whole, self.columns, self.total_envs = whole, columns, whole.num_envs
        self.block = whole.block.part(columns)
        self.num_envs = columns.stop - columns.start
        self.follow(whole.start, whole.horizon)

    @property
    def state(self) -> Any:
        """What the agent is fed next, [b, ...]; views of the whole window's."""
        return tree_map(lambda x: x[self.columns], self.whole.state)

    def follow(self, start: int, horizon: int | None = None) -> None:
        """The present rows are T = `horizon` from number `start` on, and the one after them."""
        self.start, self.horizon = start, horizon or self.whole.longest
        self.slots = slots_of(self.block, self.start, self.horizon)

    def begin(self, horizon: int | None = None) -> None:
        """The window itself has made room."""
        if horizon not in (None, self.horizon):
            raise ValueError(f"{horizon} rows, where {self.horizon} are present")

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        keep(self.block, self.start + t, state)

    def kept(self) -> Iterator[tuple[int, Any]]:
        """The present rows whose state is kept, by their places in the window, and the states."""
        first = -(-self.start // self.block.ring.state_interval) * self.block.ring.state_interval
        for n in range(first, self.start + self.horizon, self.block.ring.state_interval):
            yield n - self.start, self.block.kept_state(n)

    def finish(self, state: Any) -> None:
        """The row after the last of these columns has arrived, at which `state` is fed."""
        tree_map(lambda old, new: old.copy_(new), self.state, state)

    def restart(self, state: Any) -> Row:
        """Begin anew; returns the row that the environments write first."""
        self.follow(0)
        self.finish(state)
        return self.slots[0].row

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [b, ...]; stacks are valid until the next call."""
        return self.block.acting_inputs(self.start + t)

    def whole_inputs(self, t: int) -> Inputs:
        """The same of all columns of the window, [B, ...]."""
        return self.whole.block.acting_inputs(self.start + t)

    @property
    def rows(self) -> Row:
        """Rows 0 .. T, numpy [T+1, b, ...]; a view, or across the ring's seam a copy."""
        return rows_of(self.block, self.start, self.horizon)


def slots_of(block: Block, start: int, horizon: int) -> list[Slot]:
    """Rows 0 .. T where they lie."""
    return [block.at(start + t) for t in range(horizon + 1)]


def rows_of(block: Block, start: int, horizon: int) -> Row:
    """Rows 0 .. T, numpy [T+1, b, ...]; a view, or across the ring's seam a copy."""
    num_slots = block.ring.num_slots
    begin = start % num_slots
    end = begin + horizon + 1
    at: Any = slice(begin, end) if end <= num_slots else np.arange(begin, end) % num_slots
    return block.rows[at]


def keep(block: Block, n: int, state: Any) -> None:
    """Keep the state as fed at row n, if it is one of every `state_interval` rows.

    Parts of it that the ring has no place for are left out.
    """
    if n % block.ring.state_interval == 0:
        tree_map(lambda old, new: old.copy_(new), block.kept_state(n), state)
