"""What a child does before anything else, and before it imports more than it needs for that."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import NoReturn

from rlpyt.processes import ending
from rlpyt.processes.parcel import Parcel

HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Blocked while a process starts, so that none can end it before it says what it does with them."""


def run(first: Parcel, rest: Parcel) -> NoReturn:
    """The whole life of a child; see `child`."""
    code = 1
    try:
        # Handlers that do nothing: what an environment starts would inherit ignored signals.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ignore)
        os.register_at_fork(after_in_child=_answer_signals)
        ending.lead_group()
        parent = multiprocessing.parent_process()
        if parent is not None:
            ending.end_with(parent.sentinel)
        from rlpyt.processes import child

        code = child.live(first, rest)
    finally:
        os._exit(code)


def _ignore(number: int, frame: object) -> None:
    """The main process ends this one; a signal to both must not."""


def _answer_signals() -> None:
    """In a process that an environment forked, which may wish to end it as usual."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
