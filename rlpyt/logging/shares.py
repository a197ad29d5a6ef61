"""Where the time of training went."""

from __future__ import annotations


def shares_of(spent: dict[str, float], seconds: float, env_steps: int) -> dict[str, float]:
    """Speed, and the fractions of the time spent in each part; `wait` is what is left.

    Where parts overlap, for a process of its own collects, it was measured and is among them.
    """
    seconds = max(seconds, 1e-9)
    parts = {"wait": max(0.0, seconds - sum(spent.values())), **spent}
    shares = {f"time/{name}": part / seconds for name, part in parts.items()}
    return {**shares, "time/steps_per_second": env_steps / seconds}
