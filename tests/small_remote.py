"""Remote replicas that are in this process, and lost when a test says so."""

import pickle
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rlpyt.errors import WorkerError
from rlpyt.processes.heart import Heart
from rlpyt.processes.pickling import dumps, loads
from rlpyt.remote import Plan, remote_part
from rlpyt.samplers.published import acting_tensors
from rlpyt.samplers.remote_replica import RemoteReplica
from rlpyt.vector.columns import cut


class Crew:
    """What a `RayCrew` is to a `RemoteSampler`.

    Args:
        plan: of the run.
        losses: replica and which of its windows, counted from 0 over all replicas in its place,
            is lost with it.
        back: after how many of its driver's looks another is ready.
    """

    def __init__(self, plan: Plan, losses: Iterable[tuple[int, int]] = (), back: int = 1) -> None:
        count, workers = plan.making.total, plan.resolved.workers
        self.columns = tuple(slice(x.start, x.stop) for x in cut(range(count), workers))
        self._make = dumps(partial(remote_part, replace(plan, memory=None)))
        self._losses, self._back = set(losses), back
        self._replicas: dict[int, RemoteReplica] = {}
        self._answers: dict[int, Any] = {}
        self._looks: dict[int, int] = {}
        self._windows = [0] * workers
        self._version, self._weights = 0, list[np.ndarray]()

    def open(self) -> None:
        for i in range(len(self.columns)):
            self._start(i, looks=0)

    def publish(self, agent: Any) -> None:
        self._version += 1
        self._weights = sent([x.numpy().copy() for x in acting_tensors(agent)])

    def ask(self, i: int, what: str, *given: Any) -> None:
        assert i not in self._answers, "it has not answered yet"
        if what == "collect":
            self._windows[i] += 1
            if (i, self._windows[i] - 1) in self._losses:
                self._answers[i] = WorkerError(f"remote replica {i}", "was lost")
                return
        replica = self._replicas[i]
        if self._version > replica.version:
            replica.take(self._version, self._weights)
        self._answers[i] = sent(getattr(replica, what)(*sent(given)))

    def hear(self, numbers: Iterable[int], seconds: float) -> dict[int, Any]:
        found = {}
        for i in list(numbers):
            self._looks[i] = self._looks.get(i, 0) - 1
            if i in self._answers and self._looks[i] < 0:
                found[i] = self._answers.pop(i)
        return found

    def replace(self, i: int) -> None:
        self._start(i, self._back)

    def close(self) -> None:
        for replica in self._replicas.values():
            replica.close()
        self._replicas = {}

    def _start(self, i: int, looks: int) -> None:
        heart = Heart(np.zeros(8, np.int64))
        self._replicas[i] = RemoteReplica(loads(self._make)(self.columns[i], heart), heart)
        self._answers[i], self._looks[i] = None, looks


def sent(content: Any) -> Any:
    """As it comes over a network: a copy, of which arrays can be read alone."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(x.raw()) for x in buffers])
