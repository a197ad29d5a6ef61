"""Numbers exchanged by ranks of one machine, through memory that all of them map.

Over a loopback network a sum of three numbers takes 0.2 to 1 ms, as long as an update of a small
network; here some 20 µs.
"""

from __future__ import annotations

import mmap
import os
import platform
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.cores import shared_cores

MOST_BYTES: Final = 8 << 20
"""Of what one rank gives; more goes through gloo, as does what is summed meanwhile."""
LINE: Final = 64  # bytes of a cache line
SPIN_SECONDS: Final = 1e-4
NAP_SHARE: Final = 0.1
LONGEST_NAP: Final = 2e-3
LOOK_SECONDS: Final = 0.05  # between two looks at whether the others still live


@final
class Nearby:
    """What each rank gives, read by all: every rank makes the same calls in the same order.

    Each has two places, for even and odd calls. Who writes call n + 2 has seen all others at call
    n + 1, and so done with call n.

    Args:
        file: descriptor of the memory, `size_for(size)` bytes of zeros when it was made.
        rank: of this process.
        pids: of all ranks.
        failed: whether another rank is known to have failed.
    """

    def __init__(
        self, file: int, rank: int, pids: Sequence[int], failed: Callable[[], bool]
    ) -> None:
        self._rank, self._size, self._failed = rank, len(pids), failed
        # Where ranks take turns on a core, who spins keeps it from whom it waits for.
        self._spins = SPIN_SECONDS if shared_cores() >= self._size else 0.0
        memory = mmap.mmap(file, size_for(self._size))
        heads = np.frombuffer(memory, np.int64, self._size * LINE // 8)
        self._turns = heads[:: LINE // 8]  # calls that each rank has written
        self._sizes = heads.reshape(self._size, -1)[:, 1:3]  # bytes it gave, at even and odd ones
        places = torch.frombuffer(memory, dtype=torch.uint8, offset=self._size * LINE)
        self._places = places.view(2, self._size, MOST_BYTES)
        self._call = 0
        self._ended = select.poll()
        self._pids = {os.pidfd_open(pid): pid for pid in pids if pid != pids[rank]}
        for process in self._pids:
            self._ended.register(process, select.POLLIN)

    def takes(self, tensor: Tensor) -> bool:
        """Whether it is exchanged here: of all ranks the same, for theirs are alike."""
        small = tensor.numel() * tensor.element_size() <= MOST_BYTES
        return tensor.device.type == "cpu" and small and tensor.is_contiguous()

    def gather(self, own: Tensor) -> list[Tensor]:
        """What all ranks give, by rank: to be read before the next call.

        Raises:
            RuntimeError: another rank is no more, or has failed, or gives more or fewer numbers.
        """
        self._call += 1
        size, place = own.numel() * own.element_size(), self._call % 2
        theirs = [part.view(own.dtype) for part in self._places[place, :, :size]]
        theirs[self._rank].copy_(own.detach().view(-1))
        self._sizes[self._rank, place] = size
        self._turns[self._rank] = self._call  # after what it tells of: x86 keeps that order
        self._wait()
        sizes = self._sizes[:, place]
        if (sizes != size).any():
            raise RuntimeError(
                f"ranks exchange unlike numbers ({sizes.tolist()} bytes, by rank): each must make "
                "the same calls in the same order, in hooks too"
            )
        return theirs

    def sum_(self, tensor: Tensor) -> None:
        """Put the sum in its place: added in the order of ranks, so that it is the same in all."""
        first, second, *others = self.gather(tensor)
        flat = tensor.detach().view(-1)
        torch.add(first, second, out=flat)
        for other in others:
            flat.add_(other)

    def close(self) -> None:
        """Watch the others no more; the memory goes with this process."""
        for process in self._pids:
            os.close(process)

    def _wait(self) -> None:
        """Until all have written this call."""
        turns, call = self._turns, self._call
        begun = looked = time.perf_counter()
        while turns.min() < call:
            now = time.perf_counter()
            if now - looked > LOOK_SECONDS:
                looked = now
                gone = self._ended.poll(0)
                if (gone or self._failed()) and turns.min() < call:  # not the last that it did
                    named = (f"process {self._pids[process]} has ended" for process, _ in gone)
                    raise RuntimeError(", ".join(named) or "another rank has failed")
            if now - begun < self._spins:
                os.sched_yield()
            else:  # the longer it has taken, the less it matters when this is noticed
                time.sleep(min((now - begun) * NAP_SHARE, LONGEST_NAP))


def size_for(ranks: int) -> int:
    """Bytes of the memory."""
    return ranks * LINE + 2 * ranks * MOST_BYTES


def new_file(ranks: int) -> int:
    """Memory without a name, gone with the last process that has it; a descriptor."""
    file = os.memfd_create("rlpyt ranks")
    try:
        os.ftruncate(file, size_for(ranks))
    except OSError:
        os.close(file)
        raise
    return file


def machine() -> Any:
    """What processes have in common that may exchange here; None: none may."""
    if platform.machine() not in ("x86_64", "AMD64") or not hasattr(os, "memfd_create"):
        return None
    with suppress(OSError, AttributeError), open("/proc/sys/kernel/random/boot_id") as file:
        os.close(os.pidfd_open(os.getpid()))
        spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net")]
        return file.read(), spaces, os.getuid()
    return None


def meet(
    rank: int, size: int, gather: Callable[[Any], list[Any]], failed: Callable[[], bool]
) -> Nearby | None:
    """Exchange here, where all ranks are on one machine and can; None: they are not, or cannot.

    Args:
        gather: what each rank gives, by rank.
        failed: as `Nearby` takes it.
    """
    here, file, found = machine(), -1, None
    try:
        with suppress(OSError):  # of memory, say
            file = new_file(size) if rank == 0 and here is not None else -1
        everywhere = gather((here, os.getpid(), file))
        if here is None or any(there != here for there, *_ in everywhere):
            return None
        pids = [pid for _, pid, _ in everywhere]
        with suppress(OSError, ValueError):
            opened = os.open(f"/proc/{pids[0]}/fd/{everywhere[0][2]}", os.O_RDWR | os.O_CLOEXEC)
            try:
                found = Nearby(opened, rank, pids, failed)
            finally:
                os.close(opened)
        if all(gather(found is not None)):
            return found
        if found is not None:
            found.close()
        return None
    finally:
        if file >= 0:
            os.close(file)
