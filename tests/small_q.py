"""Small agents of Q-learning and rows of chance, for the tests of agents and algorithms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from rlpyt import returns
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.q_learning import Draw, QLearningAgent
from rlpyt.algos.options import DQNOptions, QLearningOptions, R2D1Options
from rlpyt.algos.r2d1 import R2D1
from rlpyt.algos.replay_learning import Items, items_of
from rlpyt.envs.spec import Box, Discrete, EnvSpec, example
from rlpyt.functional.q_values import masked_q
from rlpyt.models.options import QNetworkOptions
from rlpyt.models.q_network import QNetwork
from rlpyt.replays.drawn import Drawn
from rlpyt.rows import Inputs, Row, Window

ACTIONS, FEATURES = 4, 3
SMALL = {"hidden_sizes": (8,), "memory_size": 6}
FEW = {"num_atoms": 11, "num_quantiles": 7, "num_fractions": 5, "greedy_fractions": 3}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dueling": {"dueling": True, "head_sizes": (5,)},
    "noisy": {"noisy": True, "head_sizes": (5,)},
    "lstm": {"memory": "lstm"},
    "gru": {"memory": "gru"},
}
LARGEST = 1 - 2.0**-24  # of the uniform numbers that noise and torch draw


def spec(*, mask: bool = False, actions: int = ACTIONS) -> EnvSpec:
    bounds = np.full((FEATURES,), np.inf)
    observation = Box((FEATURES,), "float32", -bounds, bounds)
    how: Any = {"mask": "info", "mask_size": actions} if mask else {}
    return EnvSpec("Chance", observation, Discrete(actions), **how)


def small_agent(
    options: QLearningOptions | None = None,
    *,
    num_envs: int = 5,
    mask: bool = False,
    normalize: bool = False,
    precision: str = "float32",
    seed: int = 0,
    **model: Any,
) -> QLearningAgent:
    """An agent whose target network is another than its trained one."""
    options = options or DQNOptions()
    torch.manual_seed(seed)
    meaning, env = returns.make(options), spec(mask=mask)
    network = QNetwork(env, meaning, QNetworkOptions(**{**SMALL, **model}))
    normalizer = ObservationNormalizer(example(env.observation)) if normalize else None
    agent = QLearningAgent(network, meaning, num_envs, options, normalizer, precision)
    with torch.no_grad():
        for parameter in (*agent.model.parameters(), *agent.target.parameters()):
            if parameter.dim() > 1:  # not biases, by which one action would always be the best
                parameter.add_(0.7 * torch.randn_like(parameter))
    return agent


def chance_inputs(
    agent: QLearningAgent, *leading: int, mask: bool = False, seed: int = 0
) -> Inputs:
    """What the agent reads of rows of chance, [*leading, ...]."""
    torch.manual_seed(seed)
    allowed = torch.rand(*leading, ACTIONS) < 0.5
    allowed[..., -1] |= ~allowed.any(-1)
    given = {
        "reward": torch.randn(leading),
        "first": torch.rand(leading) < 0.2,
        "previous_action": torch.randint(ACTIONS, leading),
    }
    read = {name: x for name, x in given.items() if name in agent.model.reads}
    return Inputs(3 * torch.randn(*leading, FEATURES), mask=allowed if mask else None, **read)


def fill_with_chance(rows: Row, seed: int = 0, end: float = 0.2) -> None:
    """Write rows [n, B] as environments and an agent would, episodes ending by chance.

    Half of the endings are terminations, a few are both. A mask allows one action at least, but on
    a final row it may allow none.
    """
    draw = np.random.default_rng(seed)
    leading = rows.reward.shape
    rows.observation[:] = draw.normal(size=rows.observation.shape)
    ending = draw.random(leading)
    rows.terminated[:] = ending < 0.6 * end
    rows.truncated[:] = (0.5 * end < ending) & (ending < end)
    rows.first[1:] = rows.last[:-1]
    rows.cut[:] = False
    rows.reward[:] = np.where(rows.first, 0.0, 3 * draw.normal(size=leading))
    if rows.action.dtype.kind == "f":
        rows.action[:] = draw.uniform(-1.0, 1.0, size=rows.action.shape)
    else:
        rows.action[:] = draw.integers(ACTIONS, size=leading)
    if rows.mask is not None:
        rows.mask[:] = draw.random(rows.mask.shape) < 0.5
        rows.mask[..., 0] |= ~rows.mask.any(-1)
        rows.mask[rows.last & (draw.random(leading) < 0.5)] = False
    if rows.info != ():
        for kept in rows.info:
            kept[:] = draw.normal(size=leading)


def items(window: Window) -> Items:
    """A window as a draw of its columns."""
    return items_of(window, torch.device("cpu"))


class OneWindow:
    """A replay whose draws are one window, over and over."""

    ready, rows = True, 1000
    ring = SimpleNamespace(capacity=1000, num_envs=1)

    def __init__(self, window: Window, weights: np.ndarray | None = None) -> None:
        self.window, self.weights = window, weights
        self.updated: list[np.ndarray] = []
        self.betas: list[float] = []

    def draw(self, beta: float = 1.0) -> Drawn:
        self.betas.append(beta)
        columns = np.arange(self.window.num_envs)
        return Drawn(np.zeros_like(columns), columns, self.weights)

    def update(self, drawn: Drawn, error: np.ndarray) -> None:
        self.updated.append(error)


def learner_of_sequences(
    agent: QLearningAgent, options: R2D1Options, window: Window, **replay: Any
) -> tuple[R2D1, OneWindow]:
    drawn = OneWindow(window, **replay)
    made: Any = R2D1(agent, options, drawn, 1000, torch.Generator().manual_seed(0))
    return made, drawn


def exploring(epsilon: float, **options: Any) -> QLearningOptions:
    """Options under which epsilon is the same at every step."""
    return DQNOptions(epsilon_start=epsilon, epsilon_end=epsilon, **options)


def greedy_of(agent: QLearningAgent, inputs: Inputs, state: Any) -> torch.Tensor:
    """The allowed actions of greatest value, by the agent's own values."""
    z, _ = agent.z(agent.read(inputs), state)
    return masked_q(agent.returns.value(z), inputs.mask).argmax(-1)


def noise_of(agent: QLearningAgent, batch: int, u0: float, u1: float = 0.5) -> torch.Tensor:
    """The same uniform numbers in every column, [batch, 2 + normals]; normal ones are 0."""
    uniforms = torch.tensor([u0, u1]).expand(batch, 2)
    return torch.cat([uniforms, torch.zeros(batch, agent.normals)], -1)


def draw_of(actor: Any, noise: torch.Tensor) -> Draw | None:
    """What an actor takes at a row with this noise, [B, 2 + normals]."""
    return actor.draws(noise[None].numpy())[0]
