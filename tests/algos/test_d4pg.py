"""D4PG: DDPG's targets in the mean, by its own loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_q import items
from small_q_value import chance_window, drawn, learner, small_agent

from rlpyt.algos.options import D4PGOptions, DDPGOptions

ATOMS: dict[str, Any] = {"values": "categorical", "num_atoms": 41, "v_min": -20.0, "v_max": 20.0}
QUANTILES: dict[str, Any] = {"values": "quantile", "num_quantiles": 8}


def vectors(algorithm: Any) -> list[torch.Tensor]:
    own = [algorithm.learner.parameters.vector, algorithm.actor_learner.parameters.vector]
    return [*own, *(target.vector for target in algorithm.targets)]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", [ATOMS, QUANTILES], ids=["atoms", "quantiles"])
def test_of_a_critic_that_is_sure_targets_are_those_of_ddpg(kind: dict[str, Any], n: int) -> None:
    """8.4: a point mass at any place between the outermost atoms, there and behind endings."""
    place, found = 3.0, []
    for options in (D4PGOptions(**kind, n_step=n), DDPGOptions(n_step=n)):
        algorithm, replay = learner(options)
        with torch.no_grad():
            weight, bias = (list(algorithm.agent.target_critics.parameters())[k] for k in (-2, -1))
            weight.zero_()
            bias.fill_(place)
            if kind is ATOMS and isinstance(options, D4PGOptions):
                bias.zero_()[..., 23] = 100.0  # the atom at 3
        target = algorithm.target(*drawn(algorithm, replay))  # [T, N, M]
        if kind is ATOMS and isinstance(options, D4PGOptions):
            target = target @ torch.linspace(-20, 20, 41)
        else:
            target = target.mean(-1)
        found.append(target)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-4)
    assert found[0].std() > 0.1


def test_of_expected_values_it_is_ddpg() -> None:
    found = []
    for kind in (D4PGOptions, DDPGOptions):
        options = kind(values="expected", n_step=3, prioritized=True)
        algorithm, replay = learner(options)
        metrics = torch.stack([algorithm.learn(items(replay.window), 0) for _ in range(5)])
        found.append([metrics, *vectors(algorithm)])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_the_actor_climbs_the_mean_of_the_distribution() -> None:
    options = D4PGOptions(**ATOMS)
    algorithm, replay = learner(options)
    batch, draws = drawn(algorithm, replay)
    loss, metrics = algorithm.actor_loss(batch, draws)
    agent: Any = algorithm.agent
    action, _ = agent.action(batch.inputs, ())
    z, _ = agent.z(batch.inputs, (), action)
    mean = (z.softmax(-1) * torch.linspace(-20, 20, 41)).sum(-1)
    torch.testing.assert_close(loss, -mean.mean())
    assert metrics[0] == loss


@pytest.mark.parametrize("kind", [ATOMS, QUANTILES], ids=["atoms", "quantiles"])
def test_priorities_are_the_loss_of_each_item(kind: dict[str, Any]) -> None:
    options = D4PGOptions(**kind, prioritized=True)
    agent = small_agent(options)
    algorithm, replay = learner(options, chance_window(agent, options), agent)
    loss, metrics = algorithm.critic_loss(*drawn(algorithm, replay))
    torch.testing.assert_close(metrics[3:].mean(), loss.detach())
    assert len(metrics[3:].unique()) > 8
