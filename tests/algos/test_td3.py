"""TD3: smoothed targets of the lesser critic, and DDPG where it has neither."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_q import items
from small_q_value import chance_window, drawn, learner, small_agent

from rlpyt.algos.options import DDPGOptions, TD3Options
from rlpyt.algos.q_value import least


def target_actions(options: TD3Options) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The target actor's actions [N, d], those that targets were made of, and the noise drawn."""
    algorithm, replay = learner(options)
    agent, given = algorithm.agent, []
    batch, draws = drawn(algorithm, replay)
    target_z = agent.target_z
    agent.target_z = lambda *x, **more: (given.append(x[2]), target_z(*x, **more))[1]
    algorithm.target(batch, draws)
    with torch.no_grad():
        action, _ = agent.target_action(batch.following, ())
    return action[0], given[0][0], draws.following[0]


@pytest.mark.parametrize("std", [0.05, 0.2, 3.0])
def test_noise_on_targets_is_each_rows_and_dimensions_own_clipped_and_within_bounds(std) -> None:
    """B181, 8.4: in units in which bounds are -1 and 1, so in those of any bounds."""
    options = TD3Options(target_noise=std, target_noise_clip=0.25)
    plain, moved, noise = target_actions(options)
    assert len(noise.unique()) == noise.numel()
    expected = (plain + (std * noise).clamp(-0.25, 0.25)).clamp(-1, 1)
    torch.testing.assert_close(moved, expected)
    assert (moved - plain).abs().max() <= 0.25 + 1e-6 and moved.abs().max() <= 1
    assert (moved != plain).any()


def test_targets_are_of_the_critic_that_expects_less() -> None:
    options = TD3Options(critics=3)
    algorithm, replay = learner(options)
    batch, draws = drawn(algorithm, replay)
    with torch.no_grad():
        z, _ = algorithm.following(batch, draws)
    seen: list[Any] = []
    agent = algorithm.agent
    target_z = agent.target_z
    agent.target_z = lambda *x, **more: (seen.append(target_z(*x, **more)), seen[-1])[1]
    with torch.no_grad():
        algorithm.following(batch, draws)
    each = seen[0][0]  # [C, R, N, 1]
    assert torch.equal(z, each.amin(0)) and len({int(k) for k in each[..., 0].argmin(0)[0]}) > 1


def test_of_distributions_the_one_of_the_least_mean_is_taken_whole() -> None:
    options = TD3Options(values="quantile", num_quantiles=7)
    returns = small_agent(options).returns
    z = torch.randn(3, 5, 4, 7)
    found = least(returns, z)
    for t in range(5):
        for n in range(4):
            wanted = min(z[:, t, n], key=lambda each: float(each.mean()))
            assert torch.equal(found[t, n], wanted)


@pytest.mark.parametrize("sequences", [{}, {"burn_in": 2, "train_rows": 4}])
def test_with_one_critic_no_delay_and_no_noise_it_is_ddpg(sequences: dict[str, Any]) -> None:
    """Also with a memory where there are sequences: bit for bit over several updates."""
    model = {"memory": "lstm"} if sequences else {}
    common: dict[str, Any] = {"n_step": 2, "prioritized": True, **sequences}
    plain = {"critics": 1, "policy_delay": 1, "target_update_updates": 1, "target_noise": 0.0}
    found = []
    for options in (DDPGOptions(**common), TD3Options(**common, **plain)):
        agent = small_agent(options, **model)
        window = chance_window(agent, options)
        algorithm, _ = learner(options, window, agent)
        metrics = torch.stack([algorithm.learn(items(window), 0) for _ in range(5)])
        vectors = [algorithm.learner.parameters.vector, algorithm.actor_learner.parameters.vector]
        found.append([metrics, *vectors, *(target.vector for target in algorithm.targets)])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
