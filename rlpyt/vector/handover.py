"""Counters by which a driver asks workers for rows and finds what they gave, in shared memory.

Each has one writer, on a cache line of its own. Rows of a group are counted from 0: of `asked`
rows the last one may be under way, the `given` ones lie where their numbers say. Whoever waits is
rung by a bell after the counter was stored.
"""

from __future__ import annotations

import json
from typing import Any, final

import numpy as np

from rlpyt.block import fence
from rlpyt.storage import Memory

NOTES = 1 << 16  # bytes of what a worker tells of ended episodes before the driver has read it


@final
class Handover:
    """Made alike by the driver and by every worker.

    Args:
        memory: new, or received.
        workers, groups, num_envs: W, G and B.
    """

    def __init__(self, memory: Memory, workers: int, groups: int, num_envs: int) -> None:
        # A cache line, of which a counter is the first 8 bytes.
        line: Any = np.zeros(8, np.int64)
        self.memory, self.workers, self.groups, self.num_envs = memory, workers, groups, num_envs
        # Read and written by memoryview: a tenth of the time that NumPy's scalars take.
        self.asked = _counters(memory.zeros(line, (groups,)))  # rows, by the driver
        self.given = [_counters(x) for x in memory.zeros(line, (workers, groups))]  # rows
        self.called = _counters(memory.zeros(line, (workers,)))  # messages, by the driver
        self.ready = _counters(memory.zeros(line, (workers,)))  # environments are made
        self.told = _counters(memory.zeros(line, (workers,)))  # bytes of notes
        self.heard = _counters(memory.zeros(line, (workers,)))  # of which the driver read so many
        self.busy: np.ndarray = memory.zeros(np.zeros(8), (workers,))[:, 0]  # seconds in calls
        self.resets: np.ndarray = memory.zeros(np.zeros((), np.int64), (num_envs,))
        self._notes: np.ndarray = memory.zeros(np.zeros(NOTES, np.uint8), (workers,))

    def __reduce__(self) -> tuple[Any, ...]:
        return Handover, (self.memory, self.workers, self.groups, self.num_envs)

    def tell(self, worker: int, n: int, group: int, ended: Any) -> None:
        """Note what came with the ends of episodes in row n; by the worker, before it is given.

        What does not fit beside what was not read yet is left out: it is for the log alone.
        """
        data = json.dumps([n, group, list(ended)]).encode() + b"\n"
        begin = self.told[worker]
        if begin + len(data) - self.heard[worker] > NOTES:
            return
        fence()  # what is overwritten has been read
        at = np.arange(begin, begin + len(data)) % NOTES
        self._notes[worker, at] = np.frombuffer(data, np.uint8)
        fence()
        self.told[worker] = begin + len(data)

    def hear(self, worker: int) -> list[Any]:
        """What the worker told since: [n, group, [(column, numbers), ...]] each; by the driver."""
        begin, end = self.heard[worker], self.told[worker]
        fence()
        at = np.arange(begin, end) % NOTES
        data = self._notes[worker, at].tobytes()
        fence()
        self.heard[worker] = end
        return [json.loads(line) for line in data.splitlines()]


def _counters(lines: np.ndarray) -> memoryview:
    counters: Any = lines[..., 0]
    return memoryview(counters)
