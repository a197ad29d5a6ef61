"""Where the time of training went."""

from __future__ import annotations

from typing import final


def shares_of(spent: dict[str, float], seconds: float, env_steps: int) -> dict[str, float]:
    """Speed, and the fractions of the time spent in each part; `wait` is what is left.

    Where parts overlap, for a process of its own collects, it was measured and is among them.
    """
    seconds = max(seconds, 1e-9)
    parts = {"wait": max(0.0, seconds - sum(spent.values())), **spent}
    shares = {f"time/{name}": part / seconds for name, part in parts.items()}
    return {**shares, "time/steps_per_second": env_steps / seconds}


@final
class Spent:
    """Seconds of training in this process, without evaluation, and what they were spent on.

    Attributes:
        seconds: in all.
        learning: of them, since the newest line of the log.
        begun_at: environment steps when this process took over.
    """

    def __init__(self) -> None:
        self.seconds = self.learning = 0.0
        self._parts = {"env": 0.0, "act": 0.0, "learn": 0.0}  # up to the newest line
        self._line_seconds = 0.0  # at the newest line
        self._line_steps = self.begun_at = 0

    def begin(self, env_steps: int) -> None:
        """This process takes over at so many environment steps."""
        self._line_steps = self.begun_at = env_steps

    def line(self, sampling: dict[str, float], env_steps: int) -> dict[str, float]:
        """Speed and shares since the line before.

        Args:
            sampling: seconds of the sampler since then, by part.
            env_steps: of the run so far.
        """
        parts = {**sampling, "learn": self.learning}
        seconds, steps = self.seconds - self._line_seconds, env_steps - self._line_steps
        self._parts = {name: self._parts.get(name, 0.0) + x for name, x in parts.items()}
        self.learning, self._line_seconds, self._line_steps = 0.0, self.seconds, env_steps
        return shares_of(parts, seconds, steps)

    def overall(self, env_steps: int) -> dict[str, float]:
        """Speed and shares of all, up to so many environment steps of the run."""
        return shares_of(self._parts, self.seconds, env_steps - self.begun_at)
