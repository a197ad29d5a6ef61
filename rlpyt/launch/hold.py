"""Who runs a sweep: one queue at a time, on whatever machine sees its folder.

The queue's process and machine are in a file, which it locks and touches every few seconds: so
others know of it where the disk has no locks, and on machines that do not see its process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlpyt.errors import UsageError, reason_of
from rlpyt.launch.journal import identity, is_alive
from rlpyt.logging.text import format_duration

LOCK = "queue.lock"
BEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # after which a queue of another machine is taken to have ended
JOIN_SECONDS = 10.0  # for a beat that a network disk holds up
WATCH_SECONDS = 3 * BEAT_SECONDS  # in which one shows a beat that lives, whatever its clock says


@dataclass(frozen=True)
class Holder:
    """The queue that is, or was, at work on a sweep."""

    pid: int
    identity: str  # of its process (`journal.identity`)
    host: str  # its machine
    seen_seconds: float  # since it last touched its file

    @property
    def here(self) -> bool:
        """Whether its process can be seen from here; a container has processes of its own."""
        boot = identity(os.getpid()).partition(":")[0]
        return self.host == socket.gethostname() and self.identity.partition(":")[0] == boot

    @property
    def alive(self) -> bool:
        """Whether it is at work, as far as that can be told."""
        if self.here:
            return is_alive(self.pid, self.identity)
        return self.seen_seconds < SILENT_SECONDS

    def __str__(self) -> str:
        if self.here:
            return f"process {self.pid}"
        seen = format_duration(self.seen_seconds)
        return f"process {self.pid} on {self.host}, seen {seen} ago"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other queues from this sweep meanwhile; the system lets go when this process ends."""
    path, over = folder / LOCK, threading.Event()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}), so no queue can run there; choose a "
            "folder that can be written with --runs"
        ) from None
    try:
        other = holder(folder)
        if not _lock(file) or (other is not None and _is_at_work(other, path)):
            raise UsageError(
                f"{folder} is being run by another queue{f' ({other})' if other else ''}; wait for "
                f"it, or stop it there with Ctrl-C. `rlpyt sweep status {folder}` shows how far it "
                "is"
            )
        me = [os.getpid(), identity(os.getpid()), socket.gethostname()]
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(me).encode(), 0)
            os.fsync(file)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written ({reason_of(error)}); make room, and give the command "
                "again"
            ) from None
        beating = threading.Thread(target=_beat, args=(file, over), daemon=True, name="beat")
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join(JOIN_SECONDS)
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
    finally:
        os.close(file)


def holder(folder: Path) -> Holder | None:
    """The queue that holds a sweep, or did when it was killed; None where none does."""
    try:
        with open(folder / LOCK) as file:  # opened: a network disk then says what is so now
            pid, was, *host = json.load(file)
            touched = os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError, TypeError):
        return None
    seen = max(0.0, time.time() - touched)
    return Holder(int(pid), str(was), str(host[0]) if host else socket.gethostname(), seen)


def _is_at_work(other: Holder, path: Path) -> bool:
    """Whether a queue that left its name works on; the lock was free, or the disk has none."""
    if other.here:
        return other.alive and other.pid != os.getpid()
    print(f"waiting to see whether another queue ({other}) still works", file=sys.stderr)
    deadline, before = time.monotonic() + WATCH_SECONDS, _touched(path)
    while time.monotonic() < deadline:
        time.sleep(min(0.5, WATCH_SECONDS / 10))
        if _touched(path) != before:
            return True
    return False


def _touched(path: Path) -> float:
    with open(path) as file:
        return os.fstat(file.fileno()).st_mtime


def _beat(file: int, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(file)


def _lock(file: int) -> bool:
    """Whether the lock was free; some network disks and Windows have none, and count as free."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True
