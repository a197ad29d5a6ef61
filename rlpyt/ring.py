"""The ring: a long, time-major storage of rows that is read while more rows are written into it.

Row n of a column lies in slot n mod S. Columns that advance together are a block; each has one
writer and three counters, on cache lines of their own, which only that writer stores to:

    reserved   rows from here on are not under the pen; always more than `answered`
    answered   rows before this one are complete
    renewed    how often rows were replaced other than by answering: copies of them are void

A writer announces a window before it overwrites anything, and publishes it when all is written:

    reserved = a + T + 1 (the row in flight counts);  fence;  rows;  fence;  answered = a + T

A reader never waits and takes no lock. It loads answered, then reserved, chooses rows that both
allow, copies them, loads reserved again, and gives up what the writer reached meanwhile. A writer
killed at any point leaves `reserved` ahead, which costs readers at most T + 1 of the oldest rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.block import ANSWERED, RENEWED, RESERVED, Block, fence
from rlpyt.errors import UsageError
from rlpyt.packed import PackedRows
from rlpyt.places import Cyclic
from rlpyt.rows import Row, Window
from rlpyt.storage import as_arrays, zeros

if TYPE_CHECKING:
    from rlpyt.storage import Memory

MARGIN = 4  # windows that a writer may advance while a reader copies
ROUNDS = 1000  # of drawing again: if 1 row in 16 is live, one item in 1e28 needs more

Pair = tuple[np.ndarray, np.ndarray]  # what is copied, and to where


class Copies(NamedTuple):
    """How a window is filled, made once: walking its trees takes longer than copying a batch."""

    ahead: np.ndarray  # [H + L, 1] what is added to the entry of an item's first row
    rows: list[Pair]
    states: list[Pair]


class Ring:
    """Rows [S, B] of which the last `capacity` answered ones of each column can be read.

    Args:
        example, reads, frame_stack, state: as a Window takes them.
        capacity, num_envs: C, counted in rows of a column, and B.
        horizon: T, the most rows of one window.
        state_interval: the state is kept at every k-th row; items begin at such rows only.
        blocks: into how many blocks the columns are cut; sizes differ by at most one.
        asynchronous: rows are read while others are written.
        lag: windows that a writer may advance while a reader copies, if asynchronous.
        shared: memory that other processes see too; None: of this process alone.
    """

    def __init__(
        self,
        example: Row,
        capacity: int,
        num_envs: int,
        horizon: int,
        *,
        reads: frozenset[str] = frozenset({"observation"}),
        frame_stack: int = 1,
        state: Any = (),
        state_interval: int = 1,
        blocks: int = 1,
        asynchronous: bool = False,
        lag: int = MARGIN,
        shared: Memory | None = None,
    ) -> None:
        self.history = max(frame_stack - 1, 1)  # H, rows that are read before an item's first
        least = max(horizon, self.history + 1)
        if capacity < least:
            raise UsageError(
                f"a replay of {capacity} rows for each of {num_envs} environments holds no window "
                f"of {horizon} rows, or no row and the {self.history} before it that it is read "
                f"with; choose a capacity of at least {least * num_envs} rows"
            )
        if not 1 <= blocks <= num_envs:
            raise UsageError(f"{blocks} blocks of {num_envs} environments; choose 1 to {num_envs}")
        self.capacity, self.num_envs, self.horizon = capacity, num_envs, horizon
        self.reads, self.frame_stack, self.state_interval = reads, frame_stack, state_interval
        self.margin = lag * horizon if asynchronous else 0
        needed = capacity + 1 + (horizon + self.margin if asynchronous else 0)
        num_states = -(-needed // state_interval)
        self.num_slots = num_states * state_interval  # S
        self.overtaken = 0  # items given up because the writer reached them
        self._seen: list[tuple[int, int]] | None = None  # bounds at the newest look
        self.places, self.memory = Cyclic(example, self.num_slots, num_envs), shared
        self._packed = self.places.packed(shared)
        self.rows: Row = self._packed.tree
        one_state = tree_map(lambda x: x[0], as_arrays(state))
        self.states = zeros(one_state, (num_states, num_envs), shared=shared)
        line = np.zeros(8, np.int64)  # a cache line, of which a counter is the first 8 bytes
        self._counters: np.ndarray = zeros(line, (3, blocks), shared=shared)[..., 0]
        if shared is None or shared.created:
            self._counters[RESERVED] = 1  # row 0 is in flight before any is answered
        ends = np.arange(blocks + 1) * num_envs // blocks
        self._begins, self.sizes = ends[:-1], np.diff(ends)
        self.columns = np.split(np.arange(num_envs), ends[1:-1])  # of each block
        self.block_of = np.repeat(np.arange(blocks), self.sizes)  # [B]
        self._example, self._state = example, state
        self._copies: WeakKeyDictionary[Window, Copies] = WeakKeyDictionary()
        self.blocks = [Block(self, i, slice(*ends[i : i + 2].tolist())) for i in range(blocks)]

    def window(self, items: int, length: int) -> Window:
        """Private memory for items of `length` rows (2 or more): column i holds item i."""
        rows = PackedRows(self._example, (self.history + length, items))
        window = Window(
            self._example,
            length - 1,
            items,
            reads=self.reads,
            frame_stack=self.frame_stack,
            state=tree_map(lambda x: x[:1].expand(items, *x.shape[1:]), self._state),
            storage=rows.tree,
        )
        ahead = np.arange(self.history + length)[:, None] * self.num_envs
        states = tree_leaves(self.states), tree_leaves(as_arrays(window.states))
        pairs = [(x.reshape(-1, *x.shape[2:]), y) for x, y in zip(*states, strict=True)]
        self._copies[window] = Copies(ahead, self._packed.copies_into(rows), pairs)
        return window

    def look(self, answered: int | None = None) -> None:
        """Let what can be read be what is there now, until the next look.

        A learner that looks once for each time it learns draws the same, whatever is written
        meanwhile: its draws depend on when it looked alone. A writer that has advanced by no more
        than `lag` windows since overtakes none of them.

        Args:
            answered: of each block, at most what is answered by now, at least what was at the look
                before; None: as the counters say, while no writer is at work.
        """
        before, self._seen = self._seen, None
        if answered is None or before is None:
            self._seen = self._bounds()
            return
        self._seen = [(max(lo, answered - self.capacity), answered) for lo, _ in before]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Per block lo and answered: rows [p, q] can be read where p >= lo and q < answered."""
        lo, answered = zip(*self._bounds(), strict=True)
        return np.array(lo), np.array(answered)

    def _bounds(self) -> list[tuple[int, int]]:
        """The same as numbers: of the few blocks there are, NumPy takes longer."""
        if self._seen is not None:
            return self._seen
        answered = self._counters[ANSWERED].tolist()
        fence()
        reserved = self._counters[RESERVED].tolist()
        ahead, capacity = self.num_slots - self.margin, self.capacity
        return [(max(r - ahead, a - capacity), a) for r, a in zip(reserved, answered, strict=True)]

    @property
    def readable(self) -> int:
        """Rows that can be read, over all columns."""
        sizes = self.sizes.tolist()
        return sum((a - max(lo, 0)) * n for (lo, a), n in zip(self._bounds(), sizes, strict=True))

    @property
    def progress(self) -> bytes:
        """Differs from what it was before where what can be read has changed since."""
        if self._seen is not None:
            return self._counters[RENEWED].tobytes() + np.array(self._seen).tobytes()
        return self._counters.tobytes()

    def starts(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Per block the first usable start of an item, and how many there are: first + i * k."""
        first, counts = zip(*self._starts(length), strict=True)
        return np.array(first), np.array(counts)

    def _starts(self, length: int) -> list[tuple[int, int]]:
        k, found = self.state_interval, []
        for lo, answered in self._bounds():
            first = -(-max(lo + self.history, 0) // k) * k
            found.append((first, max((answered - length - first) // k + 1, 0)))
        return found

    def choose(
        self, items: int, length: int, generator: np.random.Generator, trained: range = range(1)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw items of `length` rows, each usable start of each column equally often.

        Returns [items] starts, as absolute rows, and columns. Of the rows start + i, i in
        `trained`, one at least is live.
        """
        begins, counts = zip(*self._starts(length), strict=True)
        ends = list(accumulate(map(mul, counts, self.sizes.tolist())))
        if not ends[-1]:
            raise RuntimeError(f"no {length} rows of one environment can be read; collect more")
        starts, columns = np.empty((2, items), np.int64)
        found = 0
        for _ in range(ROUNDS):
            missing = items - found
            drawn = generator.integers(ends[-1], size=missing + missing // 4 + 4)
            if len(ends) > 1:
                block = np.searchsorted(ends, drawn, "right")
                left = np.array(ends)[block] - 1 - drawn
                row, column = np.divmod(left, self.sizes[block])
                first, column = np.array(begins)[block], column + self._begins[block]
            else:
                row, column = np.divmod(ends[-1] - 1 - drawn, self.num_envs)
                first = begins[0]
            start = first + row * self.state_interval
            live = self.live(start, column, trained).nonzero()[0][:missing]
            end = found + len(live)
            starts[found:end], columns[found:end] = start[live], column[live]
            if end == items:
                return starts, columns
            found = end
        raise RuntimeError(f"{ends[-1]} items can be read, but hardly one has a row that is live")

    def live(self, starts: np.ndarray, columns: np.ndarray, trained: range) -> np.ndarray:
        """Whether one of the rows start + i, i in `trained`, is live.

        Starts and columns broadcast: what is returned has their shape.
        """
        if len(trained) > 1:
            ahead = np.arange(trained.start, trained.stop).reshape(-1, *[1] * starts.ndim)
            at = (starts + ahead) % self.num_slots, columns
            return ~(self.rows.terminated[at] | self.rows.truncated[at]).all(0)
        at = (starts + trained.start) % self.num_slots, columns
        return ~(self.rows.terminated[at] | self.rows.truncated[at])

    def gather(
        self, window: Window, starts: np.ndarray, columns: np.ndarray, items: Any = None
    ) -> np.ndarray:
        """Copy chosen items, their history and the states at their starts into a `window()`.

        Fills the window's columns `items` (all). Returns [N] whether an item is whole: where the
        writer came too close meanwhile, draw it again.
        """
        begin = starts - self.history
        ahead, rows, kept = self._copies[window]
        copy = _copy(begin % self.num_slots * self.num_envs + columns + ahead, items)
        for source, out in rows:
            copy(source, out)
        if kept:
            slots = starts[None] % self.num_slots // self.state_interval
            copy = _copy(slots * self.num_envs + columns, items)
            for source, out in kept:
                copy(source, out)
        fence()
        reserved = self._counters[RESERVED].copy()
        whole = begin >= reserved[self.block_of[columns]] - self.num_slots
        self.overtaken += len(whole) - np.count_nonzero(whole)
        return whole

    def draw(
        self, window: Window, generator: np.random.Generator, trained: range = range(1)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fill a `window()` with items drawn uniformly; returns their starts and columns, [N]."""
        length = window.horizon + 1
        starts, columns = self.choose(window.num_envs, length, generator, trained)
        lost = np.flatnonzero(~self.gather(window, starts, columns))
        while len(lost):
            starts[lost], columns[lost] = self.choose(len(lost), length, generator, trained)
            lost = lost[~self.gather(window, starts[lost], columns[lost], lost)]
        return starts, columns

    def snapshot(self) -> list[dict[str, Any]]:
        """Per block copies of rows lo .. a, a = answered being in flight; no writer is at work."""
        parts = []
        for block, lo in zip(self.blocks, self.bounds()[0].tolist(), strict=True):
            slots, kept = self._places(lo, block.answered)
            states = tree_map(lambda x, at=(kept, block.columns): x[at], self.states)
            part = {"lo": lo, "answered": block.answered, "rows": block.rows[slots]}
            parts.append(part | {"states": states})
        return parts

    def restore(self, saved: Sequence[dict[str, Any]]) -> None:
        """Take up a snapshot, or what a ring of less capacity can hold of it."""
        sizes, own = [tree_leaves(x["rows"])[0].shape[1] for x in saved], self.sizes.tolist()
        if sizes != own:
            raise UsageError(
                f"the saved replay has blocks of {sizes} environments, this one of {own}; "
                "resume with as many environments and workers"
            )
        for block, part in zip(self.blocks, saved, strict=True):
            a = int(part["answered"])
            lo = max(int(part["lo"]), a - self.capacity)
            slots, kept = self._places(lo, a)
            block.rows[slots] = _last(part["rows"], len(slots))
            states = _last(part["states"], len(kept))
            for x, y in zip(tree_leaves(self.states), tree_leaves(states), strict=True):
                x[kept, block.columns] = y
            block.go_on_at(a, lo)

    def _places(self, lo: int, a: int) -> tuple[np.ndarray, np.ndarray]:
        """Slots of rows lo .. a, and of the states kept of rows lo .. a-1; rows begin with 0."""
        k, lo = self.state_interval, max(lo, 0)
        kept = np.arange(-(-lo // k), -(-a // k)) % (self.num_slots // k)
        return np.arange(lo, a + 1) % self.num_slots, kept


def _copy(at: np.ndarray, items: np.ndarray | None) -> Callable[[np.ndarray, np.ndarray], None]:
    """Copies the rows `at` [n, N] of [S * B, ...] to out[:, items], out [n, M, ...].

    Rows behind the last are the first ones again.
    """

    def copy(flat: np.ndarray, out: np.ndarray) -> None:
        if items is None:
            flat.take(at, 0, out, "wrap")
        else:
            out[:, items] = flat.take(at, 0, mode="wrap")

    return copy


def _last(tree: Any, n: int) -> Any:
    return tree_map(lambda x: x[len(x) - n :], tree)
