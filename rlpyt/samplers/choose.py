"""Which sampler a run has, where its options leave it open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rlpyt.envs.options import EnvOptions
from rlpyt.samplers import recommended
from rlpyt.samplers.options import SamplerOptions
from rlpyt.samplers.recommended import Recommendation
from rlpyt.samplers.rules import check_sizes
from rlpyt.vector.choose import Vectorization
from rlpyt.vector.choose import choose as choose_vectorization


@dataclass(frozen=True)
class Chosen:
    """A sampler with its processes and groups, and why those that were open are so."""

    sampler: Literal["serial", "workers", "replicated", "ray"]
    workers: int  # 0: none, all is in one process
    groups: int
    vectorization: Vectorization
    reasons: dict[str, str]


def choose(
    options: SamplerOptions, env: EnvOptions, images: bool, cores: int, agent: str = ""
) -> Chosen:
    """Fill in what is open.

    Args:
        images: whether the environment observes any.
        cores: that may be used.
        agent: what was measured is of this kind (`recommended.kind`).
    """
    reasons: dict[str, str] = {}
    sampler, workers, groups = options.sampler, options.workers, options.groups
    if sampler == "auto":
        sampler = "workers" if options.wants_processes else "serial"
        found = recommended.find(env.name, env.num_envs, agent, lambda x: _fits(x, options, env))
        if found is not None:
            sampler, env = found.sampler, replace(env, vectorization=found.vectorization)
            workers, groups = workers or found.workers, groups or found.groups
            reasons["sampler"] = "`rlpyt bench sampler` found it to be the fastest here"
    if sampler == "serial":
        return Chosen("serial", 0, groups or 1, choose_vectorization(env, cores), reasons)
    if groups is None:
        groups = 1
        if sampler == "workers" and images and env.num_envs > 1:
            groups = 2
            reasons["groups"] = "one half is answered while the other steps"
    if workers is None:
        free = max(1, cores - 1) if sampler == "workers" else cores
        workers = min(free, env.num_envs // groups)
        reasons["workers"] = f"{cores} allowed core{'s' if cores > 1 else ''}"
    check_sizes(env.num_envs, workers, groups)
    return Chosen(sampler, workers, groups, "in-process", reasons)


def _fits(found: Recommendation, options: SamplerOptions, env: EnvOptions) -> bool:
    """Whether what was found to be fast can be had beside what the options fix."""
    native = choose_vectorization(env, cores=2) == "native"
    return (
        not (options.wants_processes and found.sampler == "serial")
        and options.workers in (None, found.workers)
        and options.groups in (None, found.groups)
        and env.vectorization in ("auto", found.vectorization)
        and (native or found.vectorization == "in-process")
        and max(1, found.workers) <= env.num_envs // found.groups
    )
