"""Stacks of the last k frames, built from single ones: for acting and for learning alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.arrays import tree_map
from rlpyt.storage import as_tensors


def is_image(storage: np.ndarray, leading: int = 2) -> bool:
    """Whether storage [S, B, ...] holds frames: 8-bit, of two or three dimensions.

    The same for storage with another number of leading dimensions than S and B.
    """
    return storage.dtype == np.uint8 and storage.ndim - leading in (2, 3)


def stack_frames(frames: np.ndarray, first: np.ndarray, k: int, out: np.ndarray) -> None:
    """Stacks of the last k frames of each row, oldest first, zero before an episode's start.

    Args:
        frames: [k-1+n, B, *frame] single frames; stacks of the last n rows are wanted.
        first: [k-1+n, B]; True where a row begins an episode.
        k: frames in a stack.
        out: [n, B, k, *frame], written.
    """
    n = len(out)
    alive = None  # [n, B]: the frame i rows before is of the row's own episode; None: all are
    for i in range(k):
        rows = slice(k - 1 - i, k - 1 - i + n)
        out[:, :, k - 1 - i] = frames[rows]
        if alive is not None and not alive.all():
            out[:, :, k - 1 - i][~alive] = 0
        began = first[rows]
        alive = ~began if alive is None else alive & ~began


class FrameStacks:
    """Where the stacks of n rows are built from the single frames of a storage.

    Args:
        observation: the storage's, [S, B, ...] numpy.
        n: rows; None: one, which is read without a dimension for it.
        k: frames in a stack; with 1 every leaf is read as it is stored.
    """

    def __init__(self, observation: Any, n: int | None, k: int) -> None:
        self._k = k
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []  # single frames, and their stacks
        self._tensors = tree_map(lambda x: self._allocate(x, n), observation)

    def build(self, first: np.ndarray, at: Any) -> None:
        """Build the stacks of n rows.

        Args:
            first: [S, B].
            at: slice or array of the storage's k-1+n rows that end with the n.
        """
        k, began = self._k, first[at]
        for frames, out in self._pairs:
            stack_frames(frames[at], began, k, out)

    def over(self, observation: Any) -> Any:
        """The rows' own tensors [n, B, ...], with stacks [n, B, k, ...] in place of frames."""
        return tree_map(lambda x, y: x if y is None else y, observation, self._tensors)

    def _allocate(self, frames: np.ndarray, n: int | None) -> Any:
        """The tensor [n, B, k, *frame] for a leaf that holds images, None for any other."""
        if self._k == 1 or not is_image(frames):
            return None
        out = np.zeros((n or 1, frames.shape[1], self._k, *frames.shape[2:]), frames.dtype)
        self._pairs.append((frames, out))
        return as_tensors(out[0] if n is None else out)
