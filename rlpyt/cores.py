"""How many processor cores this process may use."""

from __future__ import annotations

import os

from rlpyt import torchrun


def allowed_cores() -> int:
    """Cores that this process may run on: its affinity, and its container's quota.

    Of several ranks on a machine each has its part of them.
    """
    return max(1, shared_cores() // torchrun.here())


def shared_cores() -> int:
    """The same of all ranks on this machine together."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, _cgroup_quota() or cores)


def _cgroup_quota() -> int | None:
    """Whole cores that the control group (version 2) grants; None where it sets no limit."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else max(1, int(quota) // int(period))
