"""The parts of a run that processes of its own make for themselves, and what drives them.

Each is handed a `Plan`: the run's options, the choices that were made, and the memory of its rows.
It makes the same agent and the same window as the main process did, on that memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rlpyt import noise
from rlpyt.acting import TRAINING, Check, Home
from rlpyt.agent_making import Agent, ModelFactory, make_agent, share_exploration
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.generators import seed_generators
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.heart import Heart
from rlpyt.processes.start import Processes
from rlpyt.resolve import Resolved, tune_allocator
from rlpyt.ring import Ring
from rlpyt.run import Run
from rlpyt.run_rows import make_rows
from rlpyt.samplers.asynchronous import AsynchronousSampler
from rlpyt.samplers.background import Collector
from rlpyt.samplers.branch import Branch
from rlpyt.samplers.crew import Hired, Lent
from rlpyt.samplers.link import Link
from rlpyt.samplers.published import Published
from rlpyt.samplers.remote_replica import RemotePart
from rlpyt.samplers.remote_sampler import RemoteCrew, RemoteSampler
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
    memory: Memory | None  # of the rows; None: on another machine, which has its own
    making: Making  # of environments
    ray_address: str = "auto"  # of the cluster that remote replicas are on

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
        drop = run.sampler.nan_policy == "drop"
        making = Making(run.env, spec, seeds, count, drop, registered_here())
        # Here, for the fork server's children have the environment variables that it began with.
        address = os.environ.get("RAY_ADDRESS") or "auto"
        return cls(run, resolved, model, memory, making, address)

    @property
    def total(self) -> int:
        """Environment steps of the run."""
        return self.run.loop.env_steps

    @property
    def first_resets(self) -> int:
        """How often an environment has begun by row 0, at most: each random step may end it."""
        return 1 + self.run.env.decorrelate

    @property
    def acting_device(self) -> str:
        """Where rows are answered by a process of its own."""
        chosen = self.run.sampler.acting_device
        if self.resolved.sampler in ("replicated", "ray"):
            return "cpu"
        if self.resolved.ranks > 1 and chosen.startswith("cuda"):
            chosen = "auto"  # each rank has a GPU of its own
        return self.resolved.device if chosen == "auto" else chosen

    def agent(self, device: str) -> Agent:
        """The agent as the run began with it; newer weights are taken before it acts."""
        agent = make_agent(self.run, self.making.spec, self.resolved.seed, self.model)
        agent.to_device(torch.device(device))
        share_exploration(agent, self.resolved, self.making.total)
        return agent

    def window(self, agent: Agent, ring: Callable[..., Ring] = Ring) -> Any:
        """The rows of the run, as they lie in its memory."""
        return make_rows(self.run, self.making.spec, agent, self.memory, states=True, ring=ring)

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
        return Sampler(
            envs,
            agent,
            window,
            drawn,
            strict=self.run.sampler.strict,
            strict_bounds=self.run.env.strict_bounds,
            finite=self.run.sampler.nan_policy != "ignore",
            heart=heart,
        )

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


def remote_part(plan: Plan, columns: slice, heart: Heart) -> RemotePart:
    """What a replica on another machine samples its columns with, in memory of its own."""
    plan = replace(plan, memory=Memory())
    plan.begin(columns.start)
    own = range(columns.start, columns.stop)
    agent = plan.agent("cpu")
    whole = plan.window(agent, _short_ring)
    envs = plan.making(own, heart)
    answered = range(plan.making.total) if plan.run.sampler.strict else own
    sampler = plan.sampler(envs, agent, whole.part(columns), answered, heart)
    return RemotePart(sampler, agent, whole)


def collector(plan: Plan, context: Context, helpers: Any) -> Collector:
    """What collects in the background: with processes that were started to help it, or alone."""
    plan.begin(0)
    run, resolved = plan.run, plan.resolved
    limits = replace(run.sampler, on_worker_failure="raise")  # the main process begins all anew
    agent = plan.agent(plan.acting_device)
    window = plan.window(agent)
    if resolved.sampler == "ray":

        def watch() -> None:
            context.heart.tick()
            context.look()

        spec, own = plan.making.spec, run.sampler
        return Collector(
            RemoteSampler(
                _remote_crew(plan), spec, agent, window, own, None, watch, plan.first_resets
            ),
            agent,
        )
    if resolved.sampler == "replicated":
        staff = Lent(context, helpers)
        given = staff, plan.making.spec, agent, window, limits
        replicated = ReplicatedSampler(*given, first_resets=plan.first_resets)
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
    given = staff, plan.making.spec, agent, window, plan.run.sampler, check
    return ReplicatedSampler(*given, plan.first_resets)


def remote_sampler(
    plan: Plan, agent: Agent, window: Any, home: Home, check: Check
) -> RemoteSampler:
    """What the main process collects with by replicas on other machines."""
    spec = plan.making.spec
    given = _remote_crew(plan), spec, agent, window, plan.run.sampler, check
    return RemoteSampler(*given, first_resets=plan.first_resets)


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
    if resolved.sampler == "ray":
        _remote_crew(plan)  # says what is missing before anything is started
    link = Link(Memory(), options.max_lag)
    weights = Memory()
    published = Published(agent, weights)

    def helpers(processes: Processes) -> Any:
        if resolved.sampler == "replicated":
            return _crew(plan, agent, lambda: processes, Bell()).crew()
        if resolved.sampler == "workers":
            assert plan.memory is not None
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
    given = branch, agent, published, window, options, check, recorder
    return AsynchronousSampler(*given, plan.first_resets)


def _alone(plan: Plan) -> Any:
    """All environments in the process that calls this."""
    making, resolved = plan.making, plan.resolved
    how, groups = resolved.vectorization, resolved.groups
    given = making.options, making.spec, making.total, making.seeds, how, groups
    return environments(*given, drop=making.drop)


def _crew(
    plan: Plan, agent: Agent, processes: Callable[[], Processes], bell: Bell | None = None
) -> Hired:
    make = partial(replica_part, plan)
    return Hired(processes, make, agent, plan.making.total, plan.resolved.workers, bell)


def _remote_crew(plan: Plan) -> RemoteCrew:
    try:
        from rlpyt.processes.cluster import reach
        from rlpyt.samplers.ray_crew import RayCrew
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError(
            "sampler=ray needs Ray, which is not installed: pip install 'rlpyt[ray]'"
        ) from None
    reach(plan.ray_address)
    make = partial(remote_part, replace(plan, memory=None))
    limit = plan.run.sampler.env_step_timeout
    return RayCrew(plan.ray_address, make, plan.making.total, plan.resolved.workers, limit)


def _short_ring(example: Any, capacity: int, num_envs: int, horizon: int, **more: Any) -> Ring:
    """A ring of no more rows than one window needs, for who collects and does not replay."""
    least = 2 * horizon + more["frame_stack"] + more["state_interval"]
    given = {**more, "asynchronous": False}
    return Ring(example, min(capacity, least), num_envs, horizon, **given)


def _processes(home: Home) -> Callable[[], Processes]:
    return lambda: Processes(home.folder, preload=PRELOADED)
