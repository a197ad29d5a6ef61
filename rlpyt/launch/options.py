"""Options of a queue: how many runs at once, on what. Imports nothing heavy: help reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from rlpyt.errors import UsageError


@dataclass(frozen=True)
class QueueOptions:
    """How many runs at once, and on what."""

    slots: Annotated[int | None, arg(metavar="INT")] = None
    """Runs at once; unset: one on each core, or on each GPU where a run takes one."""

    cpus_per_run: Annotated[int | None, arg(metavar="INT")] = None
    """Cores of a run; unset: those allowed divided among the slots."""

    gpus_per_run: Annotated[int | None, arg(metavar="INT")] = None
    """GPUs of a run; unset: 1 where runs take one, else 0, which hides them."""

    runs_per_gpu: Annotated[int | None, arg(metavar="INT")] = None
    """Runs that share a GPU; unset: 1."""

    ranks_per_run: Annotated[int | None, arg(metavar="INT")] = None
    """Processes that train a run together (docs/ranks.md); unset: one for each of its GPUs."""

    reserve_cpus: int = 0
    """Cores left to other work."""

    retries: int = 1
    """How often a run that failed is tried again, from its newest checkpoint."""

    python: Annotated[str | None, arg(metavar="PATH")] = None
    """Interpreter of the runs, with this rlpyt installed; unset: the one that runs this."""

    preload: bool = True
    """Fork runs from a process that has PyTorch loaded. With --no-preload each has an interpreter
    of its own, and starts 2 s later."""

    @property
    def ranks(self) -> int:
        """Of a run."""
        return self.ranks_per_run or max(1, self.gpus_per_run or 1)

    def __post_init__(self) -> None:
        for name in ("slots", "cpus_per_run", "runs_per_gpu", "ranks_per_run"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name}={value} must be at least 1")
        for name in ("gpus_per_run", "reserve_cpus", "retries"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise UsageError(f"{name}={value} must not be negative")
        if self.runs_per_gpu and self.gpus_per_run not in (None, 1):
            raise UsageError(
                f"runs_per_gpu={self.runs_per_gpu} and gpus_per_run={self.gpus_per_run}: either "
                "runs share a GPU or a run has several; choose one"
            )
