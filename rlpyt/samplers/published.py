"""What an agent acts with, published by version: weights and statistics of observations.

The learner writes and any number of actors read, without locks and without waiting for each
other. Two buffers take turns, and two counters, which only the writer stores to, say what is where:

    begun = v;  fence;  buffer v mod 2 is filled;  fence;  version = v

A reader loads `version`, copies that buffer into its own modules, then loads `begun`: if version
v + 2 was begun meanwhile, what it copied may be torn, and it starts again. (Two buffers without
the second counter tear: a slow reader is overtaken by two quick publications.) A writer killed
while it copies leaves the version before whole, and the next one fills the same buffer again.

Exploration is no part of it: an agent computes it from the environment steps at a window's start.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any, Final, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.block import fence
from rlpyt.faultpoints import faultpoint

BEGUN, VERSION = 0, 1  # the counters
CHECK: Final = "RLPYT_CHECK"
TRIES: Final = 10_000  # a reader that is overtaken so often has a writer that does nothing else


class Shares(Protocol):
    """Memory of which another process gets the same parts, in the same order."""

    def zeros(self, example: Any, leading: tuple[int, ...] = ()) -> Any: ...


class Acting(Protocol):
    """An agent, as those see it who answer rows with its weights in another process."""

    def acting(self) -> Sequence[nn.Module]:
        """The networks, and the normalizer, from which answers to rows follow, and what rows keep.

        Targets, optimizers, and critics that nobody asks while acting are the learner's own.
        """
        ...


@final
class Published:
    """Newest weights and statistics of one agent, for copies of it in other processes.

    Args:
        agent: is published, by the one process that learns; or takes what was published.
        memory: shared with the others, who make the same of an agent of the same shape.
        checked: each publication carries a checksum, which readers compare: for tests; None: if
            the environment variable RLPYT_CHECK is set.
    """

    def __init__(self, agent: Acting, memory: Shares, *, checked: bool | None = None) -> None:
        self._agent = agent
        self._checked = CHECK in os.environ if checked is None else checked
        line = np.zeros(8, np.int64)  # a cache line, of which a counter is the first 8 bytes
        self._counters: np.ndarray = memory.zeros(line, (2,))[..., 0]
        self._sums: np.ndarray = memory.zeros(np.zeros((), np.int64), (2,))
        sizes = {str(i): np.zeros(_nbytes(x), np.uint8) for i, x in enumerate(self._tensors())}
        stored = memory.zeros(sizes, (2,))
        self._buffers = [
            [_like(stored[str(i)][half], x) for i, x in enumerate(self._tensors())]
            for half in range(2)
        ]
        self.taken = 0  # the version that this process's agent has, once it took one

    @property
    def version(self) -> int:
        """Of the newest publication; 0 before the first."""
        return int(self._counters[VERSION])

    def publish(self) -> int:
        """Publish the agent as it is now; returns its version, counted from 1.

        Where nothing changed since the newest version that stays the newest: readers of it need
        not copy anything. (On a device a comparison would cost as much as the copy.)
        """
        version = self.version
        if version and self._unchanged(self._buffers[version % 2]):
            return version
        version += 1
        self._counters[BEGUN] = version
        fence()
        buffer = self._buffers[version % 2]
        copy_tensors(buffer, self._tensors())
        if self._checked:
            self._sums[version % 2] = _checksum(buffer)
        fence()
        self._counters[VERSION] = version
        return version

    def take(self) -> int:
        """Bring the agent to the newest version, and return it; nothing is copied twice.

        Raises:
            RuntimeError: nothing was published yet.
        """
        for _ in range(TRIES):
            version = self.version
            if version == self.taken:
                if version:
                    return version
                raise RuntimeError("an agent is taken before any was published")
            fence()
            buffer = self._buffers[version % 2]
            copy_tensors(self._tensors(), buffer)
            expected = int(self._sums[version % 2])
            fence()
            if int(self._counters[BEGUN]) < version + 2:
                self._check(version, expected)
                self.taken = version
                return version
        raise RuntimeError(
            f"version {self.version} of the weights was overwritten {TRIES} times while it was "
            "copied; publish less often"
        )

    def _unchanged(self, buffer: list[Tensor]) -> bool:
        tensors = self._tensors()
        return all(x.is_cpu for x in tensors) and all(map(torch.equal, tensors, buffer))

    def _check(self, version: int, expected: int) -> None:
        """In tests: what was copied is what was published."""
        if self._checked and _checksum(self._tensors()) != expected:
            raise RuntimeError(f"version {version} of the weights is torn")

    def _tensors(self) -> list[Tensor]:
        return acting_tensors(self._agent)


def acting_tensors(agent: Acting) -> list[Tensor]:
    """Weights and statistics as they lie now: parameters may have moved into a flat vector."""
    found: list[Tensor] = []
    for module in agent.acting():
        found += [x.detach() for x in module.parameters()]
        found += list(module.buffers())
    return found


def copy_tensors(to: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copy each tensor's numbers to where the other has its own."""
    faultpoint("published:copy")
    if to:
        with torch.no_grad():
            torch._foreach_copy_(list(to), list(given))


def _nbytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _like(stored: np.ndarray, tensor: Tensor) -> Tensor:
    """Shared bytes as a tensor of the same kind and shape, in the same order of dimensions."""
    strides = torch.empty_like(tensor, device="meta").stride()
    if not tensor.numel():
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    return torch.from_numpy(stored).view(tensor.dtype).as_strided(tensor.shape, strides)


def _checksum(tensors: Sequence[Tensor]) -> int:
    total = 0
    for x in tensors:
        flat = x.cpu().contiguous().reshape(-1).view(torch.uint8)
        total = zlib.crc32(flat.numpy().tobytes(), total)
    return total
