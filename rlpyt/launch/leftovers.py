"""Runs that outlived the queue that started them: they are ended before they are gone on with."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence

from rlpyt.launch.journal import Record, is_alive

KILLED_SECONDS = 5.0


def end(records: Sequence[Record], grace_seconds: float) -> None:
    """Have the runs that are still alive save and end; kill those that do not.

    Their process is told from a later one of the same number by when it began.
    """
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, KILLED_SECONDS)):
        alive = [record for record in records if lives(record)]
        for record in alive:
            assert record.pid is not None
            send = os.killpg if number == signal.SIGKILL else os.kill
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send(record.pid, number)
        deadline = time.monotonic() + seconds
        while any(map(lives, alive)) and time.monotonic() < deadline:
            time.sleep(0.02)


def lives(record: Record) -> bool:
    """Whether the process that a journal names is still there."""
    return record.pid is not None and is_alive(record.pid, record.identity)
