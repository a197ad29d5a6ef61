"""Memory for trees of arrays: allocated, shared between processes, seen as tensors.

Shared memory is a file without a name: nothing of it appears in /dev/shm, whose size does not
matter, and it is gone with the last process that has it, however that ends. Torch is imported by
the functions that need it, not by this file: who writes rows needs none.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import sys
import zlib
from contextlib import suppress
from typing import Any, TypeVar, final

import numpy as np

from rlpyt.arrays import register_with_torch, tree_leaves, tree_map
from rlpyt.descriptors import Descriptor
from rlpyt.errors import UsageError
from rlpyt.memory_budget import require_shared

T = TypeVar("T")
_MFD_CLOEXEC = 1
LINE = 64  # bytes of a cache line: where each leaf begins


@final
class Memory:
    """Memory that several processes see, handed over while a process is started.

    Who makes the same parts in the same order on the same memory sees the same arrays: the process
    that created it makes new blocks, one that received it finds them again from the first on.
    """

    def __init__(self) -> None:
        self._file = Descriptor(_new_file())
        self._end = 0  # bytes up to which blocks were made or found
        self.created = True
        """Whether this process is the one that makes the blocks: contents begin as zeros there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._file,)

    def zeros(self, example: T, leading: tuple[int, ...] = ()) -> T:
        """The next block: arrays of each leaf's dtype and of shape [*leading, *leaf.shape].

        Args:
            example: tree of arrays, NumPy scalars or numbers.
            leading: dimensions put in front of every leaf's own.
        """
        leaves = tree_map(np.asarray, example)
        listed = [(leaf.dtype, (*leading, *leaf.shape)) for leaf in tree_leaves(leaves)]
        if not listed:
            return leaves
        size = LINE + sum(_aligned(dtype.itemsize * math.prod(s)) for dtype, s in listed)
        offset = LINE
        memory: mmap.mmap | None = None

        def take(leaf: np.ndarray) -> np.ndarray:
            nonlocal offset, memory
            if leaf.dtype.hasobject:
                raise TypeError(f"dtype {leaf.dtype} cannot be shared; choose a numeric one")
            memory = memory or self._block(size, repr(listed))
            array = np.ndarray((*leading, *leaf.shape), leaf.dtype, memory, offset)
            offset += _aligned(array.nbytes)
            return array

        return tree_map(take, leaves)

    def close(self) -> None:
        """No further blocks; those that exist last as long as their arrays."""
        self._file.close()

    def _block(self, size: int, layout: str) -> mmap.mmap:
        """The next `size` bytes, which begin with a line that tells the layout of the rest."""
        mark = b"rlpyt" + zlib.crc32(layout.encode()).to_bytes(4, "little")
        file, begin = self._file.fileno(), self._end
        end = begin - (-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        if self.created:
            _allocate(file, begin, end - begin)
        elif os.fstat(file).st_size < end:
            raise RuntimeError(f"shared memory has no such block: {layout}, of {size:,} bytes")
        try:
            memory = mmap.mmap(file, size, offset=begin)
        except OSError as error:
            raise _refused(size, error) from error
        if self.created:
            memory[: len(mark)] = mark
        elif memory[: len(mark)] != mark:
            raise RuntimeError(
                f"the next block of shared memory holds other arrays than these: {layout}; every "
                "process must make the same parts in the same order"
            )
        self._end = end
        return memory


def _received(file: Descriptor) -> Memory:
    memory = Memory.__new__(Memory)
    memory._file, memory._end, memory.created = file, 0, False
    return memory


def zeros(example: T, leading: tuple[int, ...] = (), *, shared: Memory | None = None) -> T:
    """Allocate zeros of each leaf's dtype and of shape [*leading, *leaf.shape].

    Args:
        example: tree of arrays, NumPy scalars or numbers.
        leading: dimensions put in front of every leaf's own.
        shared: where other processes see them too; None is this process's own memory.
    """
    if shared is not None:
        return shared.zeros(example, leading)
    leaves = tree_map(np.asarray, example)
    return tree_map(lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), leaves)


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
    return -(-size // LINE) * LINE


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlpyt")
    if sys.platform == "linux":  # Pythons of conda and uv, built for an older libc than is there
        import ctypes

        with suppress(AttributeError):
            descriptor: int = ctypes.CDLL(None).memfd_create(b"rlpyt", _MFD_CLOEXEC)
            if descriptor >= 0:
                return descriptor
    import tempfile

    with tempfile.TemporaryFile() as file:  # its name is gone before anything is written
        return os.dup(file.fileno())


def _allocate(file: int, begin: int, size: int) -> None:
    """Really take the memory: a file that only says its size is refused at a later write."""
    require_shared(size)
    try:
        if sys.platform == "linux":
            os.posix_fallocate(file, begin, size)
        else:
            os.ftruncate(file, begin + size)
    except OSError as error:
        raise _refused(size, error) from error


def _refused(size: int, error: OSError) -> UsageError:
    if error.errno == errno.EFBIG:  # which holds for memory that has a descriptor, too
        return UsageError(
            f"{size / 2**20:.1f} MB of shared memory are not to be had: the limit of a file's size "
            "is smaller; raise it (ulimit -f unlimited)"
        )
    return UsageError(
        f"{size / 2**20:.1f} MB of shared memory are not to be had ({error.strerror}); choose "
        "fewer environments, a shorter horizon or a smaller --replay-size, or raise the limit"
    )
