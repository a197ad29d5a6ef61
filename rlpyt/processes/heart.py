"""Heartbeats: what a process does last, where others can read it, also after its death."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import final

import numpy as np

CALLS = ("", "make", "reset", "step", "close", "snapshot", "restore", "render", "act", "learn")
"""What a process may be doing; the first stands for nothing that could hang."""
MAKE, RESET, STEP, CLOSE, SNAPSHOT, RESTORE, RENDER, ACT, LEARN = range(1, len(CALLS))
resumed_at = -math.inf
"""When this process was last found to have been suspended: others may have been, too."""


@final
class Heart:
    """Beats before each call that may hang or crash.

    Args:
        words: [8] int64 in shared memory; zeros at first.
        clock: of who reads it.
    """

    def __init__(self, words: np.ndarray, clock: Callable[[], float] = time.monotonic) -> None:
        self._words = words.data  # a store takes a third of the time of NumPy's
        self._clock = clock
        self._seen = [0, 0, 0]
        self._seen_at = clock()

    def beat(self, column: int, call: int) -> None:
        """About to make the `call` (an index of CALLS) into the environment of a column, or -1."""
        words = self._words
        words[0] = column
        words[1] = call
        words[2] += 1

    def tick(self) -> None:
        """Still there: this process waits for others, and would notice if they were not."""
        self._words[2] += 1

    def rest(self) -> None:
        """Between calls: what is waited for now is somebody else."""
        self._words[1] = 0

    def age(self, since: float = -math.inf) -> float:
        """Seconds since it last changed, or since the time `since`, when something was asked for.

        A change is dated by who reads, at the first reading that finds it: look once a second.
        """
        state, now = self._words[:3].tolist(), self._clock()
        if state != self._seen:
            self._seen, self._seen_at = state, now
        return now - max(self._seen_at, since, resumed_at)

    @property
    def beats(self) -> int:
        """Calls that were begun."""
        return self._words[2]

    @property
    def column(self) -> int | None:
        """Whose call it is in; None between calls and in calls of no environment."""
        column, call = self._words[0], self._words[1]
        return column if call and column >= 0 else None

    def __str__(self) -> str:
        """ "environment 3, step, call 1234"; empty between calls."""
        column, call, beats = self._words[:3].tolist()
        if not call:
            return ""
        place = f"environment {column}, " if column >= 0 else ""
        return f"{place}{CALLS[call]}, call {beats}"
