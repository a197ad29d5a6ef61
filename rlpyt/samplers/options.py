"""Options of the sampler: which processes there are. The command line's help reads this file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from rlpyt.errors import UsageError, WorkerError

Kind = Literal["serial", "workers", "replicated", "ray"]
NanPolicy = Literal["raise", "drop", "ignore"]
STEP_LIMIT, START_LIMIT = "--env-step-timeout", "--start-timeout"


@dataclass(frozen=True)
class SamplerOptions:
    """Where environments are stepped, where they are answered, and what happens when one fails."""

    sampler: Literal["auto", "serial", "workers", "replicated", "ray"] = "auto"
    """serial: all in this process. workers: processes step the environments, this one answers.
    replicated: each process steps and answers its own. ray: so do actors on the machines of the Ray
    cluster that this one belongs to (needs the extra `ray`). auto: what `rlpyt bench sampler`
    recommended for the environment on this machine, else serial; workers where --workers is given,
    or --on-worker-failure."""

    workers: Annotated[int | None, arg(metavar="INT")] = None
    """Processes; unset: one less than the allowed cores (workers), or as many (replicated). Actors
    of a CPU each (ray)."""

    groups: Annotated[int | None, arg(metavar="INT")] = None
    """Groups of environments that take turns: one is answered while the others step. 1: in
    lock-step, 2: alternating; unset: 2 with workers and images, else 1."""

    asynchronous: bool = False
    """Collect in a process of its own, while this one learns."""

    strict: bool = False
    """Answer with all environments in every forward pass, and one thread: rows are the same bits
    with every sampler."""

    env_step_timeout: float = 60.0
    """Seconds that one call of an environment may take, before it is taken to hang; 0: any time."""

    start_timeout: float = 300.0
    """Seconds that the processes may take to make their environments, or this one to make each of
    its own; 0: any time."""

    on_worker_failure: Literal["raise", "restart", "drop"] = "raise"
    """What a failed worker process means: the end of the run, a new process that begins new
    episodes, or going on without its environments."""

    max_restarts: int = 10
    """Restarts in one run, after which a failure ends it all the same."""

    nan_policy: Annotated[NanPolicy, arg(metavar="raise|drop|ignore")] = "raise"
    """What a NaN or an infinity in an observation or a reward means: the end of the run; the
    loss of that step, where the episode is cut and the next one begins; or nothing, until a
    gradient is not finite either."""

    max_lag: int = 4
    """Asynchronous: windows that the sampler may be ahead of the learner."""

    acting_device: str = "auto"
    """Asynchronous: where rows are answered, such as cuda:1; auto: where the network learns, or the
    CPU with replicas."""

    record_schedule: bool = False
    """Asynchronous: write into the run's folder which windows and weights met (schedule-0.txt)."""

    schedule: Annotated[str | None, arg(metavar="FILE")] = None
    """Asynchronous: such a file, as which to collect in turn with the learning: the same run."""

    @property
    def wants_processes(self) -> bool:
        """Whether environments are to be stepped by processes of their own, of whatever kind.

        Where that is left open, a number of them says so, and so does what is to be done where one
        fails: in one process there is none that could. An asynchronous run always has one.
        """
        if self.sampler != "auto":
            return self.sampler != "serial"
        fails = self.on_worker_failure != "raise" and not self.asynchronous
        return self.workers is not None or fails

    def may_restart(self, restarts: int, error: WorkerError) -> bool:
        """Whether another process may take a failed one's place; the error says why not.

        Args:
            restarts: so far.
            error: of the failed one.
        """
        if self.on_worker_failure != "restart":
            return False
        if restarts < self.max_restarts:
            return True
        error.how += (
            f", after max_restarts={self.max_restarts} restarts; find what makes processes fail, "
            "or raise --max-restarts"
        )
        return False

    def __post_init__(self) -> None:
        for name in ("workers", "groups", "max_lag"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name}={value} must be at least 1")
        for name in ("env_step_timeout", "start_timeout", "max_restarts"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"{name}={value} must be a finite number, and not negative")
