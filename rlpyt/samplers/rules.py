"""What the options of the sampler must satisfy beside the others. Imports no torch."""

from __future__ import annotations

from typing import Any

from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.samplers.options import SamplerOptions


def check(sampler: SamplerOptions, env: EnvOptions, algo: Any) -> None:
    """Refuse a sampler that cannot be, with these environments or this algorithm.

    Args:
        algo: the options of the algorithm.
    """
    num_envs, native = env.num_envs, env.vectorization == "native"
    check_sizes(num_envs, sampler.workers or 1, sampler.groups or 1)
    if sampler.sampler == "ray" and sampler.workers is None:
        raise UsageError(
            "sampler=ray: on how many actors, of a CPU of the cluster each? Give --workers"
        )
    if native and sampler.wants_processes:
        raise UsageError(
            f"{_processes(sampler)} and vectorization=native: a native vector environment "
            "steps its environments in threads of its own; choose --sampler serial (with --groups "
            "2 they alternate), or --vectorization in-process"
        )
    if native and env.decorrelate:
        raise UsageError(
            f"decorrelate={env.decorrelate} and vectorization=native: a native vector environment "
            "steps all its environments together; choose --vectorization in-process, or leave out "
            "--decorrelate"
        )
    if sampler.sampler in ("replicated", "ray") and (sampler.groups or 1) > 1:
        raise UsageError(
            f"groups={sampler.groups} and sampler={sampler.sampler}: each process steps and "
            "answers its own environments in turn; leave out --groups, or choose --sampler workers"
        )
    if sampler.sampler in ("replicated", "ray") and sampler.acting_device not in ("auto", "cpu"):
        raise UsageError(
            f"acting_device={sampler.acting_device} and sampler={sampler.sampler}: each answers "
            "its environments on the CPU; choose --sampler workers, or serial"
        )
    if sampler.asynchronous and sampler.on_worker_failure == "drop":
        raise UsageError(
            "on_worker_failure=drop and asynchronous: all processes that collect begin anew where "
            "one has failed; choose --on-worker-failure restart"
        )
    if sampler.asynchronous and algo.asynchronous_rows is None:
        raise UsageError(
            "asynchronous: the learner's weights are newer than those that acted, which this "
            "algorithm cannot correct for; choose impala or appo, or one that learns from a replay"
        )


def check_sizes(num_envs: int, workers: int, groups: int) -> None:
    """Refuse a worker or a group that would be without an environment."""
    if groups > num_envs:
        raise UsageError(
            f"groups={groups} of num_envs={num_envs}: a group would be empty; choose at most "
            f"--groups {num_envs}, or more environments"
        )
    smallest = num_envs // groups
    if workers > smallest:
        turns = f" in {groups} groups, each cut over all workers" if groups > 1 else ""
        raise UsageError(
            f"workers={workers} for num_envs={num_envs}{turns}: a worker would be without an "
            f"environment; choose at most --workers {smallest}, or more environments"
        )


def _processes(sampler: SamplerOptions) -> str:
    """The option that asks for processes."""
    if sampler.sampler != "auto":
        return f"sampler={sampler.sampler}"
    if sampler.workers is not None:
        return f"workers={sampler.workers}"
    return f"on_worker_failure={sampler.on_worker_failure}"


def without_effect(sampler: SamplerOptions, env: EnvOptions) -> dict[str, str]:
    """Options that change nothing beside the others, and what would give them an effect."""
    idle: dict[str, str] = {}
    processes = sampler.wants_processes
    if not processes:  # asked for serial: else they would have been a wish for processes
        idle["workers"] = "choose --sampler workers or replicated"
        idle["on_worker_failure"] = "choose --sampler workers or replicated"
    if not processes and env.vectorization != "native":
        idle["groups"] = "add --sampler workers, or --vectorization native"
    if sampler.on_worker_failure != "restart":
        idle["max_restarts"] = "add --on-worker-failure restart"
    if not sampler.asynchronous:
        for name in ("max_lag", "acting_device", "record_schedule", "schedule"):
            idle[name] = "add --asynchronous"
    elif sampler.schedule is not None:
        idle["record_schedule"] = "the run collects as --schedule says; leave out one of the two"
    if sampler.asynchronous:
        idle.pop("on_worker_failure", None)
    return idle
