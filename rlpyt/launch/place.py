"""Where a sweep's runs have their place: this machine, or another that offers the same."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rlpyt.errors import UsageError
from rlpyt.launch.children import Children
from rlpyt.launch.hardware import read_machine
from rlpyt.launch.jobs import Job
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.slots import Slot, check_threads, describe, plan


class Runs(Protocol):
    """Starts runs, says what became of them, and ends them."""

    def look(self, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]: ...
    def start(self, name: str, argv: Sequence[str], slot: Slot, log: Path) -> None: ...
    def signal(self, name: str, number: int) -> None: ...
    def hear(self, seconds: float) -> list[dict[str, Any]]: ...
    def close(self) -> None: ...


class Opened(NamedTuple):
    """A place that is ready for runs."""

    runs: Runs
    slots: Sequence[Slot]  # may change while runs are waited for
    text: str  # what is said of them


class Place(Protocol):
    """Where runs have their place."""

    backend: str
    settings: Mapping[str, str]

    def open(self, jobs: Sequence[Job]) -> Opened:
        """Make it ready; refuses jobs that it has no room for, or that cannot be made."""
        ...

    def again(self) -> Runs:
        """Other runs' side of it, where the one before died."""
        ...


class ThisMachine:
    """Slots cut from this machine, whose runs are forked from a process with PyTorch loaded.

    Args:
        options: of the queue.
        cwd: where the runs run.
    """

    backend = "local"

    def __init__(self, options: QueueOptions, cwd: Path) -> None:
        self.settings: Mapping[str, str] = {}
        self._options, self._cwd, self._threads = options, cwd, 1

    def open(self, jobs: Sequence[Job]) -> Opened:
        machine = read_machine()
        either = [plan(machine, self._options, takes_gpu=x) for x in (False, bool(machine.gpus))]
        asked = {job.run.loop.threads for job in jobs if job.run is not None}
        largest = max(either, key=lambda slots: min(len(slot.cpus) for slot in slots))
        for threads in asked:
            check_threads(threads, largest)
        self._threads = min(len(slot.cpus) for slots in either for slot in slots)
        children = self.again()
        try:
            slots = either[look(children, jobs)]
            for threads in asked:
                check_threads(threads, slots)
        except BaseException:
            children.close()
            raise
        return Opened(children, slots, describe(slots, machine))

    def again(self) -> Children:
        options = self._options
        python, preload, ranks = options.python, options.preload, options.ranks
        children = Children(python, self._cwd, self._threads, preload, ranks)
        try:
            children.ready()
        except BaseException:
            children.close()
            raise
        return children


def look(runs: Runs, jobs: Sequence[Job]) -> bool:
    """Whether runs take a GPU; refuses what cannot be made, one of each kind being looked at."""
    first = {job.kind: job for job in reversed(jobs)}
    found = runs.look([job.options for job in first.values()])
    for job, seen in zip(first.values(), found, strict=True):
        if seen.get("usage"):
            raise UsageError(f"rlpyt train {shlex.join(job.options)}: {seen['error']}")
        if "error" in seen:
            print(f"warning: {job.kind} may fail: {seen['error']}", file=sys.stderr)
    devices = {seen.get("device", "cpu") for seen in found}
    numbered = [device for device in devices if device.startswith("cuda:")]
    if numbered and numbered != ["cuda:0"]:
        raise UsageError(
            f"device={numbered[0]}: a run sees the GPUs of its slot alone, numbered from 0; give "
            "--device cuda"
        )
    return any(device.startswith("cuda") for device in devices)
