"""What a run leaves open is decided here, once, with reasons, and kept in run.json."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch

from rlpyt import noise, torchrun
from rlpyt.algos.compiled import COMPILED_FILE
from rlpyt.algos.options import ReplayOptions
from rlpyt.cores import allowed_cores
from rlpyt.errors import UsageError
from rlpyt.memory_budget import file_too_large
from rlpyt.noise import ResetSeeds
from rlpyt.ranks import Ranks
from rlpyt.run import Run
from rlpyt.samplers.choose import choose
from rlpyt.samplers.recommended import kind
from rlpyt.vector.choose import Vectorization

COMPILED_UPDATES = 100_000  # from so many on a run of a small network is compiled
COMPILED_IMAGE_UPDATES = 10_000  # and of one that reads images
_SMALL = 1_000_000  # parameters; below, a second thread costs more than it gives
_LARGE_UPDATE = 20_000_000  # parameters times rows of an update; from so many on it gives more


@dataclass(frozen=True)
class Resolved:
    """Choices made when a run began; a resumed run takes them over."""

    seed: int
    device: str
    threads: int
    compile: bool
    precision: str
    allocator: str
    vectorization: Vectorization
    reasons: dict[str, str]
    sampler: Literal["serial", "workers", "replicated", "ray"] = "serial"
    workers: int = 0  # processes that step environments
    groups: int = 1  # of environments, that take turns
    rank: int = 0  # of this process among those that train together
    ranks: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def of_rank(self, world: Ranks) -> Resolved:
        """The choices as one of the ranks has them: each has a GPU of its own."""
        device = self.device
        if device.startswith("cuda") and world.size > 1:
            own, there = torchrun.local_rank(), torch.cuda.device_count()
            if own >= there:
                raise UsageError(
                    f"device=cuda with {torchrun.here()} ranks on this machine, which has {there} "
                    f"GPUs: each rank has one of its own; start {there}, or choose --device cpu"
                )
            device = f"cuda:{own}"
        return replace(self, device=device, rank=world.rank, ranks=world.size)

    def columns(self, num_envs: int) -> range:
        """Numbers of this rank's environments among those of all ranks."""
        return range(self.rank * num_envs, (self.rank + 1) * num_envs)

    def resets(self, role: int, num_envs: int) -> ResetSeeds:
        """Seeds of resets, by column of this process.

        Args:
            role: as `noise.ResetSeeds` takes it.
            num_envs: of training, of each rank.
        """
        if role == noise.TRAINING_RESETS:
            return ResetSeeds(self.seed, role, self.columns(num_envs).start)
        return ResetSeeds(self.seed, role, numbered=self.ranks * num_envs)


def draw_seed(run: Run) -> int:
    """The run's seed, or one drawn from the system's entropy."""
    return secrets.randbelow(1_000_000) if run.loop.seed is None else run.loop.seed


def resolve(run: Run, seed: int, parameters: int, images: bool) -> Resolved:
    """Choose device, threads and compilation.

    Args:
        seed: the run's.
        parameters: of the network.
        images: whether it reads images.
    """
    loop, reasons = run.loop, {}
    device = loop.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and images else "cpu"
        reasons["device"] = "a GPU pays for image networks only"
    check_device(device)
    if run.sampler.acting_device != "auto":
        check_device(run.sampler.acting_device)
    threads = loop.threads
    if threads is None:
        rows = run.algo.rows_per_update if isinstance(run.algo, ReplayOptions) else 0
        small = parameters < _SMALL and parameters * rows < _LARGE_UPDATE
        # What collects meanwhile has a core, too.
        threads = 1 if small else max(1, allowed_cores() - run.sampler.asynchronous)
        reasons["threads"] = f"{_short(parameters)}-parameter {'image ' if images else ''}network"
    if threads < 1:
        raise UsageError(f"threads={threads} must be at least 1")
    compiled = loop.compile == "on"
    if loop.compile == "auto":
        compiled, reasons["compile"] = _compilation(run, images, device)
    chosen = choose(run.sampler, run.env, images, allowed_cores(), _kind(run, images, device))
    return Resolved(
        seed,
        device,
        threads,
        compiled,
        loop.precision,
        loop.allocator,
        chosen.vectorization,
        reasons | chosen.reasons,
        chosen.sampler,
        chosen.workers,
        chosen.groups,
    )


def with_sampler(resolved: Resolved, run: Run, images: bool) -> Resolved:
    """The choices of a run that goes on with another sampler: all but the sampler stay.

    Args:
        run: with the options of the new sampler.
        images: whether its environments observe any.
    """
    env = run.env
    if run.sampler.sampler in ("auto", "serial"):
        env = replace(env, vectorization=resolved.vectorization)
    agent = _kind(run, images, resolved.device)
    chosen = choose(run.sampler, env, images, allowed_cores(), agent)
    names = ("sampler", "workers", "groups")
    kept = {name: why for name, why in resolved.reasons.items() if name not in names}
    return replace(
        resolved,
        vectorization=chosen.vectorization,
        sampler=chosen.sampler,
        workers=chosen.workers,
        groups=chosen.groups,
        reasons=kept | chosen.reasons,
    )


def _kind(run: Run, images: bool, device: str) -> str:
    return kind(run.algo_name, images, run.model.memory, device)


def _compilation(run: Run, images: bool, device: str) -> tuple[bool, str]:
    """Whether compiling gains more time than it takes, 10 to 30 s, and why.

    Measured on two cores: it takes 0.4 ms off an update of a small network, three quarters, and
    4 ms off one of Nature's network, a sixth. Memories stay eager. What learns from windows has
    fewer and larger updates, which gain little.
    """
    algo = run.algo
    if device != "cpu":
        return False, "eager: what compiling gains was measured on CPUs only; --compile on compiles"
    if not isinstance(algo, ReplayOptions) or run.model.memory != "none":
        return False, "eager: compiling gains little here; --compile on compiles"
    if torchrun.expected() > 1 and getattr(run.model, "batch_norm", False):
        return False, "eager: batch normalization is over the rows of all ranks"
    num_envs = run.env.num_envs * torchrun.expected()
    updates = algo.updates(num_envs, run.loop.env_steps) // torchrun.expected()
    if updates < (COMPILED_IMAGE_UPDATES if images else COMPILED_UPDATES):
        return False, f"eager: {updates:,} updates gain less than compiling them takes"
    if not _has_compiler():
        return False, "eager: no C++ compiler (g++ or clang++) was found"
    if why := file_too_large(COMPILED_FILE):
        return False, f"eager: {why}"
    return True, f"compiled: {updates:,} updates gain more than compiling takes"


def _has_compiler() -> bool:
    """Whether PyTorch finds a compiler for the code that it generates for CPUs."""
    return any(map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "clang++"))))


def apply(resolved: Resolved) -> None:
    """Set what is process-wide: threads and the allocator."""
    torch.set_num_threads(resolved.threads)
    if resolved.allocator == "tuned":
        tune_allocator()


def tune_allocator() -> None:
    """Have glibc keep large blocks.

    By default each block over 32 MiB is mapped and unmapped anew, and its pages fault again at
    every update of an image network: a fifth of the time on two cores.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        for key, value in ((-3, 1 << 30), (-1, 2**31 - 1), (-2, 1 << 28)):
            libc.mallopt(key, value)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD
    except (OSError, AttributeError):
        return  # another C library than glibc: nothing to tune


def on_device(resolved: Resolved, device: str | None) -> Resolved:
    """The choices of a run that goes on, on another device if one is given; refused if not there.

    Raises:
        UsageError: the device cannot be used here.
    """
    if device == "auto":
        raise UsageError("device=auto: a run that goes on keeps its device; name another, or none")
    if device is not None:
        check_device(device)
        return replace(resolved, device=device)
    try:
        check_device(resolved.device)
    except UsageError as error:
        why = str(error).partition("; ")[0]
        raise UsageError(
            f"{why}, and the run was on it; go on where it can be, or with device=cpu, in numbers "
            "that differ by rounding"
        ) from None
    return resolved


def moved(run: Run, device: str, anew: bool) -> Run:
    """A run that goes on on a device, without what is for another.

    Args:
        device: its own, or another that was named.
        anew: one was named; where `acting_device` cannot be used here, rows are answered there.
    """
    algo, sampler, loop = run.algo, run.sampler, run.loop
    if isinstance(algo, ReplayOptions) and algo.replay_memory == "pinned":
        algo = algo if device.startswith("cuda") else replace(algo, replay_memory="host")
    if anew:
        loop = replace(loop, device=device)
        try:
            check_device("cpu" if sampler.acting_device == "auto" else sampler.acting_device)
        except UsageError:
            sampler = replace(sampler, acting_device="auto")
    return replace(run, algo=algo, sampler=sampler, loop=loop)


def check_device(device: str) -> None:
    """Refuse a device that cannot be used here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"device={device} cannot be used here ({first}); choose cpu, or a GPU that "
            "torch.cuda.is_available() sees"
        ) from None


def _short(n: int) -> str:
    return f"{n / 1e6:.1f}M" if n >= 1e6 else f"{n / 1e3:.0f}k" if n >= 1e3 else str(n)
