"""Sweeps on a Ray cluster: the queue's slots are what its nodes have room for.

A run is an actor with the CPUs and GPUs of a run, which starts the run's command on its node. Ray
ends the actors when the queue ends, and an actor's end is its run's; a run whose node died is gone
on with on another. Actors are named after their runs' folders, and a cluster has one of a name: no
run is doubled.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from rlpyt.errors import UsageError
from rlpyt.launch.jobs import Job
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.place import Opened, look
from rlpyt.launch.ray_run import RayRun
from rlpyt.launch.slots import Slot, check_threads
from rlpyt.processes.cluster import NAMESPACE, alive_nodes, connect, is_there, last_line

LOOK_SECONDS = 180.0  # for a node to make an agent of each kind of run
FREE_SECONDS = 120.0  # for an earlier queue's actor of a run to be gone
KILLED_SECONDS = 10.0  # for a run that was killed to be over
COUNT_SECONDS = 5.0  # between looks at which nodes there are
LOST = 5  # actors of a run that may be lost one after the other before one has begun it
GLANCE = 0.001  # of a GPU: enough to see it, and takes no run's place
_CALLS = 4  # at once in an actor: one waits while another sends a signal


class RayCluster:
    """A Ray cluster as the place of a sweep's runs.

    Args:
        options: of the queue.
        address: of the cluster, or "auto".
        folder: the sweep's, on a disk that all nodes share.
        cwd: where the runs run, on all nodes.
    """

    backend = "ray"

    def __init__(self, options: QueueOptions, address: str, folder: Path, cwd: Path) -> None:
        if options.reserve_cpus:
            raise UsageError(
                f"reserve_cpus={options.reserve_cpus} has no effect with backend=ray; give the "
                "nodes fewer CPUs: ray start --num-cpus"
            )
        self.settings: Mapping[str, str] = {"address": address}
        self.options, self.folder, self._address = options, folder.resolve(), address
        self._cwd = str(cwd.resolve())
        self._cpus = options.cpus_per_run or 1
        shared = options.runs_per_gpu
        self._gpus = 1 / shared if shared else float(options.gpus_per_run or 0)
        self._open_question = not shared and options.gpus_per_run is None  # whether runs take GPUs
        self._kind: Any = ray.remote(RayRun)  # exported to the nodes once

    def open(self, jobs: Sequence[Job]) -> Opened:
        """Connect to the cluster, and look at one run of each kind on one of its nodes."""
        for job in jobs:
            if job.run is not None:
                check_threads(job.run.loop.threads, self.slots(1))
        runs = self.again()
        try:
            self._check_room(runs)
            if look(runs, jobs) and self._open_question:
                self._gpus = 1.0
                runs.slots[:] = self.slots(self.room())
                self._check_room(runs)
        except BaseException:
            runs.close()
            raise
        count, nodes = len(runs.slots), len(alive_nodes())
        text = f"{count} slot{'s' if count > 1 else ''} of {self._needs()} on {nodes} Ray node"
        return Opened(runs, runs.slots, text + ("s" if nodes > 1 else ""))

    def again(self) -> RayRuns:
        connected = connect(self._address)
        return RayRuns(self, connected)

    def slots(self, count: int) -> list[Slot]:
        """So many slots; which CPUs they are is known on their nodes alone."""
        return [Slot(i, tuple(range(self._cpus)), (), self._cpus) for i in range(count)]

    def room(self) -> int:
        """How many runs fit on the nodes that are alive, or are wanted whatever there is."""
        return self.options.slots or sum(self._fit(node) for node in alive_nodes())

    def actor(self, name: str) -> Any:
        """A new actor for the run of this name; None where an actor has the name already."""
        own = f"{self.folder / name}"
        if is_there(own):
            return None
        try:
            return self._made(name=own, namespace=NAMESPACE)
        except ValueError:
            if is_there(own):  # since a moment ago
                return None
            raise

    def looker(self) -> Any:
        """A new actor that looks at runs, and takes no run's place where it can do without."""
        if self._gpus:
            return self._made()
        return self._made(num_cpus=0, num_gpus=GLANCE if self.glances else 0)

    @property
    def glances(self) -> bool:
        """Whether it is to be found out if runs take a GPU: nobody has said, and there are some."""
        return self._open_question and any(node.get("GPU") for node in alive_nodes())

    def _made(self, **given: Any) -> Any:
        resources = {"num_cpus": self._cpus, "num_gpus": self._gpus, "max_concurrency": _CALLS}
        kind, options = self._kind.options(**{**resources, **given}), self.options
        return kind.remote(str(self.folder), self._cwd, options.python, self._cpus, options.ranks)

    def _check_room(self, runs: RayRuns) -> None:
        if not runs.slots:
            raise UsageError(
                f"no node of the cluster has {self._needs()}; choose fewer with --cpus-per-run and "
                "--gpus-per-run, or give --slots to wait for one that has"
            )

    def _fit(self, has: Mapping[str, float]) -> int:
        by_cpus = int(has.get("CPU", 0) / self._cpus)
        return min(by_cpus, int(has.get("GPU", 0) / self._gpus)) if self._gpus else by_cpus

    def _needs(self) -> str:
        """What a run takes, in words."""
        cpus = f"{self._cpus} CPU{'s' if self._cpus > 1 else ''}"
        if not self._gpus:
            return cpus
        return f"{cpus} and {self._gpus:g} GPU{'s' if self._gpus > 1 else ''}"


@dataclass
class _Placed:
    """A run in an actor."""

    actor: Any
    call: Any  # whose result is waited for: of its start, then of its end
    log: Path
    started: bool = False
    killed_at: float | None = None


class RayRuns:
    """The queue's side of the actors.

    Args:
        cluster: where they are.
        connected: whether it was connected to for this, and is to be left at the end.
    """

    def __init__(self, cluster: RayCluster, connected: bool) -> None:
        self._cluster, self._connected = cluster, connected
        self.slots = cluster.slots(cluster.room())
        self._counted = time.monotonic()
        self._waiting: dict[str, tuple[float, list[str], Path]] = {}  # for their actor's name
        self._placed: dict[str, _Placed] = {}
        self._lost_before: Counter[str] = Counter()  # actors of each run that has not begun
        self._answers: list[dict[str, Any]] = []

    def look(self, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Make the agents of some runs on a node: their devices, or what is wrong with them."""
        actor = self._cluster.looker()
        try:
            seen: Any = ray.get(actor.look.remote(list(map(list, commands))), timeout=LOOK_SECONDS)
        except GetTimeoutError:
            late = f"no node of the cluster had looked at it after {LOOK_SECONDS:.0f} s"
            if self._cluster.glances:
                late += "; no run is given a GPU: if they are to have one, give --gpus-per-run 1"
            return [{"error": late}] * len(commands)
        except RayError as error:
            raise UsageError(
                f"a node cannot start runs; is this rlpyt installed there? {last_line(error)}"
            ) from None
        finally:
            ray.kill(actor)
        if "refused" in seen:
            raise UsageError(seen["refused"])
        return seen["found"]

    def start(self, name: str, argv: Sequence[str], slot: Slot, log: Path) -> None:
        """Start a run as soon as its name is free and a node has room; `hear` says where."""
        self._waiting[name] = time.monotonic() + FREE_SECONDS, list(argv), log.resolve()

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a run; one that has no process yet will get none."""
        placed = self._placed.get(name)
        if placed is None or not placed.started:
            self._over(name, None)
        else:
            placed.actor.signal.remote(name, int(number))
            if number == signal.SIGKILL and placed.killed_at is None:
                placed.killed_at = time.monotonic()

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """What has happened: {"started", "pid", "node"} and {"ended", "code"}.

        The process is another machine's: its pid is None here. A code of None says that the run
        was lost with its node, its process or its actor.
        """
        self._count()
        for name in list(self._waiting):
            self._place(name)
        calls = {placed.call: name for name, placed in self._placed.items()}
        if self._answers or not calls:
            time.sleep(0.0 if self._answers else seconds)
        else:
            ray.wait(list(calls), num_returns=1, timeout=seconds)
        if calls:
            done, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
            for call in done:
                self._hear(calls[call], call)
        self._give_up()
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """End all runs, and leave the cluster."""
        if not ray.is_initialized():
            return
        self._waiting = {}
        begun = {name: placed for name, placed in self._placed.items() if placed.started}
        ends = [placed.actor.signal.remote(n, signal.SIGKILL) for n, placed in begun.items()]
        with contextlib.suppress(RayError):
            ray.wait(ends, num_returns=len(ends), timeout=KILLED_SECONDS) if ends else None
        for name in list(self._placed):
            self._over(name, None)
        if self._connected:
            ray.shutdown()

    def _count(self) -> None:
        """Have as many slots as there is room now: nodes come and go."""
        if time.monotonic() - self._counted > COUNT_SECONDS:
            self._counted = time.monotonic()
            self.slots[:] = self._cluster.slots(self._cluster.room())

    def _place(self, name: str) -> None:
        """Ask Ray for a run's actor, unless an earlier queue's still has its name."""
        until, argv, log = self._waiting[name]
        try:
            actor = self._cluster.actor(name)
        except (ValueError, RayError) as error:
            self._refuse(name, log, f"Ray cannot make its actor: {last_line(error)}")
            return
        if actor is None:
            if time.monotonic() > until:
                self._refuse(name, log, "another queue has it in this Ray cluster")
            return
        del self._waiting[name]
        self._placed[name] = _Placed(actor, actor.start.remote(name, argv, str(log)), log)

    def _hear(self, name: str, call: Any) -> None:
        placed = self._placed[name]
        try:
            said: Any = ray.get(call)
        except RayTaskError as error:  # a mistake there, not the node's end
            self._refuse(name, placed.log, str(error))
            return
        except RayError as error:
            self._lost(name, placed, error)
            return
        if placed.started:
            self._over(name, said)
        elif "refused" in said:
            self._refuse(name, placed.log, said["refused"])
        else:
            placed.started, placed.call = True, placed.actor.wait.remote()
            del self._lost_before[name]
            self._answers.append({"started": name, "pid": None, "node": said["node"]})

    def _give_up(self) -> None:
        """Leave runs that were killed, and of which nothing is heard."""
        for name, placed in list(self._placed.items()):
            since = placed.killed_at
            if since is not None and time.monotonic() - since > KILLED_SECONDS:
                self._over(name, None)

    def _lost(self, name: str, placed: _Placed, error: RayError) -> None:
        """Have a run be cut whose actor ended.

        One that had not begun has no part in it, and fails only where it is so again and again, or
        the actor cannot be made.
        """
        if not placed.started:
            self._lost_before[name] += 1
            made = not getattr(error, "actor_init_failed", False)
            if not made or self._lost_before[name] >= LOST:
                del self._lost_before[name]
                self._refuse(name, placed.log, str(error))
                return
        self._over(name, None)

    def _refuse(self, name: str, log: Path, why: str) -> None:
        """Have a run fail that was not begun, with the reason as what it wrote."""
        with contextlib.suppress(OSError), log.open("a") as file:
            file.write(why + "\n")
        self._over(name, 1)

    def _over(self, name: str, code: int | None) -> None:
        """Give a run's place back."""
        self._waiting.pop(name, None)
        placed = self._placed.pop(name, None)
        if placed is not None:
            with contextlib.suppress(RayError, ValueError):
                ray.kill(placed.actor)
        self._answers.append({"ended": name, "code": code})
