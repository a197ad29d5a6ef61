"""What a selector drew from the ring."""

from typing import NamedTuple

import numpy as np


class Drawn(NamedTuple):
    """N items of consecutive rows; where and with which weights."""

    starts: np.ndarray  # [N] absolute number of each item's first row
    columns: np.ndarray  # [N]
    weights: np.ndarray | None  # [N] float32 importance weights, the largest 1; None: all are
