"""Small agents of Q-value policy gradients and rows of chance, for tests of networks and agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.agents.continuous import make_agent
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    QValueOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.arrays import NamedArrayTuple, namedarraytuple, tree_leaves
from rlpyt.envs.spec import Box, Composite, Discrete, EnvSpec, Spec, example
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_networks, make_returns
from rlpyt.noise import ACTION_NOISE, Noise
from rlpyt.rows import Inputs

SHAPE, FEATURES = (2,), 3
D = int(np.prod(SHAPE))
SMALL: dict[str, Any] = {"hidden_sizes": (8, 7), "memory_size": 6}
ALGOS: dict[str, QValueOptions] = {
    "ddpg": DDPGOptions(),
    "ou": DDPGOptions(exploration="ou"),
    "td3": TD3Options(),
    "d4pg": D4PGOptions(num_atoms=11),
    "sac": SACOptions(),
    "redq": SACOptions(critics=5),
    "tqc": SACOptions(critics=3, values="quantile", num_quantiles=4),
}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shared": {"share_trunk": True, "encoder_sizes": (9,)},
    "lstm": {"memory": "lstm"},
    "gru": {"memory": "gru"},
    "lstm, shared": {"memory": "lstm", "share_trunk": True},
    "normed": {"layer_norm": True},
}


def numbers(*shape: int, bound: float = np.inf) -> Box:
    return Box(shape, "float32", np.full(shape, -bound), np.full(shape, bound))


def pixels(*shape: int) -> Box:
    return Box(shape, "uint8", np.zeros(shape), np.full(shape, 255.0), True)


def several() -> Composite:
    """An image, numbers and a choice."""
    parts = (pixels(10, 10), numbers(2), Discrete(3))
    return Composite(("image", "numbers", "choice"), ("image", "numbers", "choice"), parts, "dict")


def spec(observation: Spec | None = None, action: Spec | None = None) -> EnvSpec:
    return EnvSpec("Chance", observation or numbers(FEATURES), action or numbers(*SHAPE, bound=2.0))


def small_agent(
    algo: QValueOptions | None = None,
    *,
    observation: Spec | None = None,
    action: Spec | None = None,
    normalize: bool = False,
    precision: str = "float32",
    seed: int = 0,
    acts: bool = True,
    **model: Any,
) -> Any:
    """An agent whose targets are others than its trained networks.

    Args:
        acts: the warm-up is over.
    """
    algo = algo or DDPGOptions()
    torch.manual_seed(seed)
    env, returns = spec(observation, action), make_returns(algo)
    networks = make_networks(env, returns, algo, ActorQOptions(**{**SMALL, **model}))
    normalizer = ObservationNormalizer(example(env.observation)) if normalize else None
    agent = make_agent(env, networks, returns, algo, normalizer, precision)
    with torch.no_grad():
        for parameter in agent.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    if acts:
        agent.set_exploration(algo.warm_up)
    return agent


def chance(part: Spec, *leading: int) -> Any:
    """Values of chance of a specification, [*leading, ...]."""
    match part:
        case Box(shape, "uint8"):
            return torch.randint(256, (*leading, *shape), dtype=torch.uint8)
        case Box(shape):
            return torch.randn(*leading, *shape)
        case Discrete(n):
            return torch.randint(n, leading)
        case Composite():
            kind: type[NamedArrayTuple] = namedarraytuple("Composite", part.names)
            return kind(*(chance(p, *leading) for p in part.parts))
    raise TypeError(part)


def chance_inputs(agent: Any, *leading: int, observation: Spec | None = None, seed: int = 0) -> Any:
    """What the agent reads of rows of chance, [*leading, ...]."""
    torch.manual_seed(seed)
    given = {
        "reward": torch.randn(leading),
        "first": torch.rand(leading) < 0.2,
        "previous_action": 2 * torch.rand(*leading, *agent.action_shape) - 1,
    }
    read = {name: x for name, x in given.items() if name in agent.model.reads}
    return Inputs(chance(observation or numbers(FEATURES), *leading), **read)


def chance_action(agent: Any, *leading: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(*leading, *agent.action_shape, generator=generator) - 1


def noise_of(agent: Any, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    uniforms, normals = agent.uniforms, agent.normals
    return Noise(seed, ACTION_NOISE, range(columns), uniforms, normals).rows(0, rows)


def equal(one: Any, two: Any) -> bool:
    pairs = zip(tree_leaves(one), tree_leaves(two), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)
