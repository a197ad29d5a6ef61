"""Remote replicas as actors of a Ray cluster.

Weights are put into Ray's object store once for each version, from where each machine fetches them
once; rows come back the same way.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np
import ray
import torch
from ray.exceptions import RayError, RayTaskError

from rlpyt.errors import WorkerError
from rlpyt.processes.cluster import connect
from rlpyt.processes.heart import Heart
from rlpyt.processes.pickling import dumps, loads
from rlpyt.samplers.options import STEP_LIMIT
from rlpyt.samplers.published import acting_tensors
from rlpyt.samplers.remote_replica import RemotePart, RemoteReplica
from rlpyt.vector.columns import cut

CLOSE_SECONDS = 2.0  # for environments to be closed
SILENT_SECONDS = 30.0  # in which an actor that is there says how old its call is
_remote: Any = ray.remote
_RESOURCES = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "concurrency_groups": {"look": 1}}
MakeRemotePart = Callable[[slice, Heart], RemotePart]  # of some columns, in an actor


class RayReplica:
    """The actor: one thread works, another says whether it does.

    Args:
        make: makes what it collects with, pickled.
        begin, end: its columns.
        path: where the driver finds modules; they may be there here, too.
    """

    def __init__(self, make: bytes, begin: int, end: int, path: list[str]) -> None:
        sys.path += [place for place in path if place not in sys.path]
        heart = Heart(np.zeros(8, np.int64))
        self._replica = RemoteReplica(loads(make)(slice(begin, end), heart), heart)

    def ready(self) -> None:
        """Answered once the environments are made."""

    def do(self, what: str, version: int, weights: list[Any], given: tuple[Any, ...]) -> Any:
        """Do as a `RemoteReplica` does, with these weights."""
        torch.set_num_threads(1)  # each of Ray's threads has a number of its own
        if version > self._replica.version:
            self._replica.take(version, ray.get(weights[0]))
        return getattr(self._replica, what)(*given)

    def age(self) -> tuple[float, str]:
        """For how many seconds it is in one call, and in which."""
        return self._replica.age()


@final
class RayCrew:
    """The actors, as a `RemoteSampler` drives them.

    Args:
        address: of the cluster.
        make: makes what an actor collects with.
        num_envs, replicas: B and W.
        step_timeout: seconds that a call of an environment may take; 0: any time.
    """

    def __init__(
        self,
        address: str,
        make: MakeRemotePart,
        num_envs: int,
        replicas: int,
        step_timeout: float,
    ) -> None:
        self.columns = tuple(slice(x.start, x.stop) for x in cut(range(num_envs), replicas))
        self._make, self._limit = dumps(make), step_timeout
        self._address, self._connected = address, False
        self._kind = _remote(**_RESOURCES)(RayReplica)  # exported to the machines once
        self._actors: dict[int, Any] = {}
        self._calls: dict[int, Any] = {}  # what each was asked
        self._asked: dict[int, float] = {}  # when, of those that are ready
        self._ages: dict[int, tuple[float, Any]] = {}  # when an actor was asked for its age
        self._version, self._weights = 0, list[Any]()
        self._sent = list[np.ndarray]()

    def open(self) -> None:
        self._connected = connect(self._address)
        for i in range(len(self.columns)):
            self._start(i)

    def publish(self, agent: Any) -> None:
        now = [x.cpu().numpy() for x in acting_tensors(agent)]
        if self._version and all(map(np.array_equal, now, self._sent)):
            return
        self._sent = [x.copy() for x in now]
        self._version += 1
        self._weights = [ray.put(self._sent)]

    def ask(self, i: int, what: str, *given: Any) -> None:
        do = self._actors[i].do
        self._calls[i] = do.remote(what, self._version, self._weights, given)
        self._asked[i] = time.monotonic()
        self._ages.pop(i, None)  # of the call before

    def hear(self, numbers: Iterable[int], seconds: float) -> dict[int, Any]:
        calls = {self._calls[i]: i for i in numbers}
        done, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
        if done:
            done, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        found = {calls[call]: self._answer(calls[call], call) for call in done}
        for i in calls.values():
            if i not in found and (error := self._overdue(i)) is not None:
                found[i] = error
        return found

    def replace(self, i: int) -> None:
        self._kill(i)
        self._start(i)

    def close(self) -> None:
        if not ray.is_initialized():
            return
        calls = {call: i for i, call in self._calls.items()}
        with contextlib.suppress(RayError):
            done, _ = (
                ray.wait(list(calls), num_returns=len(calls), timeout=0) if calls else ([], [])
            )
            idle = [self._actors[i] for i in map(calls.__getitem__, done) if i in self._actors]
            ends = [actor.do.remote("close", 0, [], ()) for actor in idle]
            if ends:  # the others would not hear of it in the call that they are in
                ray.wait(ends, num_returns=len(ends), timeout=CLOSE_SECONDS)
        for i in list(self._actors):
            self._kill(i)
        if self._connected:
            ray.shutdown()

    def _start(self, i: int) -> None:
        path = [os.path.abspath(place) for place in sys.path]
        at = self.columns[i]
        actor = self._actors[i] = self._kind.remote(self._make, at.start, at.stop, path)
        self._calls[i] = actor.ready.remote()
        self._asked.pop(i, None)
        self._ages.pop(i, None)

    def _kill(self, i: int) -> None:
        actor = self._actors.pop(i, None)
        if actor is not None:
            with contextlib.suppress(RayError, ValueError):
                ray.kill(actor)

    def _answer(self, i: int, call: Any) -> Any:
        try:
            return ray.get(call)
        except RayTaskError as error:
            return self._error(i, "failed", str(error))
        except RayError as error:
            return self._error(i, "was lost", str(error))

    def _error(self, i: int, how: str, traceback: str = "") -> WorkerError:
        at = self.columns[i]
        name = f"remote replica {i}"
        return WorkerError(name, how, range(at.start, at.stop), traceback=traceback)

    def _overdue(self, i: int) -> WorkerError | None:
        """What to say of one that is in one call for too long, or says nothing."""
        now = time.monotonic()
        if not self._limit or now - self._asked.get(i, now) < self._limit:
            return None
        if i not in self._ages:
            age = self._actors[i].age.options(concurrency_group="look").remote()
            self._ages[i] = now, age
        asked, call = self._ages[i]
        done, _ = ray.wait([call], timeout=0)
        seconds, doing = now - asked - SILENT_SECONDS + self._limit, "it says nothing"
        if done:
            del self._ages[i]
            try:
                seconds, doing = ray.get(call)
            except RayError:
                return None  # it is lost, as the call itself will say
        if seconds < self._limit:
            return None
        self._kill(i)
        how = (
            f"did not answer for {seconds:.0f} s ({doing}); {STEP_LIMIT} sets how long it may take"
        )
        return self._error(i, how)
