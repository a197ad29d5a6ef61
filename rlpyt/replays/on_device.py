"""A draw on a device: items as a `Window` holds them, with stacks built by tensor operations.

Rows travel as words: an entry of a ring's array, whatever its fields, is w integers of the widest
kind that divides it. So a draw is one operation for all small fields together and one for each
large field, and the fields are views of what arrives.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.packed import PackedRows, Place
from rlpyt.rows import Inputs, Row, is_image, read_inputs

_WORDS = (np.int64, np.int32, np.int16, np.uint8)


@final
class DeviceWindow:
    """N items of L rows on a device; to algorithms, what a `Window` is.

    Args:
        rows, states: the ring's.
        items, length: N and L.
        history: H, rows that are read before an item's first.
        reads, frame_stack: as a Window takes them.
        device: where the memory is taken.
    """

    def __init__(
        self,
        rows: PackedRows[Row],
        states: Any,
        items: int,
        length: int,
        history: int,
        *,
        reads: frozenset[str],
        frame_stack: int,
        device: torch.device,
    ) -> None:
        self.num_envs, self.horizon, self.frame_stack = items, length - 1, frame_stack
        empty, kept = (history + length, items), tree_leaves(states)
        self.rows_words = [like(x, empty, device) for x in rows.arrays]  # [H + L, N, w] each
        self.states_words = [like(x, (1, items), device) for x in kept]  # [1, N, w] each
        words = iter(self.states_words)
        self.states = tree_map(
            lambda x: field(next(words), Place(0, 0, x.dtype, x.shape[2:])), states
        )  # [1, N, ...]
        storage: Row = tree_map(lambda at: field(self.rows_words[at.array], at), rows.places)
        self.tensors: Row = storage[history:]  # [L, N, ...]
        self._first = storage.first
        self._pairs: list[tuple[Tensor, Tensor]] = []  # words of frames, and of their stacks
        self._inputs = read_inputs(
            self.tensors,
            tree_map(self._read, storage.observation, rows.tree.observation),
            storage.action[history - 1 : -1],
            reads,
        )

    def inputs(self) -> Inputs:
        """What the agent reads at rows 0 .. L-1, [L, N, ...]; valid until the next draw."""
        for frames, out in self._pairs:
            stack_frames(frames, self._first, out)
        return self._inputs

    def kept_state(self, c: int) -> Any:
        """The state as fed at the items' first row, c = 0: [N, ...]."""
        return tree_map(lambda x: x[c], self.states)

    def _read(self, leaf: Tensor, stored: np.ndarray) -> Tensor:
        """What is read of a leaf [H + L, N, ...]: its last L rows, or where stacks of them go."""
        k, n = self.frame_stack, self.horizon + 1
        if k == 1 or not is_image(stored):
            return leaf[len(leaf) - n :]
        out = leaf.new_zeros((n, self.num_envs, k, *leaf.shape[2:]))
        frames, stacks = leaf.view(*leaf.shape[:2], -1), out.view(*out.shape[:3], -1)
        word = _widest(frames)  # an eighth of the elements
        self._pairs.append((frames.view(word), stacks.view(word)))
        return out


def stack_frames(frames: Tensor, first: Tensor, out: Tensor) -> None:
    """Stacks of the last k frames of each row, oldest first, zero before an episode's start.

    Args:
        frames: [k-1+n, N, *frame] single frames; stacks of the last n rows are wanted.
        first: [k-1+n, N]; True where a row begins an episode.
        out: [n, N, k, *frame], written.
    """
    k = out.shape[2]
    episode = first.cumsum(0)  # frames are of one episode where no row between begins another
    own = episode.unfold(0, k, 1) == episode[k - 1 :, :, None]  # [n, N, k]
    stacks = frames.unfold(0, k, 1).movedim(-1, 2)  # [n, N, k, *frame], a view
    own = own.reshape(*own.shape, *[1] * (stacks.ndim - 3))
    torch.where(own, stacks, frames.new_zeros(()), out=out)


def words_of(array: np.ndarray) -> Tensor:
    """An array [S, B, ...] as [S, B, w] integers, the same memory."""
    word, count = _words(array)
    if not count:
        return torch.from_numpy(np.empty((*array.shape[:2], 0), word))
    flat = array.reshape(*array.shape[:2], -1)
    return torch.from_numpy(flat.view(np.uint8).view(word))


def like(
    array: np.ndarray, leading: tuple[int, ...], device: torch.device | str, *, pin: bool = False
) -> Tensor:
    """Memory [*leading, w] for words of an array's entries.

    Args:
        pin: page-locked, in host memory.
    """
    word, count = _words(array)
    dtype = torch.from_numpy(np.empty(0, word)).dtype
    return torch.zeros((*leading, count), dtype=dtype, device=device, pin_memory=pin)


def field(words: Tensor, place: Place) -> Tensor:
    """A field [n, N, ...] of entries [n, N, w]: a view."""
    dtype = torch.from_numpy(np.empty(0, place.dtype)).dtype
    size = math.prod(place.shape) * place.dtype.itemsize
    if not size:
        return torch.zeros((*words.shape[:2], *place.shape), dtype=dtype, device=words.device)
    own = words.view(torch.uint8)[..., place.begin : place.begin + size].view(dtype)
    return own.unflatten(-1, place.shape) if place.shape else own[..., 0]


def _widest(x: Tensor) -> torch.dtype:
    """The widest integers that bytes [..., F] can be seen as."""
    whole = x.shape[-1], x.storage_offset(), *x.stride()[:-1]
    kinds = torch.int64, torch.int32, torch.int16, torch.uint8
    return next(kind for kind in kinds if not any(n % kind.itemsize for n in whole))


def _words(array: np.ndarray) -> tuple[Any, int]:
    """The kind of an entry's words, and how many they are."""
    size = math.prod(array.shape[2:]) * array.dtype.itemsize
    word = next(x for x in _WORDS if size % np.dtype(x).itemsize == 0)
    return word, size // np.dtype(word).itemsize
