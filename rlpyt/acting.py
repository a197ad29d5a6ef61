"""What a run acts with: a specification, an agent, environments to evaluate it in.

A saved agent is opened with these alone; `build` adds what trains it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt import noise, ranks
from rlpyt.agents.continuous import make_agent as make_q_value_agent
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import QLearningOptions, QValueOptions, R2D1Options
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.cores import allowed_cores
from rlpyt.distributions import for_action
from rlpyt.envs.make import probe
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import Box, Discrete, EnvSpec, example, leaves
from rlpyt.errors import UsageError
from rlpyt.evaluation import Evaluator
from rlpyt.models import own
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.flat import FlatParameters
from rlpyt.models.images import scale
from rlpyt.models.names import keep_plain
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.models.q_network import QNetwork
from rlpyt.models.q_value import make_networks
from rlpyt.models.q_value import make_returns as returns_of_critics
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.processes.heart import Heart
from rlpyt.processes.start import Processes
from rlpyt.resolve import Resolved, apply, draw_seed, resolve
from rlpyt.returns import make as make_returns
from rlpyt.rows import Window, example_row, is_image
from rlpyt.run import Run
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import Memory
from rlpyt.vector.choose import environments
from rlpyt.vector.making import Making, registered_here
from rlpyt.vector.staff import PRELOADED, Hired
from rlpyt.vector.watchdog import Watchdog
from rlpyt.vector.workers import WorkerEnvironments

TRAINING = (noise.TRAINING_RESETS, noise.ACTION_NOISE)
EVALUATION = (noise.EVALUATION_RESETS, noise.EVALUATION_NOISE)
EVALUATION_ENVS = 8  # at most; an evaluation of fewer episodes has fewer
EVALUATION_HORIZON = 16  # rows between looks at who is done

Agent = PolicyGradientAgent | QLearningAgent | QValueAgent
ModelFactory = Callable[[EnvSpec], Any]  # makes a Model as the algorithm's agent describes it
Check = Callable[[], None]  # raises where the agent's weights are not finite


@dataclass
class Home:
    """What a run's processes need to know of it once it has begun.

    Attributes:
        folder: of the run, once there is one: stacks are written there.
        tell: shows a line to the user.
        watchdog: of environments that this process steps; None: nobody watches them.
        start_timeout: seconds that making one here may take, before this process is ended; 0: any.
    """

    folder: Path | None = None
    tell: Callable[[str], object] = warnings.warn
    watchdog: Watchdog | None = None
    start_timeout: float = 0.0

    def making(self) -> AbstractContextManager[object]:
        """To be entered where this process makes environments of the run."""
        if not self.start_timeout:
            return nullcontext()
        heart = self.watchdog.heart if self.watchdog else Heart(np.zeros(8, np.int64))
        return Watchdog(self.start_timeout, heart)


@dataclass(frozen=True)
class Opened:
    """A run's agent and what it acts in; nothing that trains it."""

    run: Run
    spec: EnvSpec
    agent: Agent  # on its device
    resolved: Resolved
    home: Home = field(default_factory=Home)

    def sampler(
        self, actor: Any, window: Any, roles: tuple[int, int], check: Check, noisy: bool = True
    ) -> Sampler:
        """What collects into a window, in environments of its own.

        Args:
            actor: answers the rows.
            window: in shared memory where processes step the environments.
            roles: streams of `noise`, of resets and of actions.
            noisy: False has the actor answer greedily.
        """
        resets, actions = roles
        resolved, count = self.resolved, window.num_envs
        envs = self._environments(window, resolved.resets(resets, self.run.env.num_envs))
        columns = resolved.columns(count) if actions == noise.ACTION_NOISE else range(count)
        drawn = None
        if noisy:
            drawn = Noise(resolved.seed, actions, columns, actor.uniforms, actor.normals)
        return Sampler(
            envs,
            actor,
            window,
            drawn,
            strict=self.run.sampler.strict,
            strict_bounds=self.run.env.strict_bounds,
            check=check,
            threads=self._acting_threads(),
        )

    def _acting_threads(self) -> int | None:
        """Where groups take turns, workers are at work meanwhile: the cores are shared."""
        resolved = self.resolved
        if resolved.sampler != "workers" or resolved.groups == 1:
            return None
        return max(1, min(resolved.threads, allowed_cores() - resolved.workers))

    def _environments(self, window: Any, seeds: ResetSeeds) -> Any:
        """Environments for the columns of a window: here, or in processes of their own."""
        resolved, env = self.resolved, self.run.env
        groups = resolved.groups if seeds.role == noise.TRAINING_RESETS else 1
        count, training = window.num_envs, seeds.role == noise.TRAINING_RESETS
        if window.memory is None:
            how, watchdog = resolved.vectorization, self.home.watchdog
            with self.home.making() if training else nullcontext():
                return environments(env, self.spec, count, seeds, how, groups, watchdog)
        limits = self.run.sampler
        if not training:  # it fails as a whole, and is made anew
            limits = replace(limits, on_worker_failure="raise")
        staff = Hired(
            lambda: Processes(self.home.folder, preload=PRELOADED),
            Making(env, self.spec, seeds, count, registered_here()),
            window.places,
            window.memory,
            min(resolved.workers, count),
            groups,
            name="worker" if training else "evaluation worker",
        )
        return WorkerEnvironments(staff, window, limits, self.home.tell)

    def evaluator(self, check: Check | None = None) -> Evaluator:
        """What plays the run's evaluations; its environments are made when they are needed.

        Args:
            check: the learner's; None makes one of the model's parameters.
        """
        loop, looks = self.run.loop, check or FlatParameters(self.agent.model).assert_finite
        return Evaluator(
            lambda: self._evaluation_sampler(looks), loop.eval_episodes, loop.eval_max_steps
        )

    def _evaluation_sampler(self, check: Check) -> Sampler:
        loop, algo = self.run.loop, self.run.algo
        count = max(1, min(EVALUATION_ENVS, loop.eval_episodes))
        noisy = loop.eval_stochastic or getattr(algo, "eval_epsilon", 0.0) > 0
        memory = None if self.resolved.sampler in ("serial", "ray") else Memory()
        window = make_window(
            self.spec, self.agent, EVALUATION_HORIZON, count, None, keeps=False, memory=memory
        )
        actor = self.agent.evaluation(loop.eval_stochastic)
        return self.sampler(actor, window, EVALUATION, check, noisy)


def open_agent(
    run: Run,
    resolved: Resolved | None = None,
    *,
    model: ModelFactory | None = None,
    home: Home | None = None,
) -> Opened:
    """The agent of a run as it begins, on its device, and the choices that the run left open.

    Args:
        run: the options.
        resolved: the choices of a run that is resumed; None makes them.
        model: makes the network for a specification, in place of the algorithm's own.
        home: of the run; None makes one.
    """
    world, home = ranks.world(), home or Home()
    seed = resolved.seed if resolved else world.from_first(lambda: draw_seed(run))
    with home.making():
        spec = probe(run.env)
    agent = make_agent(run, spec, seed, model)
    parameters = sum(parameter.numel() for parameter in agent.model.parameters())
    if resolved is None:
        images = _has_images(spec)
        resolved = world.from_first(lambda: resolve(run, seed, parameters, images))
    resolved = resolved.of_rank(world)
    if world.size > 1 and resolved.device.startswith("cuda"):
        torch.cuda.set_device(resolved.device)  # before anything of the GPU is touched
    apply(resolved)
    agent.to_device(torch.device(resolved.device))
    share_exploration(agent, resolved, run.env.num_envs)
    return Opened(run, spec, agent, resolved, home)


def observes_images(options: EnvOptions, home: Home) -> bool:
    """Whether an environment observes any image."""
    with home.making():
        return _has_images(probe(options))


def _has_images(spec: EnvSpec) -> bool:
    return any(is_image(x, leading=0) for x in tree_leaves(example(spec.observation)))


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
    elif isinstance(run.algo, QValueOptions):
        agent = _make_q_value(run, spec, model, normalizer)
    else:
        distribution = for_action(spec.action)
        assert isinstance(run.model, ActorCriticOptions)
        network = model(spec) if model else ActorCritic(spec, distribution, run.model)
        own.check(network, ("reads", "initial_state", "policy"))
        behaviour = run.algo.asynchronous_rows == "window"
        agent = PolicyGradientAgent(network, distribution, normalizer, precision, behaviour)
    keep_plain(agent)
    return agent


def _make_q_value(
    run: Run, spec: EnvSpec, model: ModelFactory | None, normalizer: ObservationNormalizer | None
) -> QValueAgent:
    """An actor, critics of its actions, and their targets; a user's are `actor` and `critics`."""
    algo, options = run.algo, run.model
    assert isinstance(algo, QValueOptions)
    assert isinstance(options, ActorQOptions)
    returns = returns_of_critics(algo)
    if model:
        networks = model(spec)
        own.check(networks, ("actor", "critics"))
        actor, critics = networks.actor, networks.critics
        own.check(actor, ("reads", "initial_state"))
        own.check(critics, ("reads", "initial_state", "features"))
    else:
        actor, critics = make_networks(spec, returns, algo, options)
    precision: Any = run.loop.precision
    agent = make_q_value_agent(spec, (actor, critics), returns, algo, normalizer, precision)
    if model:
        _check_networks(run, spec, agent)
    return agent


@torch.no_grad()
def _check_networks(run: Run, spec: EnvSpec, agent: QValueAgent) -> None:
    """Have a user's actor and critics answer one row: whether they fit shows now."""
    algo, state = run.algo, agent.model.initial_state(1)
    assert isinstance(algo, QValueOptions)
    if tree_leaves(agent.states(state)) and len(algo.trained) == 1:
        raise UsageError(
            f"the networks have a memory, and train_rows={algo.train_rows}: of single transitions "
            "it learns nothing; choose sequences, such as --burn-in 10 --train-rows 20"
        )
    window = make_window(spec, agent, 1, 1, None, keeps=False)
    inputs, fed = agent.read(window.acting_inputs(0)), agent.states(state)
    output, _ = agent.actor(inputs, fed[0])
    own.check_shape(agent.actor, output.shape, (1, agent.outputs), "numbers [..., outputs]")
    action = torch.from_numpy(np.asarray(example(spec.action))[None]).to(agent.device)
    z, _ = agent.z(inputs, fed[1], action)
    wanted = (algo.critics, 1, agent.returns.outputs)
    own.check_shape(agent.critics, z.shape, wanted, "returns [critics, ..., numbers]")


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
    memory: Memory | None = None,
    state_memory: Memory | None = None,
) -> Window:
    """A window for an agent's rows.

    Args:
        keeps: whether what the agent keeps beside its actions is written down.
        memory, state_memory: shared, for the rows, and for the states.
    """
    return Window(
        example_row(spec, agent.example_kept() if keeps else ()),
        horizon,
        num_envs,
        reads=agent.model.reads,
        frame_stack=spec.frame_stack,
        state=agent.model.initial_state(num_envs),
        state_interval=state_interval,
        memory=memory,
        state_memory=state_memory,
    )


def share_exploration(agent: Agent, resolved: Resolved, num_envs: int) -> None:
    """Where environments explore each in its own way, those of all ranks share the ways."""
    if isinstance(agent, QLearningAgent):
        agent.share(resolved.ranks * num_envs, resolved.columns(num_envs))


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
