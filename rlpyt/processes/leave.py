"""Imported by a fork server alone, after all else: it ends without taking its modules down.

With PyTorch among them that takes seconds, in which the server would outlive the main process.
"""

from __future__ import annotations

import atexit
import os


def _leave(server: int) -> None:
    if os.getpid() == server:  # not what an environment forked
        os._exit(0)


atexit.register(_leave, os.getpid())  # the last registered, the first to run
