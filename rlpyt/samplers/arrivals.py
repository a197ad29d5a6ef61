"""What a learner takes of windows that another process may have collected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from rlpyt.ring_window import RingWindow, rows_of
from rlpyt.rotation import Rotation
from rlpyt.rows import Row
from rlpyt.samplers.link import Entry


class Arrived(NamedTuple):
    """Rows of one window or more of a ring, that follow each other, and the row after them."""

    start: int  # absolute number of row 0
    horizon: int  # T, all that are answered
    num_envs: int
    rows: Row  # numpy, [T+1, B, ...]; a view, or across the ring's seam a copy


class Arrivals(ABC):
    """Hands windows to the learner, in order."""

    together: bool  # whether all that are there are taken at once

    @abstractmethod
    def begin(self) -> None:
        """Nothing that is there now was taken; nobody writes."""

    @abstractmethod
    def take(self, entries: Sequence[Entry]) -> Any:
        """The windows that were recorded so, which the learner may read until it takes others."""

    def nothing(self, boundary: int) -> Any:
        """A window without rows, before this one; of a ring alone, whose learners take any."""
        raise TypeError(f"{type(self).__name__} has no empty windows")

    @abstractmethod
    def forget(self, boundary: int) -> None:
        """Give up rows behind this one that a sampler left when it died; nobody writes."""


@final
class RingArrivals(Arrivals):
    """Windows of a ring: what can be drawn from it changes when they are taken, not before."""

    together = True

    def __init__(self, window: RingWindow) -> None:
        self.window, self.ring = window, window.block.ring

    def begin(self) -> None:
        self.ring.look()

    def take(self, entries: Sequence[Entry]) -> Arrived:
        start, horizon = entries[0].start, sum(entry.horizon for entry in entries)
        self.ring.look(start + horizon)
        block = self.window.block
        return Arrived(start, horizon, self.window.num_envs, rows_of(block, start, horizon))

    def nothing(self, boundary: int) -> Arrived:
        rows = rows_of(self.window.block, boundary, 0)
        return Arrived(boundary, 0, self.window.num_envs, rows)

    def forget(self, boundary: int) -> None:
        block = self.window.block
        if block.answered != boundary:
            block.go_on_at(boundary, int(self.ring.bounds()[0][block.index]))


@final
class WindowArrivals(Arrivals):
    """Linear windows, which the learner takes one by one."""

    together = False

    def __init__(self, window: Rotation) -> None:
        self.window = window

    def begin(self) -> None:
        """Nothing: none is there."""

    def take(self, entries: Sequence[Entry]) -> Any:
        (entry,) = entries
        self.window.resume(entry.start)
        return self.window.present

    def forget(self, boundary: int) -> None:
        """Nothing: the next sampler writes over them."""


def arrivals_of(window: RingWindow | Rotation) -> Arrivals:
    """What hands out the windows that lie there."""
    return RingArrivals(window) if isinstance(window, RingWindow) else WindowArrivals(window)
