"""Small actors and critics and rows of chance, for the tests of Q-value policy gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from small_q import FEATURES, OneWindow, fill_with_chance, items
from small_q import spec as discrete_spec
from torch import Tensor

from rlpyt.agents.continuous import DeterministicAgent, SquashedAgent, make_agent
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.d4pg import D4PG
from rlpyt.algos.ddpg import DDPG
from rlpyt.algos.discrete_sac import DiscreteSAC
from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    QValueOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.algos.q_value import Draws, QValueLearning
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.sac import SAC
from rlpyt.algos.td3 import TD3
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.spec import Box, EnvSpec, example
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_networks, make_returns
from rlpyt.rows import Window, example_row

SIZE = 2
"""Dimensions of an action."""

FEW: dict[str, Any] = {"num_atoms": 11, "num_quantiles": 5}
ALGORITHMS: dict[type[QValueOptions], type[QValueLearning]] = {
    DDPGOptions: DDPG,
    TD3Options: TD3,
    SACOptions: SAC,
    D4PGOptions: D4PG,
}


def spec() -> EnvSpec:
    bounds = np.full((FEATURES,), np.inf)
    action = Box((SIZE,), "float32", np.array([-2.0, 0.0]), np.array([1.0, 5.0]))
    return EnvSpec("Chance", Box((FEATURES,), "float32", -bounds, bounds), action)


def discrete_learner(
    options: SACOptions, window: Window, agent: Any = None, **model: Any
) -> DiscreteSAC:
    """Soft actor-critic of one Discrete choice, and draws of one window over and over."""
    agent = agent or small_discrete_agent(options, **model)
    replay: Any = OneWindow(window)
    return DiscreteSAC(agent, options, replay, 1000, torch.Generator().manual_seed(0))


def small_discrete_agent(options: SACOptions, *, seed: int = 0, **model: Any) -> Any:
    torch.manual_seed(seed)
    env, meaning = discrete_spec(), make_returns(options)
    networks = make_networks(env, meaning, options, ActorQOptions(hidden_sizes=(8,), **model))
    return make_agent(env, networks, meaning, options)


def small_agent(
    options: QValueOptions, *, normalize: bool = False, seed: int = 0, **model: Any
) -> QValueAgent:
    """An agent whose targets are others than its trained networks."""
    torch.manual_seed(seed)
    env, meaning = spec(), make_returns(options)
    small: dict[str, Any] = {"hidden_sizes": (8,), "memory_size": 6, **model}
    actor, critics = make_networks(env, meaning, options, ActorQOptions(**small))
    normalizer = ObservationNormalizer(example(env.observation)) if normalize else None
    kind = SquashedAgent if isinstance(options, SACOptions) else DeterministicAgent
    agent = kind(env, actor, critics, meaning, options, normalizer)
    with torch.no_grad():
        for parameter in agent.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.5 * torch.randn_like(parameter))
    return agent


def chance_window(
    agent: QValueAgent,
    options: QValueOptions,
    *,
    columns: int = 16,
    seed: int = 0,
    end: float = 0.3,
    discrete: bool = False,
) -> Window:
    """Items of chance with states of chance, as a draw from the replay gives them.

    Of an item with one trained row, a transition, that row is live.
    """
    window = Window(
        example_row(discrete_spec() if discrete else spec()),
        options.item_length - 1,
        columns,
        reads=agent.model.reads,
        state=agent.model.initial_state(columns),
    )
    fill_with_chance(window.storage, seed, end)
    torch.manual_seed(seed)
    tree_map(lambda x: x.copy_(torch.randn_like(x)), window.states)
    if len(options.trained) == 1:
        row = options.trained.start
        window.rows.terminated[row] = window.rows.truncated[row] = False
        window.rows.first[row + 1] = False
        window.rows.reward[row + 1] = np.random.default_rng(seed).normal(size=columns)
    return window


def learner(
    options: QValueOptions,
    window: Window | None = None,
    agent: QValueAgent | None = None,
    *,
    weights: np.ndarray | None = None,
    compile: bool = False,
    **given: Any,
) -> tuple[Any, OneWindow]:
    """An algorithm, and the replay whose draws are one window over and over."""
    agent = agent or small_agent(options, **given)
    replay: Any = OneWindow(window or chance_window(agent, options), weights)
    kind = ALGORITHMS[type(options)]
    generator = torch.Generator().manual_seed(0)
    return kind(agent, options, replay, 1000, generator, compile), replay


def drawn(algorithm: QValueLearning, replay: OneWindow) -> tuple[Batch, Draws]:
    """What the losses of an update are of."""
    given = items(replay.window)
    return algorithm.read(given), algorithm.draw(given)


def everything(algorithm: QValueLearning) -> list[Tensor]:
    """Copies of all that an update changes, the replay's own left out."""
    algorithm.replay.state = dict
    state = {"agent": dict(algorithm.agent.state_dict()), "algorithm": algorithm.state()}
    return [torch.as_tensor(leaf).clone() for leaf in tree_leaves(state)]


def gradients(algorithm: Any, loss: Tensor) -> dict[str, Tensor]:
    """The flat gradient of every network, by name."""
    flats = {
        "critics": algorithm.learner.parameters,
        "actor": algorithm.actor_learner.parameters,
        **{f"target {k}": target.parameters for k, target in enumerate(algorithm.targets)},
    }
    for flat in flats.values():
        flat.zero_grad()
    loss.backward()
    return {name: flat.gradient.clone() for name, flat in flats.items()}
