"""The parts of a run that processes of its own make for themselves, and what drives them.

Each is handed the run's options, the choices that were made, and the memory of its rows. It makes
the same agent and the same window as the main process did, on that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rlpyt import noise
from rlpyt.acting import TRAINING, Agent, Check, Home, ModelFactory, make_agent
from rlpyt.envs.spec import EnvSpec
from rlpyt.generators import seed_generators
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.start import Processes
from rlpyt.resolve import Resolved, tune_allocator
from rlpyt.run import Run
from rlpyt.run_rows import make_rows
from rlpyt.samplers.asynchronous import AsynchronousSampler
from rlpyt.samplers.background import Collector
from rlpyt.samplers.branch import Branch
from rlpyt.samplers.crew import Crew, Hired, Lent
from rlpyt.samplers.limits import Limits
from rlpyt.samplers.link import Link
from rlpyt.samplers.published import Published
from rlpyt.samplers.replica import Part
from rlpyt.samplers.replicated import ReplicatedSampler
from rlpyt.samplers.sampler import Sampler
from rlpyt.samplers.schedule import Schedule, ScheduledSampler
from rlpyt.storage import Memory
from rlpyt.vector.choose import environments, in_process

PRELOADED = ("torch", "rlpyt.remote")  # by the fork server, once for all processes


@dataclass(frozen=True)
class Plan:
    """What another process needs to make its part of a run."""

    run: Run
    spec: EnvSpec
    resolved: Resolved
    model: ModelFactory | None
    memory: Memory  # of the rows

    @property
    def limits(self) -> Limits:
        options = self.run.sampler
        return Limits(
            options.env_step_timeout,
            options.start_timeout,
            options.on_worker_failure,
            options.max_restarts,
        )

    def agent(self, device: str) -> Agent:
        """The agent as the run began with it; newer weights are taken before it acts."""
        agent = make_agent(self.run, self.spec, self.resolved.seed, self.model)
        agent.to_device(torch.device(device))
        return agent

    def window(self, agent: Agent) -> Any:
        """The rows of the run, as they lie in its memory."""
        return make_rows(self.run, self.spec, agent, self.memory, states=True)

    @property
    def total(self) -> int:
        """Environment steps of the run."""
        return self.run.loop.env_steps

    def sampler(self, agent: Agent, window: Any) -> Sampler:
        """What collects all columns in the process that calls this."""
        run, resolved, count = self.run, self.resolved, self.run.env.num_envs
        seeds, how = ResetSeeds(resolved.seed, TRAINING[0]), resolved.vectorization
        envs = environments(run.env, self.spec, count, seeds, how, resolved.groups)
        drawn = self.noise(agent, range(count))
        strict, bounds = run.sampler.strict, run.env.strict_bounds
        return Sampler(envs, agent, window, drawn, strict=strict, strict_bounds=bounds)

    def noise(self, agent: Agent, columns: range) -> Noise:
        return Noise(self.resolved.seed, TRAINING[1], columns, agent.uniforms, agent.normals)

    def begin(self, first: int) -> None:
        """Set what is process-wide, in the process that has the columns from `first` on.

        Environments that draw from the global generators are reproducible, and not all alike.
        """
        seed_generators(ResetSeeds(self.resolved.seed, noise.GLOBAL_GENERATORS)(first, 0))
        if self.resolved.allocator == "tuned":
            tune_allocator()


def replica_part(plan: Plan, context: Context, columns: slice) -> Part:
    """What a replica samples its columns with."""
    plan.begin(columns.start)
    env, total, strict = plan.run.env, plan.run.env.num_envs, plan.run.sampler.strict
    own = range(columns.start, columns.stop)
    agent = plan.agent("cpu")
    part = plan.window(agent).part(columns)
    envs = in_process(env, plan.spec, ResetSeeds(plan.resolved.seed, TRAINING[0]), own, total)
    drawn = plan.noise(agent, range(total) if strict else own)
    sampler = Sampler(envs, agent, part, drawn, strict=strict, strict_bounds=env.strict_bounds)
    return Part(sampler, agent)


def background_collector(plan: Plan, context: Context, crew: Crew | None) -> Collector:
    """What collects in the background: by replicas that were started for it, or alone."""
    plan.begin(0)
    resolved = plan.resolved
    if crew is not None:
        agent = plan.agent("cpu")
        window = plan.window(agent)
        return Collector(ReplicatedSampler(Lent(context, crew), agent, window, plan.limits), agent)
    agent = plan.agent(resolved.device)
    return Collector(plan.sampler(agent, plan.window(agent)), agent)


def replicated_sampler(
    plan: Plan, agent: Agent, window: Any, home: Home, check: Check
) -> ReplicatedSampler:
    """What the main process collects with by replicas, which are started when it begins."""
    make, replicas = partial(replica_part, plan), plan.resolved.workers
    staff = Hired(_processes(home), make, agent, window.num_envs, replicas)
    return ReplicatedSampler(staff, agent, window, plan.limits, check)


def asynchronous_sampler(
    plan: Plan, agent: Agent, window: Any, home: Home, check: Check
) -> AsynchronousSampler | ScheduledSampler:
    """What the main process is given rows by that a process in the background collects.

    Or, by the schedule of such a run, what collects them here.
    """
    options = plan.run.sampler
    if options.schedule is not None:
        actor = plan.agent(plan.resolved.device)
        schedule = Schedule.read(Path(options.schedule))
        return ScheduledSampler(plan.sampler(actor, window), agent, schedule, plan.total, check)
    link = Link(Memory(), options.max_lag)
    weights = Memory()
    published = Published(agent, weights)

    def helpers(processes: Processes) -> Crew | None:
        if plan.resolved.sampler != "replicated":
            return None
        make, replicas = partial(replica_part, plan), plan.resolved.workers
        return Hired(lambda: processes, make, agent, window.num_envs, replicas, Bell()).crew()

    def record(row: int) -> Schedule:
        return Schedule(home.folder and home.folder / f"schedule-{row}.txt")

    make = partial(background_collector, plan)
    branch = Branch(_processes(home), make, helpers, link, weights, plan.total)
    recorder = record if options.record_schedule else None
    return AsynchronousSampler(branch, agent, published, window, plan.limits, check, recorder)


def _processes(home: Home) -> Callable[[], Processes]:
    return lambda: Processes(home.folder, preload=PRELOADED)
