"""What a process has used, and how long a loop took."""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARM_UP = 2.0  # seconds; processes that were just started are slow at first


def peak_memory_mb() -> int:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def tree_memory_mb() -> int:
    """Present memory of this process and all below it, shared pages divided among them (Linux)."""
    total, left = 0, [Path("/proc/self")]
    while left:
        process = left.pop()
        try:
            lines = (process / "smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            for thread in (process / "task").iterdir():
                children = (thread / "children").read_text().split()
                left += [Path("/proc", child) for child in children]
        except OSError:  # it has ended meanwhile
            continue
    return round(total / 2**10)


def timed(step: Callable[[], int], seconds: float) -> tuple[int, float]:
    """Call `step`, which says how many environment steps it took, again and again.

    Returns:
        The environment steps taken after the warm-up, and the seconds that they took.
    """
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM_UP:
        step()
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        steps += step()
    return steps, time.perf_counter() - begun


def say(steps: int, seconds: float, **settings: object) -> None:
    """Print what was measured as one JSON object."""
    speed = round(steps / seconds, 1)
    print(json.dumps({"steps_per_second": speed, "memory_mb": tree_memory_mb(), **settings}))
