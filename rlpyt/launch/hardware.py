"""What this machine lets a process use: cores with their threads, memory nodes, GPUs, a quota."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
ASK_SECONDS = 20.0  # a driver that was asleep takes a few


@dataclass(frozen=True)
class Core:
    """A physical core: the allowed ones of its hardware threads, and the memory node it is on."""

    cpus: tuple[int, ...]
    node: int = 0


@dataclass(frozen=True)
class Gpu:
    """A visible GPU: what CUDA_VISIBLE_DEVICES calls it, and the memory node that it is near to."""

    id: str
    node: int | None = None


@dataclass(frozen=True)
class Machine:
    """What may be used of a machine."""

    cores: tuple[Core, ...]  # neighbours share a node
    gpus: tuple[Gpu, ...] = ()
    quota: float | None = None  # processors' worth of time that a control group grants

    @property
    def cpus(self) -> int:
        """Hardware threads that are allowed."""
        return sum(len(core.cpus) for core in self.cores)

    @property
    def limited(self) -> bool:
        """Whether the quota is less than the allowed hardware threads."""
        return self.quota is not None and self.quota < self.cpus


def read_machine(
    root: Path = ROOT,
    allowed: Collection[int] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Machine:
    """This machine, as far as this process may use it.

    Args:
        root: where `/proc` and `/sys` lie; a test brings its own.
        allowed: CPUs that may be used; None asks the system.
        environ: CUDA_VISIBLE_DEVICES is read from it.
    """
    cores = read_cores(root, _allowed() if allowed is None else allowed)
    return Machine(cores, read_gpus(root, environ), cpu_quota(root))


def read_cores(root: Path, allowed: Collection[int]) -> tuple[Core, ...]:
    """The allowed CPUs by physical core, those of a memory node side by side."""
    nodes = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        for cpu in _list(_text(folder / "cpulist"))
    }
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in sorted(allowed):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = (_text(topology / name) for name in ("physical_package_id", "core_id"))
        known = package.isdecimal() and core.isdecimal()  # some containers and virtual machines: -1
        package_id, core_id = (int(package), int(core)) if known else (0, cpu)
        cores.setdefault((nodes.get(cpu, 0), package_id, core_id), []).append(cpu)
    return tuple(Core(tuple(cpus), key[0]) for key, cpus in sorted(cores.items()))


def cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that the control groups (version 2 or 1) grant; None: no limit."""
    quotas = [quota for quota in _quotas(root) if quota is not None]
    return min(quotas, default=None)


def read_gpus(root: Path, environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that a process started here would see, as CUDA_VISIBLE_DEVICES names them."""
    there = _ask_driver(root, environ)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(Gpu(index, node) for index, (_, node) in there.items())
    near = {index: node for index, (_, node) in there.items()}
    near |= dict(there.values())
    found: list[Gpu] = []
    for name in (part.strip() for part in visible.split(",")):
        if not name or name == "-1" or (there and name.isdecimal() and name not in near):
            break  # as CUDA reads the list: what comes after one that is not there is not seen
        found.append(Gpu(name, near.get(name)))
    return tuple(found)


def _allowed() -> Collection[int]:
    if sys.platform.startswith("linux"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _ask_driver(root: Path, environ: Mapping[str, str]) -> dict[str, tuple[str, int | None]]:
    """GPUs that the driver shows: index -> (uuid, memory node)."""
    query = "--query-gpu=index,uuid,pci.bus_id"
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_SECONDS, env=dict(environ)
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    if done.returncode:
        return {}
    found: dict[str, tuple[str, int | None]] = {}
    for line in done.stdout.splitlines():
        index, uuid, bus = (part.strip() for part in line.split(","))
        # nvidia-smi writes the domain with eight digits, the kernel with four
        node = _text(root / "sys/bus/pci/devices" / bus.lower()[-12:] / "numa_node")
        found[index] = (uuid, int(node) if node.isdecimal() else None)
    return found


def _quotas(root: Path) -> Iterator[float | None]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                for folder in _upward(root / mount, place):
                    yield _ratio(_text(folder / "cpu.max"))
        elif "cpu" in controllers.split(","):
            for mount in ("sys/fs/cgroup/cpu", f"sys/fs/cgroup/{controllers}"):
                for folder in _upward(root / mount, place):
                    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                    yield _ratio(" ".join(_text(folder / name) for name in names))


def _upward(mount: Path, place: str) -> Iterator[Path]:
    """A group's folder and those above it; in a container the mount itself may be the group."""
    folder = mount / place.strip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _ratio(text: str) -> float | None:
    """The "quota period" of a control group; "max" and -1 are no limit."""
    parts = text.split()
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or parts[1] == "0":
        return None
    return int(parts[0]) / int(parts[1])


def _list(text: str) -> Iterator[int]:
    """The kernel's lists of numbers: 0-3,8,10-11."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
