"""Episodes of known content, written into a ring, and what can be read of it by the rules.

The oracle knows episodes only: lists of what was observed, done and received, and how each ended.
Rows, slots, stacks and n-step returns are worked out from them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.arrays import namedarraytuple, tree_leaves
from rlpyt.block import Block
from rlpyt.replays.drawn import Drawn
from rlpyt.ring import Ring
from rlpyt.rows import Row, Window

ONE = range(1)
GOES_ON, TERMINATED, TRUNCATED, BOTH = range(4)
READS = frozenset({"observation", "reward", "first", "previous_action"})
Seen = namedarraytuple("Seen", ["image", "count"])
FLAG = np.zeros((), np.bool_)


@dataclass
class Episode:
    """What one environment showed from a reset to an ending."""

    begin: int  # the row of its reset
    seen: list[int] = field(default_factory=list)  # observations; numbers that are there once
    reward: list[int] = field(default_factory=list)  # that came with them, 0 at first
    action: list[int] = field(default_factory=list)  # one less if it has ended
    ending: int = GOES_ON

    @property
    def ended(self) -> bool:
        return self.ending != GOES_ON

    def cut(self, row: int) -> None:
        """End before a row: what was shown there and later is lost."""
        rows = row - self.begin
        del self.seen[rows:], self.reward[rows:], self.action[rows - 1 :]
        self.ending = TRUNCATED


class Step(NamedTuple):
    """A row: an episode and a time in it."""

    episode: Episode
    t: int

    @property
    def live(self) -> bool:
        return not (self.episode.ended and self.t == len(self.episode.seen) - 1)


def example_row() -> Row:
    number = np.zeros((), np.float32)
    seen = Seen(np.zeros((2, 3), np.uint8), np.zeros(2, np.float32))
    return Row(seen, number, FLAG, FLAG, FLAG, FLAG, np.zeros((), np.int64), info=number)


def make_ring(capacity: int, num_envs: int, horizon: int, **options: Any) -> Ring:
    state = (torch.zeros(num_envs, 2), torch.zeros(num_envs, dtype=torch.int64))
    options = {"frame_stack": 3, **options}
    return Ring(example_row(), capacity, num_envs, horizon, reads=READS, state=state, **options)


class Environments:
    """The columns of a block, which write their episodes into it."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.columns = range(block.columns.start, block.columns.stop)
        self.episodes: list[list[Episode]] = [[] for _ in self.columns]
        self.answered, self.reserved = 0, 1
        self._shown = 0
        self._begin()

    def run(self, endings: np.ndarray) -> None:
        """Answer T rows.

        Args:
            endings: [T, b]; of what arrives after each row. A row that begins an episode ends none.
        """
        a = self._reserve(len(endings))
        for t, ending in enumerate(endings):
            self._answer(a + t)
            self._arrive(self.block.at(a + t + 1).row, ending)
        self.block.answer(len(endings))
        self.answered += len(endings)

    def die(self, endings: np.ndarray) -> None:
        """Announce a window, write some rows of it, and be replaced by others.

        Args:
            endings: [t, b], t at most the ring's horizon.
        """
        a = self._reserve(self.block.ring.horizon)
        for t, ending in enumerate(endings):
            self._answer(a + t)
            self._arrive(self.block.at(a + t + 1).row, ending)
        for column in self.episodes:
            while column and column[-1].begin >= a:
                column.pop()
            if column and not (column[-1].ended and column[-1].begin + len(column[-1].seen) == a):
                column[-1].cut(a)
        self._begin()

    def row(self, n: int, column: int) -> Step:
        for episode in self.episodes[column - self.columns.start]:
            if n < episode.begin + len(episode.seen):
                return Step(episode, n - episode.begin)
        raise IndexError(n)

    @property
    def lo(self) -> int:
        """Before this row none can be read."""
        ring = self.block.ring
        return max(self.reserved - ring.num_slots + ring.margin, self.answered - ring.capacity)

    def _begin(self) -> None:
        self.block.begin(lambda row: self._arrive(row, np.zeros(len(self.columns), np.int64)))

    def _reserve(self, horizon: int) -> int:
        self.reserved = max(self.reserved, self.answered + horizon + 1)
        return self.block.reserve(horizon)

    def _answer(self, n: int) -> None:
        slot, k = self.block.at(n), self.block.ring.state_interval
        if n % k == 0:
            now = torch.tensor([c[-1].seen[-1] for c in self.episodes])
            for kept in tree_leaves(self.block.kept_state(n)):
                kept.copy_(now.reshape(-1, *[1] * (kept.ndim - 1)))
        for i, column in enumerate(self.episodes):
            slot.row.action[i] = action = -column[-1].seen[-1]
            if not column[-1].ended:
                column[-1].action.append(action)

    def _arrive(self, row: Row, endings: np.ndarray) -> None:
        for i, (column, ending) in enumerate(zip(self.episodes, endings.tolist(), strict=True)):
            self._shown += 1
            number = self._shown * 16 + self.columns[i]
            if first := not column or column[-1].ended:
                begin = column[-1].begin + len(column[-1].seen) if column else 0
                column.append(Episode(begin))
            episode = column[-1]
            episode.seen.append(number)
            episode.reward.append(0 if first else number)
            episode.ending = GOES_ON if first else ending
            row.observation.image[i], row.observation.count[i] = frame(number), number
            row.reward[i], row.info[i] = episode.reward[-1], number
            row.first[i], row.cut[i] = first, False
            row.terminated[i] = episode.ending in (TERMINATED, BOTH)
            row.truncated[i] = episode.ending in (TRUNCATED, BOTH)


def frame(number: int) -> int:
    """Pixels of an observation, never the 0 of padding."""
    return number % 251 + 1


def stack(step: Step, k: int) -> list[int]:
    """The last k frames of a row's episode, zeros before its first."""
    seen = [frame(number) for number in step.episode.seen[: step.t + 1]]
    return ([0] * k + seen)[-k:]


def n_step_return(step: Step, n: int, gamma: float) -> tuple[float, float, int]:
    """Of a live row: the sum of rewards, the discount of the bootstrap, and how many steps."""
    episode, t = step
    m = min(n, len(episode.seen) - 1 - t) if episode.ended else n
    total = sum(gamma**i * episode.reward[t + 1 + i] for i in range(m))
    at_end = t + m == len(episode.seen) - 1 and episode.ending in (TERMINATED, BOTH)
    return total, 0.0 if at_end else gamma**m, m


def usable(blocks: list[Environments], length: int, trained: range) -> Iterator[tuple[int, int]]:
    """(start, column) of every item that can be drawn."""
    for environments in blocks:
        ring = environments.block.ring
        for s in range(0, environments.answered - length + 1, ring.state_interval):
            if s - ring.history >= environments.lo:
                for b in environments.columns:
                    if any(environments.row(s + i, b).live for i in trained):
                        yield s, b


def check(
    window: Window, ring: Ring, blocks: list[Environments], starts: Any, columns: Any
) -> None:
    """Every row of drawn items is what was shown, done and received."""
    rows, inputs = window.rows, window.inputs()
    owner = {b: environments for environments in blocks for b in environments.columns}
    for i, (s, b) in enumerate(zip(starts.tolist(), columns.tolist(), strict=True)):
        for t in range(window.horizon + 1):
            step = owner[b].row(s + t, b)
            episode, j = step
            final = episode.ended and j == len(episode.seen) - 1
            assert rows.observation.count[t, i].tolist() == [episode.seen[j]] * 2
            assert rows.reward[t, i] == episode.reward[j] == inputs.reward[t, i]
            assert rows.first[t, i] == (j == 0) == inputs.first[t, i]
            assert rows.terminated[t, i] == (final and episode.ending in (TERMINATED, BOTH))
            assert rows.truncated[t, i] == (final and episode.ending in (TRUNCATED, BOTH))
            assert final or rows.action[t, i] == episode.action[j]
            assert j == 0 or inputs.previous_action[t, i] == episode.action[j - 1]
            stacked = inputs.observation.image[t, i].reshape(ring.frame_stack, -1)
            assert stacked.tolist() == [[x] * 6 for x in stack(step, ring.frame_stack)]
        for state in tree_leaves(window.kept_state(0)):
            step = owner[b].row(s, b)
            assert (state[i] == step.episode.seen[step.t]).all()


def filled(rows: int, ending: float = 0.2, **options: Any) -> tuple[Ring, list[Environments]]:
    """A ring into which so many rows of each column were written."""
    ring = make_ring(**{"capacity": 40, "num_envs": 3, "horizon": 4} | options)
    blocks, rng = [Environments(block) for block in ring.blocks], np.random.default_rng(0)
    for environments in blocks:
        write(environments, rows, rng, ending)
    return ring, blocks


def write(environments: Environments, rows: int, rng: Any = None, ending: float = 0.0) -> None:
    """So many rows of each column; a row that begins no episode ends one by chance."""
    rng, width = rng or np.random.default_rng(0), len(environments.columns)
    while rows > 0:
        shape = min(rows, environments.block.ring.horizon), width
        environments.run(np.where(rng.random(shape) < ending, rng.integers(1, 4, shape), 0))
        rows -= shape[0]


def items_of(drawn: Drawn) -> list[tuple[int, int]]:
    """(start, column) of every item of a draw."""
    return list(zip(drawn.starts.tolist(), drawn.columns.tolist(), strict=True))
