"""Slots: a machine's cores and GPUs cut into equal parts; in each one run has its place."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.launch.hardware import Core, Gpu, Machine
from rlpyt.launch.options import QueueOptions

# Each library for numbers has a name of its own for how many threads it may take.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Slot:
    """The place of one run."""

    number: int
    cpus: tuple[int, ...]  # its hardware threads
    gpus: tuple[str, ...] = ()
    cores: int = 1
    threads: int | None = None  # of a run; None: as many as there are hardware threads

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What a process in this slot finds in its environment, beside the rest."""
        bounds = {name: self._threads(environ.get(name)) for name in THREADS}
        return {**bounds, "CUDA_VISIBLE_DEVICES": ",".join(self.gpus)}

    def _threads(self, asked: str | None) -> str:
        """As many as the slot has, or fewer where the user asked for fewer."""
        most = self.threads or len(self.cpus)
        fewer = asked is not None and asked.isdecimal() and 0 < int(asked) < most
        return asked if fewer and asked else str(most)

    def __str__(self) -> str:
        gpus = f"gpu {' '.join(self.gpus)}, " if self.gpus else ""
        return f"{gpus}cpu {ranges(self.cpus)}"


def plan(machine: Machine, options: QueueOptions, *, takes_gpu: bool) -> list[Slot]:
    """Cut a machine into slots.

    Args:
        takes_gpu: whether any of the runs does; where none does, GPUs are hidden from all.
    """
    cores = _cores(machine, options.reserve_cpus)
    places = _gpu_places(machine.gpus, options, takes_gpu)
    count = options.slots or len(places) or max(1, len(cores) // (options.cpus_per_run or 1))
    if places and count > len(places):
        raise UsageError(
            f"slots={count}: the visible GPUs have places for {len(places)}; more runs share a GPU "
            f"with --runs-per-gpu {-(-count // len(machine.gpus))}, or see none with "
            "--gpus-per-run 0"
        )
    size = options.cpus_per_run
    if size is not None and size > len(cores):
        raise UsageError(
            f"cpus_per_run={size} are more than the {len(cores)} cores that may be used; choose "
            f"{len(cores)} or fewer"
        )
    if size is not None and options.slots and count * size > len(cores):
        raise UsageError(
            f"slots={count} of cpus_per_run={size} are more than the {len(cores)} cores that may "
            f"be used; choose --slots {len(cores) // size}"
        )
    if size is not None:  # GPUs alone decide nothing where cores are asked for
        count = min(count, len(cores) // size)
    chosen = places[:count]
    near = [gpus[0].node for gpus in chosen] or [None] * count
    parts = _parts(cores, size, near)
    return [
        Slot(
            number,
            tuple(sorted(cpu for core in part for cpu in core.cpus)),
            tuple(gpu.id for gpu in chosen[number]) if chosen else (),
            len(part),
        )
        for number, part in enumerate(parts)
    ]


def describe(slots: Sequence[Slot], machine: Machine) -> str:
    """The plan in a line."""
    shown = [str(slot) for slot in slots[:4]] + (["…"] if len(slots) > 4 else [])
    text = f"{len(slots)} slot{'s' if len(slots) > 1 else ''}: {' · '.join(shown)}"
    used = [cpu for slot in slots for cpu in slot.cpus]
    if len(used) > len(set(used)):
        text += f" (more runs than the {len(set(used))} cores: they share them)"
    if machine.limited:
        text += f" (the control group grants {machine.quota:g} of {machine.cpus} CPUs)"
    return text


def check_threads(threads: int | None, slots: Sequence[Slot], name: str = "threads") -> None:
    """Refuse more threads than a slot has."""
    least = min(len(slot.cpus) for slot in slots)
    if threads is not None and threads > least:
        raise UsageError(
            f"{name}={threads}: a slot has {least} CPU{'s' if least > 1 else ''}; choose fewer, or "
            f"larger slots with --cpus-per-run {threads}"
        )


def _cores(machine: Machine, reserved: int) -> list[Core]:
    """The cores that runs get: no more of them, or of their threads, than the quota grants."""
    cores = list(machine.cores)
    if machine.limited:
        assert machine.quota is not None
        cores = [Core(core.cpus[:1], core.node) for core in cores[: max(1, int(machine.quota))]]
    if reserved >= len(cores):
        raise UsageError(
            f"reserve_cpus={reserved} of the {len(cores)} cores that may be used leave none to run "
            "on; choose fewer"
        )
    return cores[reserved:]


def _gpu_places(
    gpus: Sequence[Gpu], options: QueueOptions, takes_gpu: bool
) -> list[tuple[Gpu, ...]]:
    """The GPUs of each slot; empty where runs are to see none."""
    each = options.gpus_per_run
    if each is None:
        each = 1 if gpus and (takes_gpu or options.runs_per_gpu) else 0
    if options.runs_per_gpu and not gpus:
        raise UsageError(f"runs_per_gpu={options.runs_per_gpu}: no GPU is visible here")
    if each > len(gpus):
        raise UsageError(
            f"gpus_per_run={each}: {len(gpus) or 'no'} GPU{'s are' if len(gpus) > 1 else ' is'} "
            "visible here; choose fewer, or see CUDA_VISIBLE_DEVICES"
        )
    if not each:
        return []
    groups = [tuple(gpus[i : i + each]) for i in range(0, len(gpus) - each + 1, each)]
    return groups * (options.runs_per_gpu or 1)  # the first runs have a GPU each


def _parts(cores: Sequence[Core], size: int | None, near: Sequence[int | None]) -> list[list[Core]]:
    """The cores of each slot, of one memory node as far as that can be.

    Args:
        size: cores of a slot; None divides all of them.
        near: for each slot the node of its GPU, if it has one.
    """
    each = size or max(1, len(cores) // len(near))
    free, parts = list(cores), []
    for i, node in enumerate(near):
        there = Counter(core.node for core in free)
        if node is None or there[node] < each:  # without a GPU: the node with the most room
            node = max(there, key=lambda n: there[n], default=0)
        own = [core for core in free if core.node == node]
        part = (own if len(own) >= each else free)[:each]
        parts.append(part or [cores[i % len(cores)]])  # more slots than cores share them
        free = [core for core in free if core not in part]
    if size is None:
        for core in free:  # what the division leaves over
            beside = [part for part in parts if part[-1].node == core.node] or parts
            min(beside, key=len).append(core)
    return parts


def ranges(numbers: Sequence[int]) -> str:
    """0-3,8."""
    parts: list[list[Any]] = []
    for n in sorted(numbers):
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)
