"""Whether a replay fits into memory: said before a run begins, not by the system hours later.

Memory for rows is taken up as they are written, so a replay that is too large makes a run slow, or
has it killed, when it is half full.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt import torchrun
from rlpyt.arrays import tree_leaves
from rlpyt.errors import UsageError

_LIMITS = (  # of control groups, version 2 and 1: the limit, what is used, what of it is only cache
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def row_bytes(row: Any, state: Any = (), interval: int = 1, prioritized: bool = False) -> float:
    """Memory of one row of one environment in a replay.

    Args:
        row: example without leading dimensions.
        state: [B, ...] example of the state, which is kept at every `interval`-th row.
        prioritized: every item that begins at such a row has a leaf in a sum tree.
    """
    kept = sum(x[0].nbytes for x in tree_leaves(state))
    tree = 2 * np.dtype(np.float64).itemsize if prioritized else 0
    return sum(np.asarray(x).nbytes for x in tree_leaves(row)) + (kept + tree) / interval


def require(rows: int, bytes_per_row: float, root: Path = Path("/")) -> None:
    """Refuse a replay that cannot be held.

    Args:
        rows: that it will hold, over all environments.
        bytes_per_row: see `row_bytes`.
        root: below it lie /proc and /sys.
    """
    needed, available = int(rows * bytes_per_row), available_bytes(root)
    if available is None or needed <= available:
        return
    fits = int(0.9 * available / bytes_per_row)  # the rest of the run takes memory too
    raise UsageError(
        f"the replay needs {needed:,} bytes ({_gigabytes(needed)}: {rows:,} rows of "
        f"{bytes_per_row:,.0f} bytes), and {available:,} ({_gigabytes(available)}) are available; "
        f"choose --replay-size {fits} or less, a smaller observation, or free memory"
    )


def require_shared(needed: int, root: Path = Path("/")) -> None:
    """Refuse shared memory that cannot be held: it is taken at once, and shared memory that is too
    large does not fail, but brings the system's out-of-memory killer.

    Args:
        needed: bytes.
        root: below it lie /proc and /sys.
    """
    available = available_bytes(root)
    if available is not None and needed > 0.95 * available:  # the rest of the run takes some too
        raise UsageError(
            f"{needed / 2**20:.1f} MB of shared memory are needed, and {available / 2**20:.1f} MB "
            "are available; choose fewer environments, a shorter horizon or a smaller "
            "--replay-size, or free memory"
        )


def file_too_large(size: int) -> str:
    """Why a file of so many bytes could not be written here, by `ulimit -f`; "" where it could."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY or size <= limit:
        return ""
    return (
        f"compiling writes files of up to {size >> 20} MB, and the limit of a file's size is "
        f"{limit / 2**20:.3g} MB (ulimit -f)"
    )


def available_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process can still take; None where the system does not say.

    What the system has, swap not counted, what each control group above this process leaves, of
    either a part where other ranks are on this machine; and its own limit (`ulimit -v`).
    """
    shared = [
        x // torchrun.here() for x in (_system(root), *_control_groups(root)) if x is not None
    ]
    limits = (_address_space(root), *shared)
    left = [x for x in limits if x is not None]
    return min(left, default=None)


def _system(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _address_space(root: Path) -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _lines(root / "proc/self/statm")
    if limit == resource.RLIM_INFINITY or not used:
        return None
    return max(0, limit - int(used[0].split()[0]) * resource.getpagesize())


def _control_groups(root: Path) -> list[int]:
    """What the limits of this process's control groups leave, from its own to the outermost."""
    mounts = root / "sys/fs/cgroup"
    left = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = mounts / "memory" if controllers else mounts
        own = top / path.strip("/")
        for group in (own, *own.parents):
            if not group.is_relative_to(top):
                break
            left += [x for names in _LIMITS if (x := _left(group, *names)) is not None]
    return left


def _left(group: Path, limit: str, used: str, cache: str) -> int | None:
    """What a control group's limit leaves; None where it sets none."""
    try:
        most, now = int((group / limit).read_text()), int((group / used).read_text())
    except (OSError, ValueError):  # "max" is no limit
        return None
    stat = dict(line.split() for line in _lines(group / "memory.stat"))
    return max(0, most - now + int(stat.get(cache, 0)))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
