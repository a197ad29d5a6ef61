"""What a learner and a sampler that work at the same time share beside rows and weights."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from rlpyt.samplers.news import Infos, News
from rlpyt.samplers.turns import Turns
from rlpyt.storage import Memory

ENV, ACT, WAIT = 0, 1, 2  # what the sampler spends its time on
_NEWS = 1 << 18  # bytes of the numbers that come with a window: some thousand episodes' ends


class Entry(NamedTuple):
    """What is recorded of a window."""

    start: int  # absolute number of row 0
    horizon: int  # T
    env_steps: int  # of the run before it
    version: int  # of the weights that acted


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
        self._news = News(memory, lag + 1, _NEWS)
        self.seconds: np.ndarray = memory.zeros(np.zeros(8))  # ENV, ACT, WAIT, all in all
        self._losses: np.ndarray = memory.zeros(line)  # as `InTurns.losses`
        self._over: np.ndarray = memory.zeros(line)

    def __reduce__(self) -> tuple[Any, ...]:
        return Link, (self.memory, self.turns.lag)

    def write(self, w: int, entry: Entry, infos: Infos) -> None:
        """Record window w, before it is published."""
        place = w % len(self._entries)
        self._entries[place, : len(entry)] = entry
        self._news.write(place, infos)

    def read(self, w: int) -> tuple[Entry, Infos]:
        """What was recorded of window w, until the learner permits windows behind it."""
        place = w % len(self._entries)
        found = self._entries[place, : len(Entry._fields)]
        return Entry(*found.tolist()), self._news.read(place)

    @property
    def restarts(self) -> int:
        """How often the sampler has replaced a process that helps it, since it was started."""
        return int(self._losses[0])

    @property
    def dropped(self) -> int:
        """Columns that nobody collects now."""
        return int(self._losses[1])

    def tell_losses(self, restarts: int, dropped: int) -> None:
        """Let the learner know of both."""
        self._losses[:2] = restarts, dropped

    @property
    def over(self) -> bool:
        """Whether the sampler has reached the run's length."""
        return bool(self._over[0])

    @over.setter
    def over(self, over: bool) -> None:
        self._over[0] = over
