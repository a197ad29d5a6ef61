"""Actors and critics at the edges of what can be asked: bounds, numbers, lengths, counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_parts import ChanceEnv
from test_q_value_matrix import parts_of
from toys import SpaceZooEnv

from rlpyt import SAC, TD3, load
from rlpyt.cli import main
from rlpyt.errors import EnvironmentFault, UsageError

SEEN = spaces.Box(-1.0, 1.0, (3,))
ACTIONS: dict[str, spaces.Space] = {
    "integers": spaces.Box(-3, 5, (2,), np.int32),
    "bytes": spaces.Box(0, 255, (2,), np.uint8),
    "no width": spaces.Box(np.array([0.0, -1.0], np.float32), np.array([0.0, 1.0], np.float32)),
    "scalar": spaces.Box(-2.0, 1.0, ()),
    "doubles": spaces.Box(-1e-3, 1e3, (2,), np.float64),
    "halves": spaces.Box(-2.0, 1.0, (2,), np.float16),
    "wide": spaces.Box(np.float32(-1e30), np.float32(3e30), (1,)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "gamma 0": {"gamma": 0.0, "n_step": 3},
    "gamma 1": {"gamma": 1.0, "n_step": 3},
    "tau 1": {"target_tau": 1.0},
    "less replay than batch": {"replay_size": 60, "batch_size": 64, "replay_ratio": 64.0},
    "less, by priority": {
        "replay_size": 60,
        "batch_size": 64,
        "replay_ratio": 64.0,
        "prioritized": True,
    },
    "random to the end": {"random_steps": 10**6},
    "never random": {"random_steps": 0, "learning_starts": 0},
    "long windows": {"horizon": 29, "replay_size": 120},
}
SMALL: dict[str, Any] = {
    "hidden_sizes": (8,),
    "learning_starts": 50,
    "batch_size": 16,
    "replay_ratio": 8.0,
    "eval_episodes": 0,
    "seed": 0,
}
EVERY = ["ddpg process", "td3", "sac", "crossq fixed", "d4pg", "sac lstm", "discrete sac"]


def space_for(algo: str) -> spaces.Space:
    return spaces.Discrete(3, start=1) if algo.startswith("discrete") else spaces.Box(-2.0, 1.0)


def trained(parts: Any, env_steps: int) -> dict[str, float]:
    """The newest metrics after so many steps; the run's parts are closed."""
    parts.sampler.reset()
    steps, metrics = 0, {}
    while steps < env_steps:
        parts.agent.set_exploration(steps)
        window = parts.sampler.collect()
        metrics |= parts.algorithm.update(window, steps)
        steps += int((~window.rows.last[:-1]).sum())
    found = {name: float(x) for name, x in metrics.items()}
    assert all(map(np.isfinite, found.values())), found
    return {**found, "steps": steps}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("algo", ["td3", "sac"])
def test_actions_of_any_bounds_and_numbers_lie_in_their_space(algo: str, action: str) -> None:
    """B017: the environment asserts it; every integer is met."""
    made: list[SpaceZooEnv] = []

    def factory() -> SpaceZooEnv:
        made.append(SpaceZooEnv(SEEN, ACTIONS[action], n=7))
        return made[-1]

    parts = parts_of(factory, algo, random_steps=60)
    trained(parts, 120)
    acted = np.array([x for env in made for x in env.acted])
    assert acted.dtype == ACTIONS[action].dtype
    if action == "integers":
        assert set(acted.ravel().tolist()) == set(range(-3, 6))
    if action == "no width":
        assert not acted[:, 0].any() and len(np.unique(acted[:, 1])) > 90
    parts.close()


# Each with some; so few rows hold no sequences, which is refused.
CELLS = [
    (algo, option)
    for i, option in enumerate(OPTIONS)
    for algo in (EVERY[(2 * i + k) % len(EVERY)] for k in range(2))
    if algo != "sac lstm" or "replay_size" not in OPTIONS[option]
]


@pytest.mark.parametrize(("algo", "option"), CELLS)
def test_numbers_at_their_ends_train(algo: str, option: str) -> None:
    given = OPTIONS[option]
    parts = parts_of(lambda: ChanceEnv(space_for(algo), end=0.1), algo, **given)
    metrics = trained(parts, 90)
    assert metrics["replay/updates"] > 3 and "loss/actor" in metrics
    if option == "tau 1" and parts.agent.target_critics is not None:
        learning: Any = parts.algorithm
        followed = learning.targets[0]
        assert followed.vector.equal(followed.trained.vector)
    parts.close()


@pytest.mark.parametrize(("num_envs", "ratio"), [(1, 0.37), (7, 0.37), (7, 1.5)])
def test_any_number_of_environments_and_part_of_an_update_a_step(
    num_envs: int, ratio: float
) -> None:
    """Over a run updates are so many a step, whatever a window holds."""
    parts = parts_of(
        lambda: ChanceEnv(spaces.Box(-2.0, 1.0), end=0.1),
        "td3",
        num_envs=num_envs,
        horizon=3,
        replay_ratio=8 * ratio,
        replay_size=500,
        learning_starts=21,
    )
    metrics = trained(parts, 150)
    algorithm: Any = parts.algorithm
    assert metrics["replay/updates"] == int(ratio * algorithm.generated + 1e-9)
    assert 150 - 21 - 3 * num_envs <= algorithm.generated <= metrics["steps"] - 21
    parts.close()


class Faulty(gymnasium.Env):
    """Gives a number that is none from a step on."""

    def __init__(self, field: str = "reward", discrete: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-1.0, 1.0, (1,))
        self.field, self.steps = field, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.normal(size=3), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        wrong = np.nan if self.steps > 30 else 0.0
        observation = self.np_random.normal(size=3) + (wrong if self.field == "observation" else 0)
        reward = wrong if self.field == "reward" else 0.0
        return observation, reward, False, self.steps % 10 == 0, {}


@pytest.mark.parametrize("algo", ["td3", "sac", "discrete sac"])
@pytest.mark.parametrize("field", ["reward", "observation"])
def test_a_number_that_is_none_is_the_environments_fault_by_name(algo: str, field: str) -> None:
    parts = parts_of(lambda: Faulty(field, algo.startswith("discrete")), algo)
    with pytest.raises(EnvironmentFault, match=f"{field} of environment .* is not finite at row"):
        trained(parts, 300)
    parts.close()


def test_doubles_are_learned_from_as_they_are_asked_for() -> None:
    for float64_as in ("float32", "float64"):
        env: dict[str, Any] = {"float64_as": float64_as}
        parts = parts_of(lambda: Faulty("none"), "sac", env_options=env)
        trained(parts, 60)
        assert parts.replay is not None
        assert parts.replay.ring.rows.observation.dtype == np.dtype(float64_as)
        parts.close()


@pytest.mark.parametrize(
    ("algo", "given", "said"),
    [
        (
            "sac",
            {"target_entropy": 2.0},
            "target_entropy=2.0 of actions .* in 2 dimensions.* at most 1.386",
        ),
        ("sac", {"entropy_fraction": 0.3}, "entropy_fraction=0.3 is of one Discrete choice"),
        ("discrete sac", {"target_entropy": 1.2}, "target_entropy=1.2 of 3 actions"),
        ("discrete sac", {"model": {"state_dependent_std": False}}, "state_dependent_std=False"),
        ("discrete sac", {"values": "categorical"}, "values=categorical and one Discrete choice"),
    ],
)
def test_what_the_actions_leave_without_effect_is_refused(algo: str, given: Any, said: str) -> None:
    discrete = algo.startswith("discrete")
    space = spaces.Discrete(3) if discrete else spaces.Box(-1.0, 1.0, (2,))
    with pytest.raises(UsageError, match=said):
        parts_of(lambda: ChanceEnv(space), algo, **given)
    other = {"target_entropy": -1.0} if algo == "sac" else {"target_entropy": 1.0}
    parts_of(lambda: ChanceEnv(space), algo, **other).close()  # the control


@pytest.mark.parametrize(
    ("kind", "env", "size"),
    [(SAC, "CartPole-v1", 4), (SAC, "Pendulum-v1", 3), (TD3, "Pendulum-v1", 3)],
)
def test_a_saved_agent_answers_alike(kind: Any, env: str, size: int, tmp_path: Path) -> None:
    """Evaluation without exploration gives one answer; stochastic ones differ."""
    agent = kind(env, runs=str(tmp_path), **SMALL).learn(120, mode="quiet")
    seen = np.random.default_rng(0).normal(size=(20, size)).astype(np.float32)
    path = agent.save(tmp_path / "saved")
    answers = [x.predict(seen)[0] for x in (agent, agent, load(path), load(agent.folder))]
    assert all(np.array_equal(answers[0], x) for x in answers)
    assert [*agent.evaluate(2).returns] == [*load(path).evaluate(2).returns]
    loose = [agent.predict(seen, deterministic=False)[0] for _ in range(2)]
    assert not np.array_equal(*loose)


def test_weights_of_another_ensemble_are_refused_by_name(tmp_path: Path) -> None:
    path = SAC("Pendulum-v1", **SMALL).save(tmp_path / "saved")
    other = SAC("Pendulum-v1", critics=4, init_from=str(path), runs=str(tmp_path), **SMALL)
    with pytest.raises(UsageError, match="its network does not fit this run's"):
        other.learn(120, mode="quiet")


def test_the_command_line_tells_of_what_has_no_effect(capsys) -> None:
    for options, said in (
        ("--critics 1 --actor-judge mean", "--actor-judge has no effect.*--critics 2"),
        ("--critic-dropout 0.1 --critic-sizes", "critic_dropout=0.1 and critics without hidden"),
    ):
        assert main(["train", "sac", "--env", "Pendulum-v1", *options.split()]) == 2
        out = " ".join(capsys.readouterr().err.split())
        assert re.search(said, out), out


@pytest.mark.parametrize("algo", ["td3", "sac", "discrete sac"])
def test_gamma_0_asks_no_target(algo: str) -> None:
    """Whatever targets say, of gamma 0 a run is the same."""
    found = []
    for factor in (1.0, 50.0):
        parts = parts_of(lambda: ChanceEnv(space_for(algo)), algo, gamma=0.0, target_tau=1e-9)
        for parameter in parts.agent.target_critics.parameters():
            parameter.data.mul_(factor)
        trained(parts, 80)
        found.append(parts.agent.critics.state_dict())
        parts.close()
    assert all(np.array_equal(found[0][k], found[1][k]) for k in found[0])
