"""NumPy's global generator, as environments and networks of users draw from it and seed it.

New code has a generator of its own, but much of what users bring does not: the package seeds, saves
and restores the global one for them, and its tests must call what such code calls.
"""

import numpy as np


def draw_from_numpy() -> float:
    """A number in [0, 1)."""
    return np.random.random()  # noqa: NPY002  # the legacy global generator is what is meant


def seed_numpy(seed: int) -> None:
    """Begin it anew."""
    np.random.seed(seed)  # noqa: NPY002  # the legacy global generator is what is meant


def words_of_numpy() -> np.ndarray:
    """A copy of its state's words."""
    return np.random.get_state()[1].copy()  # noqa: NPY002  # the legacy global generator is meant
