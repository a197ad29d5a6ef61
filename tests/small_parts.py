"""Built parts for the tests of agents and algorithms, and an environment of chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlpyt.algos.appo import APPO
from rlpyt.algos.impala import IMPALA
from rlpyt.algos.options import PPOOptions
from rlpyt.algos.windows import Sample, fold
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.rows import Row, Window
from rlpyt.run import ALGORITHMS, LoopOptions, Run

SMALL = {"hidden_sizes": (8,), "memory_size": 8}

MODELS: dict[str, dict[str, Any]] = {
    "feed-forward": {},
    "feed-forward-shared": {"share_trunk": True},
    "lstm": {"memory": "lstm"},
    "lstm-shared": {"memory": "lstm", "share_trunk": True},
    "gru": {"memory": "gru"},
    "gru-shared": {"memory": "gru", "share_trunk": True},
}


class ChanceEnv(gymnasium.Env):
    """Observations and rewards are drawn; an episode is terminated or truncated by chance.

    The reward also depends on the action, so that there is something to learn.
    """

    def __init__(self, action: spaces.Space | None = None, end: float = 0.25) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,))
        self.action_space = action or spaces.Discrete(3)
        self.end = end

    def _observation(self) -> np.ndarray:
        return self.np_random.normal(size=3).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        reward = float(self.np_random.normal() + np.sum(action))
        kind = self.np_random.random()
        terminated, truncated = kind < self.end / 2, self.end / 2 <= kind < self.end
        return self._observation(), reward, bool(terminated), bool(truncated), {}


def run_of(num_envs: int, memory: Any = "none", env: str = "CartPole-v1", **options: Any) -> Run:
    """A run of PPO in windows of 5 rows, of which each is a minibatch; nothing is evaluated."""
    algo = PPOOptions(horizon=5, minibatch_size=5, **options)
    loop = LoopOptions(seed=7, eval_episodes=0)
    return Run(EnvOptions(env, num_envs=num_envs), algo, ActorCriticOptions(memory=memory), loop)


def make(
    algo: str = "ppo",
    env: Callable[..., Any] | str = ChanceEnv,
    *,
    num_envs: int = 4,
    model: dict[str, Any] | None = None,
    loop: dict[str, Any] | None = None,
    env_options: dict[str, Any] | None = None,
    network: Any = None,
    seed: int = 0,
    **options: Any,
) -> Parts:
    """The parts of a run, environments not yet reset; `options` are the algorithm's."""
    kinds: dict[str, Any] = ALGORITHMS
    defaults = {"horizon": 16, **({"minibatch_size": 32} if algo in ("ppo", "appo") else {})}
    run = Run(
        EnvOptions(env, num_envs=num_envs, **(env_options or {})),
        kinds[algo](**{**defaults, **options}),
        ActorCriticOptions(**{**SMALL, **(model or {})}),
        LoopOptions(seed=seed, env_steps=10_000, **(loop or {})),
    )
    return build(run, model=network)


def collected(parts: Parts, windows: int = 1) -> Window:
    """The last of so many windows, with an update after each but the last."""
    parts.sampler.reset()
    for w in range(windows - 1):
        parts.algorithm.update(parts.sampler.collect(), 64 * w)
    return parts.sampler.collect()


def decay(algo: str, lam: float) -> dict[str, float]:
    """The option that an algorithm has for lambda."""
    return {"vtrace_lambda" if algo in ("impala", "appo") else "gae_lambda": lam}


def sample_of(parts: Parts, window: Window) -> Sample:
    """What an algorithm's minibatches are drawn from, [T, B, ...]."""
    reader = parts.algorithm.reader
    if isinstance(parts.algorithm, APPO):
        return parts.algorithm.sample(*reader.read(window))
    return reader.sample(window)


def chunks_of(parts: Parts, window: Window) -> tuple[Any, Any]:
    """What a loss reads of a whole window, and the states at the chunks' first rows."""
    if isinstance(parts.algorithm, IMPALA):
        return parts.algorithm.reader.read(window)
    sample = fold(sample_of(parts, window), window.sample_length)
    return sample, tree_map(lambda x: x.flatten(0, 1).clone(), window.states)


def rows_of(window: Window) -> Row:
    """A copy of the T + 1 rows."""
    return tree_map(np.copy, window.rows)


def parameters(parts: Parts) -> dict[str, Tensor]:
    """A copy of the model's parameters by name."""
    model = parts.agent.model
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def everything(parts: Parts) -> list[Tensor]:
    """Copies of all that an update changes: agent, optimizer, statistics, generator."""
    state = {"agent": dict(parts.agent.state_dict()), "algorithm": parts.algorithm.state()}
    return [torch.as_tensor(leaf).clone() for leaf in tree_leaves(state)]


def gradient(parts: Parts, sample: Any, states: Any) -> Tensor:
    """The flat gradient of the algorithm's loss, before clipping."""
    flat = parts.algorithm.learner.parameters
    flat.zero_grad()
    loss, _ = parts.algorithm.loss(sample, states)
    loss.backward()
    return flat.gradient.clone()
