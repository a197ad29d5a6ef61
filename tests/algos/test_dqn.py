"""DQN: what it reads of transitions, its targets, the values that every variant finds."""

from typing import Any

import numpy as np
import pytest
import torch
from small_q import FEW, OneWindow, fill_with_chance, items, small_agent, spec
from toy_tasks import Chain

from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions
from rlpyt.algos.q_targets import draw
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import QNetworkOptions
from rlpyt.rows import Inputs, Window, example_row
from rlpyt.run import LoopOptions, Run

GAMMA = 0.9


def learner(options: DQNOptions, window: Window, **given: Any) -> tuple[DQN, OneWindow]:
    agent = small_agent(options, mask=window.rows.mask is not None, **given)
    replay: Any = OneWindow(window)
    return DQN(agent, options, replay, 1000, torch.Generator().manual_seed(0)), replay


def chance_window(n_step: int, items: int = 200, seed: int = 0, mask: bool = False) -> Window:
    """Transitions of n_step + 1 rows, of which the first is live."""
    window = Window(example_row(spec(mask=mask)), n_step, items)
    fill_with_chance(window.storage, seed)
    window.rows.terminated[0] = window.rows.truncated[0] = False
    window.rows.first[1] = False
    window.rows.reward[1] = np.random.default_rng(seed).normal(size=items)
    return window


@pytest.mark.parametrize("n", [1, 2, 4])
def test_transitions_are_what_the_episodes_say(n: int) -> None:
    window = chance_window(n, mask=True)
    algorithm, _ = learner(DQNOptions(n_step=n, gamma=GAMMA), window)
    batch, rows = algorithm.read(items(window)), window.rows
    for i in range(window.num_envs):
        summed, m = 0.0, 0
        while m < n and not rows.last[m, i]:
            summed += GAMMA**m * rows.reward[m + 1, i]
            m += 1
        assert float(batch.returns[i]) == pytest.approx(summed, abs=1e-5)
        ended = bool(rows.terminated[m, i])
        assert float(batch.discount[i]) == pytest.approx(0.0 if ended else GAMMA**m)
        np.testing.assert_array_equal(batch.inputs.observation[i], rows.observation[0, i])
        np.testing.assert_array_equal(batch.following.observation[i], rows.observation[m, i])
        np.testing.assert_array_equal(batch.following.mask[i], rows.mask[m, i])
        assert batch.action[i] == rows.action[0, i]


def test_clipped_rewards_are_signs() -> None:
    window = chance_window(1)
    algorithm, _ = learner(DQNOptions(reward_clip="sign"), window)
    assert set(algorithm.read(items(window)).returns.tolist()) <= {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_the_target_is_the_chosen_action_of_the_next_row(double: bool, mask: bool) -> None:
    window = chance_window(1, mask=mask)
    algorithm, _ = learner(DQNOptions(double=double, loss="squared"), window)
    agent, batch = algorithm.agent, algorithm.read(items(window))
    batch = batch.replace(weight=torch.rand(window.num_envs))
    loss, found = algorithm.loss(batch, draw(agent, algorithm.generator, window.num_envs))
    with torch.no_grad():
        online, _ = agent.z(batch.following, ())
        target, _ = agent.target_z(batch.following, ())
        now, _ = agent.z(batch.inputs, ())
    total = 0.0
    for i in range(window.num_envs):
        allowed = range(online.shape[1])
        if mask:
            allowed = [a for a in allowed if batch.following.mask[i, a]] or allowed
        chooser = online if double else target
        best = max(allowed, key=lambda a: float(chooser[i, a, 0]))
        wanted = batch.returns[i] + batch.discount[i] * target[i, best, 0]
        error = wanted - now[i, batch.action[i], 0]
        assert float(found[3 + i]) == pytest.approx(abs(float(error)), rel=1e-4, abs=1e-5)
        total += float(batch.weight[i] * 0.5 * error**2)
    assert float(loss.detach()) == pytest.approx(total / window.num_envs, rel=1e-4)


def test_what_lies_behind_a_termination_is_never_read() -> None:
    window = chance_window(1)
    window.rows.terminated[1] = True
    window.rows.observation[1] = np.nan
    algorithm, _ = learner(DQNOptions(), window)
    batch = algorithm.read(items(window))
    loss, _ = algorithm.loss(batch, draw(algorithm.agent, algorithm.generator, window.num_envs))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(algorithm.learner.parameters.gradient).all()


def test_no_gradient_reaches_the_target_network() -> None:
    window = chance_window(1)
    algorithm, _ = learner(DQNOptions(), window)
    before = algorithm.target.vector.clone()
    algorithm.loss(
        algorithm.read(items(window)), draw(algorithm.agent, algorithm.generator, window.num_envs)
    )[0].backward()
    assert not algorithm.target.parameters.gradient.any()
    assert torch.equal(before, algorithm.target.vector)
    assert algorithm.learner.parameters.gradient.any()


def test_noise_is_fresh_in_every_update_and_in_every_network() -> None:
    window = chance_window(1)
    algorithm, _ = learner(DQNOptions(), window, noisy=True)
    draws = [draw(algorithm.agent, algorithm.generator, 3) for _ in range(2)]
    noises = [x for d in draws for x in (d.online, d.chooser, d.target)]
    assert len({tuple(x.tolist()) for x in noises}) == 6


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({"double": False}, {}),
    "double": ({}, {}),
    "squared": ({"loss": "squared"}, {}),
    "soft targets": ({"target_tau": 0.05, "target_update_updates": 1}, {}),
    "dueling": ({}, {"dueling": True}),
    "prioritized": ({"prioritized": True}, {}),
    "priorities on entry": ({"prioritized": True, "priority_entry": "td"}, {}),
    "rescaled": ({"value_rescale": 1e-3}, {}),
    "categorical": ({"values": "categorical", "v_min": 0.0, "v_max": 2.0}, {}),
    "quantile": ({"values": "quantile", "num_quantiles": 15}, {}),
    "implicit": ({"values": "implicit", "num_fractions": 8}, {"hidden_sizes": (32,)}),
    "noisy": ({}, {"noisy": True}),
    "munchausen": ({"munchausen": True, "munchausen_temperature": 0.2}, {}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_finds_the_optimal_values_of_a_chain(name: str) -> None:
    given, model = VARIANTS[name]
    options = DQNOptions(
        **{
            "gamma": GAMMA,
            "lr": 0.01,
            "batch_size": 64,
            "replay_ratio": 16.0,
            "replay_size": 2000,
            "learning_starts": 200,
            "target_update_updates": 20,
            "epsilon_end": 1.0,  # every action everywhere: the values are of the greedy policy
            **given,
        }
    )
    network = QNetworkOptions(**{"hidden_sizes": (), **model})
    parts = build(
        Run(EnvOptions(Chain, num_envs=8), options, network, LoopOptions(seed=1, env_steps=6000))
    )
    trained(parts, 6000)
    found = values(parts)
    wanted = Chain.optimal_q(GAMMA)
    if name == "munchausen":
        wanted = munchausen_q(options)
    np.testing.assert_allclose(found, wanted, atol=0.06, err_msg=f"wanted\n{wanted}")
    assert not np.allclose(wanted, 0.0, atol=0.06)


def trained(parts: Parts, env_steps: int) -> None:
    parts.sampler.reset()
    for steps in range(0, env_steps, 32):
        parts.agent.set_exploration(steps)
        parts.algorithm.update(parts.sampler.collect(), steps)


@torch.no_grad()
def values(parts: Parts) -> np.ndarray:
    agent: Any = parts.agent
    inputs = Inputs(torch.eye(Chain.STATES))
    value = agent.returns.value(agent.z(inputs, (), None, agent.returns.greedy_fractions())[0])
    eps = parts.algorithm.options.value_rescale
    if eps:
        from rlpyt.functional import value_unrescale

        value = value_unrescale(value, eps)
    return value.numpy()


def munchausen_q(options: DQNOptions) -> np.ndarray:
    """The fixed point of Munchausen's equation, by iteration."""
    tau, q = options.munchausen_temperature, np.zeros((Chain.STATES, 2))
    for _ in range(600):
        shifted = (q - q.max(1, keepdims=True)) / tau
        log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        soft = (np.exp(log_p) * (q - tau * log_p)).sum(1)
        bonus = options.munchausen_alpha * np.clip(tau * log_p, options.munchausen_floor, 0)
        new = bonus.copy()
        new[:, 0] += 0.1 + GAMMA * soft[0]
        new[:-1, 1] += GAMMA * soft[1:]
        new[-1, 1] += 1.0
        q = new
    return q


def test_equal_seeds_make_equal_updates() -> None:
    def after() -> torch.Tensor:
        options = DQNOptions(values="implicit", **{k: FEW[k] for k in ("num_fractions",)})
        window = chance_window(1)
        algorithm, _ = learner(options, window, noisy=True)
        algorithm.learn(items(window), 0)
        return algorithm.learner.parameters.vector.clone()

    assert torch.equal(after(), after())
