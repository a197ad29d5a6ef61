"""Numbers that came with the ends of episodes, beside the rows, in shared memory."""

from __future__ import annotations

import json
from typing import Any, final

import numpy as np

from rlpyt.storage import Memory

Infos = dict[tuple[int, int], dict[str, float]]  # (row, column) of a window


@final
class News:
    """Places for the numbers of one window each. No side waits for the other.

    Args:
        memory: made here, or received.
        places: how many windows have one.
        size: bytes of each; what does not fit is left out: it is for the log alone.
    """

    def __init__(self, memory: Memory, places: int, size: int = 1 << 16) -> None:
        line = np.zeros(8, np.int64)  # a cache line, of which a word is the first 8 bytes
        self._lengths: np.ndarray = memory.zeros(line, (places,))[..., 0]
        self._texts: np.ndarray = memory.zeros(np.zeros(size, np.uint8), (places,))

    def write(self, place: int, infos: Infos) -> None:
        """Store a window's numbers, before the window is published."""
        text, room = self._texts[place], self._texts.shape[1]
        begin = 0
        for (t, b), numbers in infos.items():
            data: Any = json.dumps([t, b, numbers]).encode() + b"\n"
            if begin + len(data) > room:
                break
            text[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
            begin += len(data)
        self._lengths[place] = begin

    def read(self, place: int) -> Infos:
        """The numbers of a window that was published."""
        lines = self._texts[place, : self._lengths[place]].tobytes().splitlines()
        return {(t, b): numbers for t, b, numbers in map(json.loads, lines)}
