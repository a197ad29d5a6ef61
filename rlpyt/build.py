"""From options to parts: the script that builds a run, as a user would by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from rlpyt import memory_budget, noise
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.a2c import A2C
from rlpyt.algos.dqn import DQN
from rlpyt.algos.entry import Entry
from rlpyt.algos.options import QLearningOptions, R2D1Options, ReplayOptions
from rlpyt.algos.ppo import PPO
from rlpyt.algos.r2d1 import R2D1
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.distributions import for_action
from rlpyt.envs.make import probe
from rlpyt.envs.spec import Box, Discrete, EnvSpec, example, leaves
from rlpyt.errors import UsageError
from rlpyt.evaluation import Evaluator
from rlpyt.models import own
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.images import scale
from rlpyt.models.names import keep_plain
from rlpyt.models.options import ActorCriticOptions, QNetworkOptions
from rlpyt.models.q_network import QNetwork
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.replays.mirrored import MirroredRing
from rlpyt.replays.pinned import PinnedRing
from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.replay import Replay
from rlpyt.replays.uniform import Uniform
from rlpyt.resolve import Resolved, apply, draw_seed, resolve
from rlpyt.returns import make as make_returns
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Window, example_row, is_image
from rlpyt.run import Run
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import to_device
from rlpyt.vector.choose import environments

WINDOW_LEARNERS = {"ppo": PPO, "a2c": A2C}
REPLAY_LEARNERS = {"dqn": DQN, "r2d1": R2D1}
EVALUATION_ENVS = 8  # at most; an evaluation of fewer episodes has fewer
EVALUATION_HORIZON = 16  # rows between looks at who is done

Agent = PolicyGradientAgent | QLearningAgent
ModelFactory = Callable[[EnvSpec], Any]  # makes a Model as the algorithm's agent describes it


@dataclass
class Parts:
    """What a run is made of."""

    spec: EnvSpec
    agent: Agent
    algorithm: PPO | A2C | DQN | R2D1
    sampler: Sampler
    evaluator: Evaluator
    resolved: Resolved
    replay: Replay | None = None
    solved_return: float | None = None  # what the environment's registration calls solved

    def close(self) -> None:
        self.sampler.envs.close()
        self.evaluator.close()


def build(
    run: Run,
    resolved: Resolved | None = None,
    *,
    model: ModelFactory | None = None,
) -> Parts:
    """Make every part of a run.

    Args:
        run: the options.
        resolved: the choices of a run that is resumed; None makes them.
        model: makes the network for a specification, in place of the algorithm's own.
    """
    seed = resolved.seed if resolved else draw_seed(run)
    spec = probe(run.env)
    agent = make_agent(run, spec, seed, model)
    parameters = sum(parameter.numel() for parameter in agent.model.parameters())
    images = any(is_image(x, leading=0) for x in tree_leaves(example(spec.observation)))
    resolved = resolved or resolve(run, seed, parameters, images)
    apply(resolved)
    agent.to_device(torch.device(resolved.device))
    num_envs, generator = run.env.num_envs, _generator(seed)
    if isinstance(run.algo, ReplayOptions):
        replay = make_replay(run, spec, agent, seed)
        window = RingWindow(replay.ring.blocks[0], agent.model.initial_state(num_envs))
        learner = REPLAY_LEARNERS[run.algo_name]
        source: Any = replay
    else:
        replay = None
        window = make_window(spec, agent, run.algo.horizon, num_envs, run.algo.state_interval)
        learner = WINDOW_LEARNERS[run.algo_name]
        source = num_envs
    algorithm: Any = learner(
        agent, run.algo, source, run.schedule_steps, generator, resolved.compile
    )
    check = algorithm.learner.parameters.assert_finite
    strict, how = run.env.strict_bounds, resolved.vectorization

    def envs(count: int, role: int) -> Any:
        return environments(run.env, spec, count, ResetSeeds(seed, role), how)

    def noise_of(actor: Any, count: int, stream: int) -> Noise:
        return Noise(seed, stream, range(count), actor.uniforms, actor.normals)

    def evaluation() -> Sampler:
        loop, actor = run.loop, agent.evaluation(run.loop.eval_stochastic)
        count = max(1, min(EVALUATION_ENVS, loop.eval_episodes))
        random = loop.eval_stochastic or getattr(run.algo, "eval_epsilon", 0.0) > 0
        drawn = noise_of(actor, count, noise.EVALUATION_NOISE) if random else None
        own = envs(count, noise.EVALUATION_RESETS)
        own_window = make_window(spec, agent, EVALUATION_HORIZON, count, None, keeps=False)
        return Sampler(own, actor, own_window, drawn, strict_bounds=strict, check=check)

    training = envs(num_envs, noise.TRAINING_RESETS)
    drawn = noise_of(agent, num_envs, noise.ACTION_NOISE)
    return Parts(
        spec,
        agent,
        algorithm,
        Sampler(training, agent, window, drawn, strict_bounds=strict, check=check),
        Evaluator(evaluation, run.loop.eval_episodes, run.loop.eval_max_steps),
        resolved,
        replay,
    )


def make_agent(run: Run, spec: EnvSpec, seed: int, model: ModelFactory | None = None) -> Agent:
    """The agent as a run begins with it, on the CPU.

    The weights come from the seed alone: not from how many cores draw them.
    """
    torch.set_num_threads(1)
    torch.manual_seed(noise.seed(seed, noise.INITIAL_WEIGHTS) >> 1)
    normalizer = None
    if run.algo.normalize_observation:
        boxes = [leaf for _, leaf in leaves(spec.observation)]
        scaled = [isinstance(box, Box) and scale(box) != 1 for box in boxes]
        normalizer = ObservationNormalizer(example(spec.observation), scaled)
    precision: Any = run.loop.precision
    if isinstance(run.algo, QLearningOptions):
        returns = make_returns(run.algo)
        assert isinstance(run.model, QNetworkOptions)
        network: Any = model(spec) if model else QNetwork(spec, returns, run.model)
        own.check(network, ("reads", "initial_state", "noise"))
        num_envs = run.env.num_envs
        agent: Agent = QLearningAgent(network, returns, num_envs, run.algo, normalizer, precision)
        if model:
            _check_values(run, spec, agent)
    else:
        distribution = for_action(spec.action)
        assert isinstance(run.model, ActorCriticOptions)
        network = model(spec) if model else ActorCritic(spec, distribution, run.model)
        own.check(network, ("reads", "initial_state", "policy"))
        agent = PolicyGradientAgent(network, distribution, normalizer, precision)
    keep_plain(agent)
    return agent


@torch.no_grad()
def _check_values(run: Run, spec: EnvSpec, agent: QLearningAgent) -> None:
    """Have a user's network answer one row: whether it fits shows now."""
    network = agent.model
    state = network.initial_state(1)
    if tree_leaves(state) and not isinstance(run.algo, R2D1Options):
        raise UsageError(
            f"the network {type(network).__name__} has a memory, and {run.algo_name} learns from "
            "single transitions; choose r2d1, which learns from sequences"
        )
    if not isinstance(spec.action, Discrete):
        raise UsageError(f"{run.algo_name} needs one Discrete choice; the space is {spec.action}")
    window = make_window(spec, agent, 1, 1, None, keeps=False)
    inputs = agent.read(window.acting_inputs(0))
    if tree_leaves(state):
        inputs = tree_map(lambda x: x[None], inputs)  # [T, B, ...]
    z, _ = agent.z(inputs, state)
    greedy = agent.returns.greedy_fractions()
    numbers = agent.returns.outputs if greedy is None else len(greedy)
    wanted = (*z.shape[:-2], spec.action.n, numbers)
    own.check_shape(network, z.shape, wanted, "returns [..., actions, numbers]")


def make_window(
    spec: EnvSpec,
    agent: Agent,
    horizon: int,
    num_envs: int,
    state_interval: int | None,
    keeps: bool = True,
) -> Window:
    """A window for an agent's rows.

    Args:
        keeps: whether what the agent keeps beside its actions is written down.
    """
    return Window(
        example_row(spec, agent.example_kept() if keeps else ()),
        horizon,
        num_envs,
        reads=agent.model.reads,
        frame_stack=spec.frame_stack,
        state=agent.model.initial_state(num_envs),
        state_interval=state_interval,
    )


def make_replay(run: Run, spec: EnvSpec, agent: Agent, seed: int) -> Replay:
    """An empty replay for a run's rows."""
    algo, num_envs = run.algo, run.env.num_envs
    assert isinstance(algo, ReplayOptions)
    row, state = example_row(spec, agent.example_kept()), agent.model.initial_state(num_envs)
    per_row = memory_budget.row_bytes(row, state, algo.start_interval, algo.prioritized)
    memory_budget.require(min(algo.replay_size, run.loop.env_steps), per_row)
    ring = ring_of(algo.replay_memory, agent.device)(
        row,
        algo.replay_size // num_envs,
        num_envs,
        algo.horizon,
        reads=agent.model.reads,
        frame_stack=spec.frame_stack,
        state=to_device(state, "cpu"),
        state_interval=algo.start_interval,
    )
    length, trained = algo.item_length, algo.trained
    selector: Uniform | Prioritized = Uniform(ring, length, trained)
    if algo.prioritized:
        entry = None
        if algo.priority_entry == "td":
            assert isinstance(agent, QLearningAgent)
            assert isinstance(algo, QLearningOptions)
            eta = algo.priority_eta if isinstance(algo, R2D1Options) else 1.0
            entry = Entry(ring, agent.returns, algo, trained, eta)
        selector = Prioritized(ring, length, trained, algo.priority_alpha, entry=entry)
    generator = np.random.default_rng(noise.seed(seed, noise.REPLAY))
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
    return torch.Generator().manual_seed(noise.seed(seed, noise.LEARNER) >> 1)


def load_weights(agent: Agent, state: dict[str, Any], source: str) -> None:
    """Take up an agent's weights and normalizers.

    Args:
        source: where they come from, for the message if they do not fit.
    """
    try:
        agent.load_state_dict(state)
    except RuntimeError as error:
        raise UsageError(
            f"{source}: its network does not fit this run's; choose the same environment and model "
            f"options ({str(error).splitlines()[-1].strip()})"
        ) from None
