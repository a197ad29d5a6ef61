"""The agent of a run, as options or a user's networks make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt import noise
from rlpyt.agents.continuous import make_agent as make_q_value_agent
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import QLearningOptions, QValueOptions, R2D1Options, SACOptions
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.distributions import for_action
from rlpyt.envs.spec import Box, Discrete, EnvSpec, example, leaves
from rlpyt.errors import UsageError
from rlpyt.generators import seed_generators
from rlpyt.models import own
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.images import scale
from rlpyt.models.names import keep_plain
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.models.q_network import QNetwork
from rlpyt.models.q_value import make_networks
from rlpyt.models.q_value import make_returns as returns_of_critics
from rlpyt.resolve import Resolved
from rlpyt.returns import make as make_returns
from rlpyt.rows import Window, example_row
from rlpyt.run import Run
from rlpyt.storage import Memory

Agent = PolicyGradientAgent | QLearningAgent | QValueAgent
ModelFactory = Callable[[EnvSpec], Any]  # makes a Model as the algorithm's agent describes it


def make_agent(run: Run, spec: EnvSpec, seed: int, model: ModelFactory | None = None) -> Agent:
    """The agent as a run begins with it, on the CPU.

    The weights come from the seed alone, whichever generator a user's network draws from: not from
    how many cores draw them.
    """
    _check_defaults(spec)
    torch.set_num_threads(1)
    seed_generators(noise.seed(seed, noise.INITIAL_WEIGHTS))
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
        if model:
            _check_policy(spec, agent)
    keep_plain(agent)
    return agent


def _check_defaults(spec: EnvSpec) -> None:
    """Refuse what an environment, or the script, may have changed of PyTorch for all tensors."""
    if torch.get_default_dtype() != torch.float32:
        raise UsageError(
            f"torch.get_default_dtype() is {torch.get_default_dtype()}, by the environment "
            f"{spec.id} or the script, and networks compute in float32; have the environment give "
            "its tensors a dtype, in place of torch.set_default_dtype"
        )
    if torch.get_default_device().type != "cpu":
        raise UsageError(
            f"torch.get_default_device() is {torch.get_default_device()}, by the environment "
            f"{spec.id} or the script, and rows are collected in main memory; say where networks "
            "are by --device, in place of torch.set_default_device"
        )


@torch.no_grad()
def _check_policy(spec: EnvSpec, agent: PolicyGradientAgent) -> None:
    """Have a user's network answer one row."""
    network, state = agent.model, agent.model.initial_state(1)
    window = make_window(spec, agent, 1, 1, None, keeps=False)
    inputs = window.acting_inputs(0)
    own.answered(
        network,
        {"inputs": inputs, "state": state},
        lambda: network.policy(agent.read(inputs), state),
    )


def _make_q_value(
    run: Run, spec: EnvSpec, model: ModelFactory | None, normalizer: ObservationNormalizer | None
) -> QValueAgent:
    """An actor, critics of its actions, and their targets; a user's are `actor` and `critics`."""
    algo, options = run.algo, run.model
    assert isinstance(algo, QValueOptions)
    assert isinstance(options, ActorQOptions)
    returns = returns_of_critics(algo)
    _check_preset(run, spec)
    if model:
        networks = model(spec)
        own.check(networks, ("actor", "critics"), joint=True)  # each is looked over below
        actor, critics = networks.actor, networks.critics
        joint = bool(getattr(critics, "joint", False))
        own.check(actor, ("reads", "initial_state"), joint)
        own.check(critics, ("reads", "initial_state", "features"), joint)
    else:
        actor, critics = make_networks(spec, returns, algo, options)
    precision: Any = run.loop.precision
    agent = make_q_value_agent(spec, (actor, critics), returns, algo, normalizer, precision)
    if model:
        _check_networks(run, spec, agent)
    return agent


def _check_preset(run: Run, spec: EnvSpec) -> None:
    """Refuse numbers made for one Discrete choice, by the environment's id, for other actions."""
    kind = run.preset.partition("/discrete-")[2]
    if kind and not isinstance(spec.action, Discrete):
        raise UsageError(
            f"preset={run.preset} is of one Discrete choice, and the actions of {spec.id} are "
            f"{spec.action!r}; choose --preset {kind}"
        )


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
    output, _ = own.answered(
        agent.actor, {"inputs": inputs, "state": fed[0]}, lambda: agent.actor(inputs, fed[0])
    )
    own.check_shape(agent.actor, output.shape, (1, agent.outputs), "numbers [..., outputs]")
    action, choices, what = None, (), "returns [critics, ..., numbers]"
    if isinstance(spec.action, Discrete):
        choices, what = (spec.action.n,), "returns [critics, ..., actions, numbers]"
    else:
        action = torch.from_numpy(np.asarray(example(spec.action))[None]).to(agent.device)
    z, _ = own.answered(
        agent.critics, {"inputs": inputs, "state": fed[1]}, lambda: agent.z(inputs, fed[1], action)
    )
    wanted = (algo.critics, 1, *choices, agent.returns.outputs)
    own.check_shape(agent.critics, z.shape, wanted, what)
    if (count := _chosen(algo)) < algo.critics:
        chosen: Any = torch.arange(count) if isinstance(algo, SACOptions) else count
        z, _ = agent.z(inputs, fed[1], action, False, chosen)
        wanted = (count, *wanted[1:])
        own.check_shape(agent.critics, z.shape, wanted, "returns of the critics that are chosen")
    if getattr(agent.critics, "values_states", False):
        own.check(agent.critics, ("valued",), bool(getattr(agent.critics, "joint", False)))
        if agent.target_critics is None or agent.returns.outputs != 1:
            raise UsageError(
                f"{type(agent.critics).__name__} has values_states = True, and with it joint = "
                "True or returns that are distributions; choose one, and --values expected"
            )
        value = agent.state_value(inputs, fed[1])
        own.check_shape(agent.critics, value.shape, (1, 1), "state values [..., 1]")


def _chosen(algo: QValueOptions) -> int:
    """The fewest critics that an update asks: an actor of one action the first, REDQ some."""
    if not isinstance(algo, SACOptions):
        return 1
    return algo.critics if algo.values == "quantile" else algo.target_critics


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
    z, _ = own.answered(network, {"inputs": inputs, "state": state}, lambda: agent.z(inputs, state))
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
        what = str(error).splitlines()[-1].strip()
        raise UsageError(
            f"{source}: its network does not fit this run's; choose the algorithm, environment, "
            f"model options and --normalize-observation that it has ({what})"
        ) from None
