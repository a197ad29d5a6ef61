"""DDPG and its kin where what they must find is known: values of a chain, the best action."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.rows import Inputs
from rlpyt.run import ALGORITHMS, LoopOptions, Run

GAMMA = 0.8


class Line(gymnasium.Env):
    """Four places in a row: anything leads on, for 0.1, and from the last one out, for 1."""

    PLACES = 4

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.PLACES,))
        self.action_space = spaces.Box(-3.0, 1.0, (1,))
        self.place = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.place += 1
        over = self.place == self.PLACES
        return self._observation(), 1.0 if over else 0.1, over, False, {}

    def _observation(self) -> np.ndarray:
        return np.eye(self.PLACES, dtype=np.float32)[self.place % self.PLACES]

    @classmethod
    def values(cls) -> list[float]:
        found = [1.0]
        for _ in range(cls.PLACES - 1):
            found.insert(0, 0.1 + GAMMA * found[0])
        return found


class Aim(gymnasium.Env):
    """One action: the closer to half of what is observed, of bounds that differ, the better."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,))
        low, high = np.array([-2.0, 0.0], np.float32), np.array([1.0, 10.0], np.float32)
        self.action_space = spaces.Box(low, high)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.goal = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.goal, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        low, high = self.action_space.low, self.action_space.high
        unit = 2 * (action - low) / (high - low) - 1
        return self.goal, -float(np.square(unit - 0.5 * self.goal).sum()), True, False, {}


def trained(kind: str, env: Any, model: ActorQOptions, env_steps: int, **given: Any) -> Parts:
    small = {
        "gamma": GAMMA,
        "lr": 3e-3,
        "horizon": 4,
        "batch_size": 64,
        "replay_ratio": 32.0,
        "replay_size": 4000,
        "learning_starts": 200,
        **given,
    }
    algo, loop = ALGORITHMS[kind](**small), LoopOptions(seed=1, env_steps=env_steps)
    parts = build(Run(EnvOptions(env, num_envs=8), algo, model, loop))
    parts.sampler.reset()
    for steps in range(0, env_steps, 8 * parts.sampler.window.horizon):
        parts.agent.set_exploration(steps)
        parts.algorithm.update(parts.sampler.collect(), steps)
    return parts


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ddpg": ("ddpg", {}),
    "ddpg, three steps": ("ddpg", {"n_step": 3}),
    "ddpg, prioritized": ("ddpg", {"prioritized": True}),
    "ddpg, Huber": ("ddpg", {"critic_loss": "huber"}),
    "ddpg, rewards scaled": ("ddpg", {"reward_scale": 2.0}),
    "td3": ("td3", {}),
    "sac": ("sac", {"temperature": 0.0}),
    "sac, state values": ("sac", {"temperature": 0.0}),
    "redq": ("sac", {"temperature": 0.0, "critics": 4}),
    "tqc": ("sac", {"temperature": 0.0, "values": "quantile", "drop_quantiles": 1}),
    "d4pg": ("d4pg", {"v_min": 0.0, "v_max": 2.0, "n_step": 2}),
    "d4pg, quantiles": ("d4pg", {"values": "quantile", "n_step": 1}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_finds_the_values_of_a_chain(name: str) -> None:
    """8.4: of critics that are tables of places."""
    kind, given = VARIANTS[name]
    given = {"lr": 0.02, "target_tau": 0.2, "horizon": 8, **given}
    model = ActorQOptions(hidden_sizes=(), value_network=name == "sac, state values")
    parts = trained(kind, Line, model, 1600, **given)
    agent: Any = parts.agent
    with torch.no_grad():
        z, _ = agent.z(Inputs(torch.eye(Line.PLACES)), (), torch.zeros(Line.PLACES, 1))
        found = agent.returns.value(z).mean(0).numpy() / given.get("reward_scale", 1.0)
    np.testing.assert_allclose(found, Line.values(), atol=0.02)
    parts.close()


@pytest.mark.parametrize("name", ["ddpg", "td3", "sac", "sac, state values", "d4pg"])
def test_every_algorithm_finds_the_best_action_in_bounds_of_any_kind(name: str) -> None:
    kind = name.partition(",")[0]
    given = {"d4pg": {"v_min": -5.0, "v_max": 0.0}, "sac": {"temperature": 0.01}}.get(kind, {})
    given = {"target_tau": 0.05, "exploration_std": 0.3, **given}
    given = {k: x for k, x in given.items() if k in ALGORITHMS[kind].__dataclass_fields__}
    model = ActorQOptions(hidden_sizes=(32, 32), value_network="values" in name)
    parts = trained(kind, Aim, model, 3000, **given)
    goals = torch.rand(64, 2) * 2 - 1
    with torch.no_grad():
        action, _, _ = parts.agent.evaluation(False).act(Inputs(goals), (), None)
    assert (action - 0.5 * goals).abs().mean() < 0.1
    assert parts.evaluator.evaluate().mean > -0.1
    parts.close()
