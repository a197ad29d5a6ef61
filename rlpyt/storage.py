"""Memory for trees of arrays: allocated, shared between processes, seen as tensors.

Torch is imported by the functions that need it, not by this file: who writes rows needs none.
"""

import math
import mmap
import os
import sys
from typing import Any, TypeVar

import numpy as np

from rlpyt.arrays import register_with_torch, tree_leaves, tree_map

T = TypeVar("T")


def zeros(example: T, leading: tuple[int, ...] = (), *, shared: bool = False) -> T:
    """Allocate zeros of each leaf's dtype and of shape [*leading, *leaf.shape].

    Args:
        example: tree of arrays, NumPy scalars or numbers.
        leading: dimensions put in front of every leaf's own.
        shared: in one anonymous mapping, each leaf 64-byte aligned, which processes forked later
            see too; nothing of it appears in /dev/shm.
    """
    leaves = tree_map(np.asarray, example)
    if not shared:
        return tree_map(lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), leaves)
    count, offset = math.prod(leading), 0
    memory = _anonymous_memory(sum(_aligned(count * x.nbytes) for x in tree_leaves(leaves)))

    def take(leaf: np.ndarray) -> np.ndarray:
        nonlocal offset
        if leaf.dtype.hasobject:
            raise TypeError(f"dtype {leaf.dtype} cannot be shared; choose a numeric one")
        array = np.ndarray((*leading, *leaf.shape), leaf.dtype, memory, offset)
        offset += _aligned(array.nbytes)
        return array

    return tree_map(take, leaves)


def as_tensors(tree: T) -> T:
    """Return the arrays of `tree` as tensors that share their memory."""
    import torch

    register_with_torch()
    return tree_map(torch.as_tensor, tree)


def as_arrays(tree: T) -> T:
    """Return the tensors of `tree` as arrays that share their memory (copied from a device)."""
    import torch

    return tree_map(lambda leaf: torch.as_tensor(leaf).numpy(force=True), tree)


def to_device(tree: T, device: Any) -> T:
    """Return the tensors of `tree` on `device`; those that are there already are not copied."""
    return tree_map(lambda leaf: leaf.to(device), tree)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _anonymous_memory(size: int) -> mmap.mmap:
    """Memory that forked processes share, really allocated: a later write cannot be refused."""
    size = max(size, 1)
    if sys.platform != "linux":
        return mmap.mmap(-1, size)
    file = os.memfd_create("rlpyt")
    try:
        os.posix_fallocate(file, 0, size)
        return mmap.mmap(file, size)
    except OSError as error:
        megabytes = f"{size / 2**20:.0f} MB of shared memory"
        raise MemoryError(f"{megabytes} are not to be had: {error.strerror}") from error
    finally:
        os.close(file)
