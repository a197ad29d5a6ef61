"""How long other processes may take, and what it means if one fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlpyt.processes.wait import LOOK


@dataclass(frozen=True)
class Limits:
    """Seconds (0: any time) for a call of an environment and for a start; and after a failure."""

    step: float = 60.0
    start: float = 300.0
    on_failure: Literal["raise", "restart", "drop"] = "raise"
    restarts: int = 10  # in one run

    @property
    def every(self) -> float:
        """Seconds between looks at what others do."""
        return min(LOOK, self.step / 4) if self.step else LOOK
