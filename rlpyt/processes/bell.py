"""A bell that one process rings and another hears while it waits for other things too."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import final

from rlpyt.descriptors import Descriptor

_ONE = (1).to_bytes(8, sys.byteorder)  # an eventfd takes a number of 8 bytes


@final
class Bell:
    """Wakes the one process that polls it; rings before it is cleared count as one.

    What a ring is about lies in shared memory: store there first, then ring. Who hears it clears
    the bell first and looks afterwards, so that nothing is missed.
    """

    def __init__(self, ends: tuple[Descriptor, ...] = ()) -> None:
        self._ends = ends or _new()  # where it is heard, where it is rung

    def __reduce__(self) -> tuple[type[Bell], tuple[tuple[Descriptor, ...]]]:
        return Bell, (self._ends,)

    def fileno(self) -> int:
        """What becomes readable."""
        return self._ends[0].fileno()

    def ring(self) -> None:
        with suppress(BlockingIOError):  # rung often enough
            os.write(self._ends[-1].fileno(), _ONE)

    def clear(self) -> None:
        with suppress(BlockingIOError):  # it had not rung
            os.read(self._ends[0].fileno(), 4096)

    def close(self) -> None:
        for end in self._ends:
            end.close()


def _new() -> tuple[Descriptor, ...]:
    if hasattr(os, "eventfd"):
        return (Descriptor(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)),)
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return tuple(Descriptor(end) for end in ends)
