"""Processor time and memory of this process and all that it started, as Linux counts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def cpu_seconds() -> float | None:
    """Processor time that the processes used so far, those alive; None where it is not known."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for process in _tree():
        with suppress(OSError):  # it has ended meanwhile
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # in user mode, and in the kernel
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb() -> int | None:
    """Memory that the processes hold, shared pages divided among them; None if it is not known."""
    kilobytes = 0
    for process in _tree():
        with suppress(OSError):
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kilobytes += int(line.split()[1])
    return round(kilobytes / 1024) or None


def _tree() -> Iterator[Path]:
    """The folder of each process in /proc, this one's first."""
    left = [Path("/proc/self")]
    while left:
        process = left.pop()
        yield process
        with suppress(OSError):
            for thread in (process / "task").iterdir():
                with suppress(OSError):
                    children = (thread / "children").read_text().split()
                    left += [Path("/proc", child) for child in children]
