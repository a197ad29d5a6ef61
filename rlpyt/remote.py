"""The parts of a run that processes of its own make for themselves, and what drives them.

Each is handed a `Plan`: the run's options, the choices that were made, and the memory of its rows.
It makes the same agent and the same window as the main process did, on that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rlpyt import noise
from rlpyt.acting import TRAINING, Agent, Check, Home, ModelFactory, make_agent, share_exploration
from rlpyt.envs.spec import EnvSpec
from rlpyt.generators import seed_generators
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.heart import Heart
from rlpyt.processes.start import Processes
from rlpyt.resolve import Resolved, tune_allocator
from rlpyt.run import Run
from rlpyt.run_rows import make_rows
from rlpyt.samplers.asynchronous import AsynchronousSampler
from rlpyt.samplers.background import Collector
from rlpyt.samplers.branch import Branch
from rlpyt.samplers.crew import Hired, Lent
from rlpyt.samplers.link import Link
from rlpyt.samplers.published import Published
from rlpyt.samplers.replica import Part
from rlpyt.samplers.replicated import ReplicatedSampler
from rlpyt.samplers.sampler import Sampler
from rlpyt.samplers.schedule import Schedule, ScheduledSampler
from rlpyt.storage import Memory
from rlpyt.vector import staff as vector_staff
from rlpyt.vector.beating import Beating
from rlpyt.vector.choose import environments
from rlpyt.vector.making import Making, registered_here
from rlpyt.vector.workers import WorkerEnvironments

PRELOADED = ("torch", "rlpyt.remote")  # by the fork server, once for all processes


@dataclass(frozen=True)
class Plan:
    """What another process needs to make its part of a run."""

    run: Run
    resolved: Resolved
    model: ModelFactory | None
    memory: Memory  # of the rows
    making: Making  # of environments

    @classmethod
    def of(
        cls,
        run: Run,
        spec: EnvSpec,
        resolved: Resolved,
        model: ModelFactory | None,
        memory: Memory,
    ) -> Plan:
        """The plan of a run, with what its script registered."""
        count = run.env.num_envs
        seeds = resolved.resets(TRAINING[0], count)
        making = Making(run.env, spec, seeds, count, registered_here())
        return cls(run, resolved, model, memory, making)

    @property
    def total(self) -> int:
        """Environment steps of the run."""
        return self.run.loop.env_steps

    @property
    def acting_device(self) -> str:
        """Where rows are answered by a process of its own."""
        chosen = self.run.sampler.acting_device
        if self.resolved.sampler == "replicated":
            return "cpu"
        return self.resolved.device if chosen == "auto" else chosen

    def agent(self, device: str) -> Agent:
        """The agent as the run began with it; newer weights are taken before it acts."""
        agent = make_agent(self.run, self.making.spec, self.resolved.seed, self.model)
        agent.to_device(torch.device(device))
        share_exploration(agent, self.resolved, self.making.total)
        return agent

    def window(self, agent: Agent) -> Any:
        """The rows of the run, as they lie in its memory."""
        return make_rows(self.run, self.making.spec, agent, self.memory, states=True)

    def sampler(
        self, envs: Any, agent: Agent, window: Any, answered: range, heart: Heart | None = None
    ) -> Sampler:
        """What collects into a window, or into a part of one.

        Args:
            answered: columns that a forward pass has.
            heart: of a process that somebody watches.
        """
        all_ranks = self.resolved.columns(self.making.total)[answered.start : answered.stop]
        drawn = Noise(self.resolved.seed, TRAINING[1], all_ranks, agent.uniforms, agent.normals)
        strict, bounds = self.run.sampler.strict, self.run.env.strict_bounds
        return Sampler(envs, agent, window, drawn, strict=strict, strict_bounds=bounds, heart=heart)

    def begin(self, first: int) -> None:
        """Set what is process-wide, in the process that has the columns from `first` on.

        Environments that draw from the global generators are reproducible, and not all alike.
        """
        before = self.resolved.columns(self.making.total).start
        seed_generators(ResetSeeds(self.resolved.seed, noise.GLOBAL_GENERATORS, before)(first, 0))
        if self.resolved.allocator == "tuned":
            tune_allocator()


def replica_part(plan: Plan, context: Context, columns: slice) -> Part:
    """What a replica samples its columns with."""
    plan.begin(columns.start)
    own = range(columns.start, columns.stop)
    agent = plan.agent("cpu")
    part = plan.window(agent).part(columns)
    envs = plan.making(own, context.heart)
    answered = range(plan.making.total) if plan.run.sampler.strict else own
    return Part(plan.sampler(envs, agent, part, answered, context.heart), agent)


def collector(plan: Plan, context: Context, helpers: Any) -> Collector:
    """What collects in the background: with processes that were started to help it, or alone."""
    plan.begin(0)
    run, resolved = plan.run, plan.resolved
    limits = replace(run.sampler, on_worker_failure="raise")  # the main process begins all anew
    agent = plan.agent(plan.acting_device)
    window = plan.window(agent)
    if resolved.sampler == "replicated":
        staff = Lent(context, helpers)
        replicated = ReplicatedSampler(staff, plan.making.spec, agent, window, limits)
        return Collector(replicated, agent, resolved.ranks)
    if resolved.sampler == "workers":
        lent = vector_staff.Lent(context, helpers)
        envs: Any = WorkerEnvironments(lent, window, limits)
    elif resolved.vectorization == "native":
        envs = Beating(_alone(plan), context.heart)
    else:
        envs = plan.making(range(plan.making.total), context.heart)
    columns = range(plan.making.total)
    sampler = plan.sampler(envs, agent, window, columns, context.heart)
    return Collector(sampler, agent, resolved.ranks)


def replicated_sampler(
    plan: Plan, agent: Agent, window: Any, home: Home, check: Check
) -> ReplicatedSampler:
    """What the main process collects with by replicas, which are started when it begins."""
    staff = _crew(plan, agent, _processes(home))
    return ReplicatedSampler(staff, plan.making.spec, agent, window, plan.run.sampler, check)


def asynchronous_sampler(
    plan: Plan, agent: Agent, window: Any, home: Home, check: Check
) -> AsynchronousSampler | ScheduledSampler:
    """What the main process is given rows by that a process in the background collects.

    Or, by the schedule of such a run, what collects them here.
    """
    resolved, options = plan.resolved, plan.run.sampler
    if options.schedule is not None:
        actor, all_columns = plan.agent(plan.acting_device), range(plan.making.total)
        sampler = plan.sampler(_alone(plan), actor, window, all_columns)
        schedule = Schedule.read(Path(options.schedule))
        return ScheduledSampler(sampler, agent, schedule, plan.total, check)
    link = Link(Memory(), options.max_lag)
    weights = Memory()
    published = Published(agent, weights)

    def helpers(processes: Processes) -> Any:
        if resolved.sampler == "replicated":
            return _crew(plan, agent, lambda: processes, Bell()).crew()
        if resolved.sampler == "workers":
            return vector_staff.Hired(
                lambda: processes,
                plan.making,
                window.places,
                plan.memory,
                resolved.workers,
                resolved.groups,
                bell=Bell(),
            ).workers()
        return None

    def record(row: int) -> Schedule:
        return Schedule(home.folder and home.folder / f"schedule-{row}.txt")

    make = partial(collector, plan)
    branch = Branch(_processes(home), make, helpers, link, weights, plan.total)
    recorder = record if options.record_schedule else None
    return AsynchronousSampler(branch, agent, published, window, options, check, recorder)


def _alone(plan: Plan) -> Any:
    """All environments in the process that calls this."""
    making, resolved = plan.making, plan.resolved
    how, groups = resolved.vectorization, resolved.groups
    return environments(making.options, making.spec, making.total, making.seeds, how, groups)


def _crew(
    plan: Plan, agent: Agent, processes: Callable[[], Processes], bell: Bell | None = None
) -> Hired:
    make = partial(replica_part, plan)
    return Hired(processes, make, agent, plan.making.total, plan.resolved.workers, bell)


def _processes(home: Home) -> Callable[[], Processes]:
    return lambda: Processes(home.folder, preload=PRELOADED)
