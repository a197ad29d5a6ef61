"""A job on its way: where it runs, and since when."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rlpyt.launch.progress import Output
from rlpyt.launch.slots import Slot


@dataclass
class Attempt:
    """A job in its slot."""

    slot: Slot
    output: Output
    steps_then: int  # env steps when it began
    begun: float | None = None  # None until its process is there
    pruned: bool = False  # its source wanted it to end
    kill_at: float | None = None
    over: float | None = None  # when it ended

    @property
    def seconds(self) -> float:
        """Since it began, until it ended."""
        over = time.monotonic() if self.over is None else self.over
        return 0.0 if self.begun is None else over - self.begun
