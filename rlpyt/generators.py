"""Global generators of Python, NumPy and PyTorch, which environments and hooks may draw from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Begin all three anew: environments that draw from them are reproducible too."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # environments draw from this one
    torch.manual_seed(seed >> 1)


def generators() -> dict[str, Any]:
    """Their states, as a checkpoint holds them."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002  # environments draw from this one
    return {
        "python": {"version": version, "words": np.array(words, np.uint64), "gauss": gauss},
        "numpy": {"kind": kind, "keys": keys, "rest": [position, has_gauss, cached]},
        "torch": torch.get_rng_state(),
    }


def restore_generators(state: dict[str, Any]) -> None:
    """Go on from the states of `generators()`."""
    python, legacy = state["python"], state["numpy"]
    words = tuple(np.asarray(python["words"]).tolist())
    random.setstate((python["version"], words, python["gauss"]))
    np.random.set_state((legacy["kind"], legacy["keys"], *legacy["rest"]))  # noqa: NPY002  # environments draw from this one
    torch.set_rng_state(state["torch"])


@contextmanager
def generators_kept() -> Iterator[None]:
    """Leave all three as they are, whatever draws meanwhile."""
    kept = generators()
    try:
        yield
    finally:
        restore_generators(kept)
