"""Items that are all drawn equally often."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from torch import Tensor

from rlpyt.replays.drawn import Drawn
from rlpyt.ring import Ring
from rlpyt.rows import Window


@final
class Uniform:
    """Draws every item with a live row equally often.

    Args:
        ring: what is drawn from.
        length: rows of an item.
        trained: those of them that are learned from, counted from its first.
    """

    def __init__(self, ring: Ring, length: int, trained: range) -> None:
        self.ring, self.length, self.trained = ring, length, trained
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether there has been an item that can be drawn."""
        self._ready = self._ready or self._any_live()
        return self._ready

    def draw(self, window: Window, generator: np.random.Generator, beta: float = 1.0) -> Drawn:
        """Fill a window of the ring with a draw; beta is that of `Prioritized`, not needed here."""
        starts, columns = self.ring.draw(window, generator, self.trained)
        return Drawn(starts, columns, None)

    def update(self, drawn: Drawn, priority: np.ndarray | Tensor) -> None:
        """Nothing: no item has a priority."""

    def sync(self) -> None:
        """Nothing: the ring knows its rows."""

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state; `ready` looks at the ring again."""
        self._ready = False

    def _any_live(self) -> bool:
        first, counts = self.ring.starts(self.length)
        k, trained = self.ring.state_interval, self.trained
        return any(
            self.ring.live(begin + k * np.arange(count)[:, None], columns, trained).any()
            for begin, count, columns in zip(
                first.tolist(), counts.tolist(), self.ring.columns, strict=True
            )
        )
