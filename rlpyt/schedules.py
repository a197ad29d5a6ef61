"""Schedules by environment steps: constant, or linear to zero at the end of the run."""

from __future__ import annotations

from typing import Literal

Schedule = Literal["constant", "linear"]


def scheduled(value: float, schedule: Schedule, env_steps: int, total: int) -> float:
    """The value at the start of a window.

    Args:
        value: at the start of the run.
        schedule: "linear" falls to 0 at `total` and stays there.
        env_steps: taken so far.
        total: the length that the schedule was made for.
    """
    if schedule == "constant":
        return value
    return value * max(0.0, 1.0 - env_steps / total)


def due(before: int, after: int, interval: int) -> bool:
    """Whether a multiple of `interval` lies in (before, after]; never for an interval of 0."""
    return interval > 0 and before // interval != after // interval
