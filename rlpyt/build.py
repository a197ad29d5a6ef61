"""From options to parts: the script that builds a run, as a user would by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from rlpyt import memory_budget, noise
from rlpyt.acting import TRAINING, Home
from rlpyt.acting import open_agent as open_agent
from rlpyt.agent_making import Agent as Agent
from rlpyt.agent_making import ModelFactory as ModelFactory
from rlpyt.agent_making import load_weights as load_weights
from rlpyt.agent_making import make_agent as make_agent
from rlpyt.agent_making import make_window as make_window
from rlpyt.agents.categorical import CategoricalAgent
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.a2c import A2C
from rlpyt.algos.appo import APPO
from rlpyt.algos.d4pg import D4PG
from rlpyt.algos.ddpg import DDPG
from rlpyt.algos.discrete_sac import DiscreteSAC
from rlpyt.algos.dqn import DQN
from rlpyt.algos.entry import Entry
from rlpyt.algos.impala import IMPALA
from rlpyt.algos.options import QLearningOptions, R2D1Options, ReplayOptions
from rlpyt.algos.ppo import PPO
from rlpyt.algos.q_value import QValueLearning
from rlpyt.algos.r2d1 import R2D1
from rlpyt.algos.sac import SAC
from rlpyt.algos.td3 import TD3
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.evaluation import Evaluator
from rlpyt.models.batch_norm import normalizes
from rlpyt.ranks import world
from rlpyt.remote import Plan, asynchronous_sampler, remote_sampler, replicated_sampler
from rlpyt.replays.mirrored import MirroredRing
from rlpyt.replays.pinned import PinnedRing
from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.replay import Replay
from rlpyt.replays.uniform import Uniform
from rlpyt.resolve import Resolved
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rows import example_row
from rlpyt.run import Run
from rlpyt.run_rows import make_rows
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import Memory

WINDOW_LEARNERS = {"ppo": PPO, "a2c": A2C, "impala": IMPALA, "appo": APPO}
ELSEWHERE = {"replicated": replicated_sampler, "ray": remote_sampler}  # rows are answered there
REPLAY_LEARNERS = {"dqn": DQN, "r2d1": R2D1, "ddpg": DDPG, "td3": TD3, "sac": SAC, "d4pg": D4PG}


@dataclass
class Parts:
    """What a run is made of."""

    spec: EnvSpec
    agent: Agent
    algorithm: PPO | A2C | IMPALA | APPO | DQN | R2D1 | DDPG | TD3 | SAC | DiscreteSAC | D4PG
    sampler: Sampler
    evaluator: Evaluator
    resolved: Resolved
    replay: Replay | None = None
    solved_return: float | None = None  # what the environment's registration calls solved
    home: Home = field(default_factory=Home)

    def close(self) -> None:
        try:
            self.sampler.close()
        finally:
            self.evaluator.close()


def build(
    run: Run,
    resolved: Resolved | None = None,
    *,
    model: ModelFactory | None = None,
    home: Home | None = None,
) -> Parts:
    """Make every part of a run.

    Args:
        run: the options.
        resolved: the choices of a run that is resumed; None makes them.
        model: makes the network for a specification, in place of the algorithm's own.
        home: of the run; None makes one.
    """
    opened = open_agent(run, resolved, model=model, home=home)
    spec, agent, resolved = opened.spec, opened.agent, opened.resolved
    _check_ranks(run, resolved, agent)
    memory = Memory() if resolved.sampler != "serial" or run.sampler.asynchronous else None
    replay, window, source = make_storage(run, spec, agent, resolved, memory)
    learner: Any = (WINDOW_LEARNERS | REPLAY_LEARNERS)[run.algo_name]
    if isinstance(agent, CategoricalAgent):
        learner = DiscreteSAC
    drawn, compiled = _generator(resolved.seed), resolved.compile
    algorithm = learner(agent, run.algo, source, run.schedule_steps, drawn, compiled)
    check = _finite(algorithm)
    sampler: Any
    if memory is not None and (run.sampler.asynchronous or resolved.sampler in ELSEWHERE):
        make = asynchronous_sampler if run.sampler.asynchronous else ELSEWHERE[resolved.sampler]
        plan = Plan.of(run, spec, resolved, model, memory)
        sampler = make(plan, agent, window, opened.home, check)
    else:
        sampler = opened.sampler(agent, window, TRAINING, check)
    return Parts(
        spec,
        agent,
        algorithm,
        sampler,
        opened.evaluator(check),
        resolved,
        replay,
        home=opened.home,
    )


def _check_ranks(run: Run, resolved: Resolved, agent: Agent) -> None:
    """Refuse what several ranks cannot do together."""
    if resolved.ranks == 1:
        return
    world().sum_(torch.zeros(1, device=resolved.device))  # a GPU's ranks meet at their first sum
    for name, device in (("device", run.loop.device), ("acting_device", run.sampler.acting_device)):
        if device.startswith("cuda:"):
            raise UsageError(
                f"{name}={device} with {resolved.ranks} ranks: each has the GPU of its number on "
                f"its machine; choose {name}=cuda"
            )
    if resolved.compile and not isinstance(run.algo, ReplayOptions):
        raise UsageError(
            f"compile=on with {resolved.ranks} ranks: the loss of {run.algo_name} normalizes "
            "advantages over all of them, which no compiled function can; choose --compile off"
        )
    if resolved.sampler == "ray":
        raise UsageError(
            f"sampler=ray with {resolved.ranks} ranks: each would ask the cluster for replicas of "
            "its own; choose another --sampler"
        )
    if resolved.compile and normalizes(agent.model):
        raise UsageError(
            f"compile=on with {resolved.ranks} ranks: batch_norm normalizes over the rows of all "
            "of them, which no compiled function can; choose --compile off"
        )
    if run.sampler.asynchronous and not isinstance(run.algo, ReplayOptions):
        raise UsageError(
            f"asynchronous with {resolved.ranks} ranks: {run.algo_name} learns once from each "
            "window, and ranks have not as many of them at a time; leave out --asynchronous"
        )
    if run.sampler.record_schedule or run.sampler.schedule:
        raise UsageError(
            f"a schedule with {resolved.ranks} ranks: it is of one process's windows; leave out "
            "--record-schedule and --schedule"
        )


def make_storage(
    run: Run, spec: EnvSpec, agent: Agent, resolved: Resolved, memory: Memory | None
) -> tuple[Replay | None, Any, Any]:
    """Where a run's rows go.

    Args:
        memory: shared, where other processes write rows.

    Returns:
        The replay, if it learns from one; the window that is collected into; and what the algorithm
        is made with, the replay or the number of environments.
    """
    algo, num_envs = run.algo, run.env.num_envs
    states = resolved.sampler in ELSEWHERE or run.sampler.asynchronous
    if not isinstance(algo, ReplayOptions):
        return None, make_rows(run, spec, agent, memory, states=states), num_envs
    assert not isinstance(agent, PolicyGradientAgent)
    row = example_row(spec, agent.example_kept())
    state = agent.kept_state(agent.model.initial_state(num_envs))
    per_row = memory_budget.row_bytes(row, state, algo.start_interval, algo.prioritized)
    if algo.replay_memory == "device" and agent.device.type == "cpu":  # the copy is here, too
        per_row += memory_budget.row_bytes(row, state, algo.start_interval)
    memory_budget.require(min(algo.replay_size, run.loop.env_steps), per_row)
    kind = ring_of(algo.replay_memory, agent.device)
    window = make_rows(run, spec, agent, memory, states=states, ring=kind)
    assert isinstance(window, RingWindow)
    replay = make_replay(run, agent, window.block.ring, resolved.seed)
    return replay, window, replay


def make_replay(run: Run, agent: Agent, ring: Ring, seed: int) -> Replay:
    """What draws from a run's ring."""
    algo = run.algo
    assert isinstance(algo, ReplayOptions)
    length, trained = algo.item_length, algo.trained
    selector: Uniform | Prioritized = Uniform(ring, length, trained)
    if algo.prioritized:
        entry = None
        if algo.priority_entry == "td":
            assert isinstance(agent, QLearningAgent)
            assert isinstance(algo, QLearningOptions)
            eta = algo.priority_eta if isinstance(algo, R2D1Options) else 1.0
            entry = Entry(ring, agent.returns, algo, trained, eta)
        unique = algo.priority_unique
        selector = Prioritized(
            ring,
            length,
            trained,
            algo.priority_alpha,
            unique=unique,
            needed=algo.batch_size if unique else 1,
            entry=entry,
        )
    generator = np.random.default_rng(noise.seed(seed, noise.REPLAY, world().rank))
    return Replay(ring, selector, algo.batch_size, length, generator)


def ring_of(memory: str, device: torch.device) -> Callable[..., Ring]:
    """What makes a ring that draws are read from in this memory (`replay_memory`)."""
    if memory == "host":
        return Ring
    if memory == "device":
        return partial(MirroredRing, device=device)
    if device.type == "cuda":
        return partial(PinnedRing, device=device)
    raise UsageError(
        f"replay_memory={memory} and device={device}: page-locked memory is for copies to a CUDA "
        "GPU; choose --replay-memory host, or --device cuda where there is one"
    )


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(noise.seed(seed, noise.LEARNER, world().rank) >> 1)


def _finite(algorithm: Any) -> Callable[[], None]:
    """What raises where a weight is not finite: the actor's, too, where critics have one."""
    if isinstance(algorithm, QValueLearning):
        return algorithm.assert_finite
    return algorithm.learner.parameters.assert_finite
