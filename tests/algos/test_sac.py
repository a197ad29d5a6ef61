"""SAC: its temperature, its ensembles, its quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_q import items
from small_q_value import SIZE, drawn, everything, learner, small_agent

from rlpyt.algos.options import SACOptions
from rlpyt.algos.sac import lowest
from rlpyt.errors import UsageError
from rlpyt.run import Run

QUANTILES: dict[str, Any] = {"values": "quantile", "num_quantiles": 5}


@pytest.mark.parametrize(("wanted", "rises"), [(1.38, True), (-50.0, False)])
def test_the_temperature_moves_entropy_to_its_target(wanted: float, rises: bool) -> None:
    """B178, 8.4: too little entropy raises it, too much lowers it. The most is 2 log 2."""
    algorithm, replay = learner(SACOptions(target_entropy=wanted, lr=1e-2))
    seen = [float(algorithm.temperature())]
    for _ in range(5):
        algorithm.learn(items(replay.window), 0)
        seen.append(float(algorithm.temperature()))
    steps = np.diff(seen)
    assert (steps > 0).all() if rises else (steps < 0).all()
    found = algorithm.actor_loss(*drawn(algorithm, replay))[1]
    assert float(found[2]) == pytest.approx(seen[-1])


def test_the_temperature_stays_above_0_however_long_it_falls() -> None:
    """B178: a hundred thousand steps at 3e-4, in ten thousand of ten times the size."""
    algorithm, _ = learner(SACOptions())
    for _ in range(10_000):
        algorithm.temperature.step(torch.tensor(1.0), -2.0, 3e-3)
    assert 0 < float(algorithm.temperature()) < 1e-12


def test_the_target_entropy_is_minus_the_dimensions_unless_given() -> None:
    assert learner(SACOptions())[0].target_entropy == -SIZE
    assert learner(SACOptions(target_entropy=0.5))[0].target_entropy == 0.5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_target_entropy_that_is_no_number_is_refused(value: float) -> None:
    """B178."""
    from rlpyt.envs.options import EnvOptions

    with pytest.raises(UsageError, match="target_entropy=.* must be a finite number"):
        Run(EnvOptions("Pendulum-v1"), SACOptions(target_entropy=value))


def test_a_fixed_temperature_stays_and_has_no_optimizer() -> None:
    algorithm, replay = learner(SACOptions(temperature=0.3))
    for _ in range(3):
        algorithm.learn(items(replay.window), 0)
    assert float(algorithm.temperature()) == pytest.approx(0.3)
    algorithm.replay.state = dict
    assert "temperature" not in algorithm.state()


def test_after_loading_the_temperature_goes_on_changing() -> None:
    """B179: its value, its optimizer, and the link between both."""
    one, replay = learner(SACOptions(lr=1e-2))
    for _ in range(3):
        one.learn(items(replay.window), 0)
    two, _ = learner(SACOptions(lr=1e-2), replay.window)
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    assert float(two.temperature()) == 1.0
    two.load(one.state())
    kept = float(two.temperature())
    assert kept == float(one.temperature()) != 1.0
    two.learn(items(replay.window), 0)
    assert float(two.temperature()) != kept


def test_the_entropy_that_is_logged_is_that_of_the_actions_drawn() -> None:
    algorithm, replay = learner(SACOptions())
    batch, draws = drawn(algorithm, replay)
    _, metrics = algorithm.actor_loss(batch, draws)
    agent: Any = algorithm.agent
    with torch.no_grad():
        _, log_prob, _ = agent.sample(batch.inputs, (), draws.action)
    assert float(metrics[1]) == pytest.approx(-float(log_prob.mean()), rel=1e-5)


def test_with_as_many_critics_as_targets_take_redq_is_sac() -> None:
    """8.4: N = M = 2, however much greater M is."""
    found = []
    for options in (
        SACOptions(),
        SACOptions(target_critics=2, critics=2),
        SACOptions(target_critics=9),
    ):
        algorithm, replay = learner(options)
        for _ in range(3):
            algorithm.learn(items(replay.window), 0)
        found.append(everything(algorithm))
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other, strict=True))


def test_each_update_draws_critics_of_its_own_every_pair_as_often() -> None:
    algorithm, replay = learner(SACOptions(critics=4, target_critics=2))
    given = items(replay.window)
    pairs = [tuple(sorted(algorithm.draw(given).subset.tolist())) for _ in range(1200)]
    counts = np.unique(pairs, axis=0, return_counts=True)[1]
    assert len(counts) == 6 and (np.abs(counts - 200) < 60).all()


def test_only_the_critics_drawn_make_the_target() -> None:
    algorithm, replay = learner(SACOptions(critics=4, target_critics=2))
    batch, draws = drawn(algorithm, replay)
    draws = draws.replace(subset=torch.tensor([1, 3]))
    before = algorithm.target(batch, draws)
    for critic, changes in ((0, False), (2, False), (1, True), (3, True)):
        algorithm.agent.target_critics.ensemble.layers[-1].bias[critic] -= 100.0
        assert torch.equal(algorithm.target(batch, draws), before) != changes
        before = algorithm.target(batch, draws)


def test_an_ensemble_judges_the_actor_by_its_mean_and_two_critics_by_the_lesser_unless_asked() -> (
    None
):
    for options, judged in (
        (SACOptions(critics=4, temperature=0.0), torch.mean),
        (SACOptions(temperature=0.0), torch.amin),
        (SACOptions(critics=4, temperature=0.0, **QUANTILES), torch.mean),
        (SACOptions(temperature=0.0, actor_judge="mean"), torch.mean),
        (SACOptions(critics=4, temperature=0.0, actor_judge="least"), torch.amin),
    ):
        algorithm, replay = learner(options)
        batch, draws = drawn(algorithm, replay)
        agent: Any = algorithm.agent
        action, _, _ = agent.sample(batch.inputs, (), draws.action)
        z, _ = agent.z(batch.inputs, (), action)
        loss, _ = algorithm.actor_loss(batch, draws)
        torch.testing.assert_close(loss, -judged(agent.returns.value(z), 0).mean())


@pytest.mark.parametrize("drop", range(5))
def test_the_greatest_quantiles_of_all_critics_together_are_left_out(drop: int) -> None:
    z = torch.randn(3, 4, 6, 5)
    found = lowest(z, drop)
    for t in range(4):
        for n in range(6):
            wanted = np.sort(z[:, t, n].numpy().ravel())[: 15 - 3 * drop]
            np.testing.assert_array_equal(np.sort(found[t, n].numpy()), wanted)


def test_with_nothing_dropped_the_target_is_the_mean_of_all_critics() -> None:
    """8.4: and what is dropped lowers it."""
    means = []
    for drop in (0, 1, 2):
        algorithm, replay = learner(SACOptions(critics=3, drop_quantiles=drop, **QUANTILES))
        batch, draws = drawn(algorithm, replay)
        means.append(algorithm.target(batch, draws).mean(-1))
        if drop == 0:
            agent: Any = algorithm.agent
            action, log_prob, _ = agent.sample(batch.following, (), draws.following)
            z, _ = agent.target_z(batch.following, (), action)
            soft = z.mean((0, -1)) - log_prob  # at a temperature of 1
            wanted = batch.returns + batch.discount * soft
            torch.testing.assert_close(means[0], wanted.detach())
    bootstraps = batch.discount > 0
    assert (means[1] < means[0])[bootstraps].all() and (means[2] < means[1])[bootstraps].all()


def test_deviations_may_be_the_same_for_every_row_and_are_learned() -> None:
    options = SACOptions(lr=1e-2)
    agent = small_agent(options, state_dependent_std=False)
    algorithm, replay = learner(options, agent=agent)
    constant = agent.actor.constant
    before = constant.detach().clone()
    algorithm.learn(items(replay.window), 0)
    assert constant.shape == (SIZE,) and (constant != before).all()


DROPOUT: dict[str, Any] = {"critic_dropout": 0.2, "critic_layer_norm": True}


def test_dropout_is_of_learning_alone_and_drawn_anew_for_each_use() -> None:
    """DroQ: in the critics that learn, in their targets, and for the actor where it is its turn."""
    algorithm, replay = learner(SACOptions(policy_delay=2), **DROPOUT)
    judged: list[Any] = []
    loss = algorithm.actor_loss
    algorithm.actor_loss = lambda batch, draws: (judged.append(draws.judges), loss(batch, draws))[1]
    given, used = items(replay.window), []
    for _ in range(4):
        found = algorithm.draw(given)
        used += [found.critics[0], found.targets[0]]
        algorithm.learn(given, 0)
    assert len(judged) == 2
    every = [*used, *(masks[0] for masks in judged)]
    assert all(mask.shape == (2, 1, replay.window.num_envs, 8) for mask in every)
    assert not any(torch.equal(x, y) for i, x in enumerate(every) for y in every[:i])
    batch, draws = drawn(algorithm, replay)
    agent: Any = algorithm.agent
    z, _ = agent.z(batch.inputs, (), batch.action)
    learned, _ = algorithm.compared(batch, draws)
    assert not torch.allclose(z, learned)
    assert torch.equal(z, agent.z(batch.inputs, (), batch.action)[0])


def test_with_dropout_it_goes_on_from_its_state_whatever_else_draws() -> None:
    """What is dropped comes from the generator that is saved, and from no other."""
    one, replay = learner(SACOptions(lr=1e-2, policy_delay=2), **DROPOUT)
    two, _ = learner(SACOptions(lr=1e-2, policy_delay=2), replay.window, **DROPOUT, seed=1)
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    for _ in range(3):
        one.learn(items(replay.window), 0)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    for seed, made in enumerate((one, two)):
        torch.manual_seed(seed)
        for _ in range(3):
            made.learn(items(replay.window), 0)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two), strict=True))
