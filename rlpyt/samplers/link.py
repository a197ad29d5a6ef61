"""What a learner and a sampler that work at the same time share beside rows and weights."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from rlpyt.samplers.turns import Turns
from rlpyt.storage import Memory

ENV, ACT, WAIT = 0, 1, 2  # what the sampler spends its time on


class Entry(NamedTuple):
    """What is recorded of a window."""

    start: int  # absolute number of row 0
    horizon: int  # T
    env_steps: int  # of the run before it
    version: int  # of the weights that acted
    news: int  # whether numbers came with the ends of episodes


@final
class Link:
    """Turns, the records of windows that the learner has not taken yet, and times.

    Args:
        memory: made here, or received.
        lag: windows that the sampler may be ahead of the learner.
    """

    def __init__(self, memory: Memory, lag: int) -> None:
        self.memory, self.turns = memory, Turns(memory, lag)
        line = np.zeros(8, np.int64)
        self._entries: np.ndarray = memory.zeros(line, (lag + 1,))
        self.seconds: np.ndarray = memory.zeros(np.zeros(8))  # ENV, ACT, WAIT, all in all
        self._over: np.ndarray = memory.zeros(line)

    def __reduce__(self) -> tuple[Any, ...]:
        return Link, (self.memory, self.turns.lag)

    def write(self, w: int, entry: Entry) -> None:
        """Record window w, before it is published."""
        self._entries[w % len(self._entries), : len(entry)] = entry

    def read(self, w: int) -> Entry:
        """What was recorded of window w, until the learner permits windows behind it."""
        found = self._entries[w % len(self._entries)]
        return Entry(*found[: len(Entry._fields)].tolist())

    @property
    def over(self) -> bool:
        """Whether the sampler has reached the run's length."""
        return bool(self._over[0])

    @over.setter
    def over(self, over: bool) -> None:
        self._over[0] = over
