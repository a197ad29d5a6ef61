"""The replay: a ring, a selector of items in it, and the window that items are copied into."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.errors import UsageError
from rlpyt.replays.drawn import Drawn
from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring
from rlpyt.rows import Window


class Replay:
    """Draws items of consecutive rows.

    Args:
        ring: where the rows lie.
        selector: says which items.
        items: of one draw.
        length: rows of an item.
        generator: of the draws; its state is part of a checkpoint.
    """

    def __init__(
        self,
        ring: Ring,
        selector: Uniform | Prioritized,
        items: int,
        length: int,
        generator: np.random.Generator,
    ) -> None:
        needed = ring.history + length + ring.state_interval - 1
        if ring.capacity < needed:
            raise UsageError(
                f"a replay of {ring.capacity} rows for each of {ring.num_envs} environments never "
                f"holds an item: {length} rows, the {ring.history} before that it is read with, "
                f"beginning at every {ring.state_interval}th; choose replay_size of at least "
                f"{needed * ring.num_envs}"
            )
        self.ring, self.selector, self.generator = ring, selector, generator
        self.window: Window = ring.window(items, length)  # of the newest draw, [length, items]

    @property
    def ready(self) -> bool:
        """Whether there is an item that can be drawn."""
        return self.selector.ready

    @property
    def rows(self) -> int:
        """Rows that can be read, over all environments."""
        return self.ring.readable

    def draw(self, beta: float = 1.0) -> Drawn:
        """Fill `window` with a draw.

        Args:
            beta: exponent of the importance weights.
        """
        return self.selector.draw(self.window, self.generator, beta)

    def update(self, drawn: Drawn, error: np.ndarray) -> None:
        """Tell the selector the errors [N], at least 0, of what was drawn."""
        self.selector.update(drawn, error)

    def state(self) -> dict[str, Any]:
        return {"generator": self.generator.bit_generator.state, "selector": self.selector.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.generator.bit_generator.state = state["generator"]
        self.selector.load(state["selector"])
