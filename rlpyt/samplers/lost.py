"""Environments that were lost with their process: what another process needs to go on for them."""

from __future__ import annotations

from typing import Any

import numpy as np


def lost(resets: np.ndarray, starts: int = 0) -> dict[str, Any]:
    """The snapshot of environments of which nothing is left but how often they were reset.

    Whoever restores it cuts their episodes, and begins others with the next resets.

    Args:
        resets: [B], at least as many as there were.
        starts: the same of a pool whose environments are all reset together.
    """
    log = {"rows": (), "begins": np.full(len(resets), -1), "count": 0}
    return {"resets": resets, "log": log, "own": {}, "starts": starts}
