"""CPUs of a machine that runs take for themselves, where nobody hands them out.

A cluster's scheduler counts CPUs and does not say which. A CPU is claimed by the lock of a file of
its number, which the system lets go of when the process that claimed it ends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class Claims:
    """CPUs that this process holds until it ends, or until `release`.

    Args:
        count: how many are wanted.
        folder: of the locks, of this machine alone; None: among its temporary files.
    """

    def __init__(self, count: int, folder: Path | None = None) -> None:
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._folder = folder or Path(tempfile.gettempdir()) / f"rlpyt-cpus-{os.getuid()}"
        self._folder.mkdir(exist_ok=True)
        self._locks: list[int] = []
        held: list[int] = []
        for cpu in allowed:
            if len(held) < count and self._take(cpu):
                held.append(cpu)
        spare = [cpu for cpu in allowed if cpu not in held]
        self.cpus = tuple(sorted(held + spare[: count - len(held)]))  # what lacks is shared

    def release(self) -> None:
        """Leave them to others."""
        for lock in self._locks:
            os.close(lock)
        self._locks = []

    def _take(self, cpu: int) -> bool:
        import fcntl

        lock = os.open(self._folder / str(cpu), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._locks.append(lock)
        return True
