"""Rewards as the learner sees them: clipped, scaled, and raw in the rows all the same."""

import numpy as np
import pytest
import torch
from small_parts import (
    ChanceEnv,
    collected,
    make,
    rows_of,
    sample_of,
)

from rlpyt.arrays import tree_leaves
from rlpyt.functional import gae


class Steep(ChanceEnv):
    """Rewards of hundreds, of either sign."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 300 * reward, *rest


def test_clipped_rewards_are_learned_from_while_raw_ones_stay_in_the_rows():
    parts = make(env=Steep, reward_clip="sign", gae_lambda=0.9)
    window = collected(parts)
    rows = rows_of(window)
    sample = parts.algorithm.reader.sample(window)
    assert np.abs(rows.reward).max() > 100
    for x, y in zip(tree_leaves(rows), tree_leaves(window.rows), strict=True):
        assert np.array_equal(x, y)
    value = parts.agent.value(parts.agent.read(window.inputs()), ()).detach()
    tensors = window.tensors
    discount = 0.99 * ~tensors.terminated
    expected = gae(tensors.reward.sign(), discount, tensors.last, value, 0.9)
    torch.testing.assert_close(sample.advantage, expected, rtol=1e-5, atol=1e-5)


def test_a_scale_over_clipped_rewards_is_that_of_clipped_rewards():
    """Both together: the statistics are of what is scaled."""
    advantages = []
    for env in (ChanceEnv, Steep):  # equal up to a factor, hence equal in sign
        parts = make(env=env, reward_clip="sign", normalize_reward=True)
        advantages.append(parts.algorithm.reader.sample(collected(parts)).advantage)
    torch.testing.assert_close(advantages[0], advantages[1])


def times(factor: float) -> type[ChanceEnv]:
    class Scaled(ChanceEnv):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, reward * factor, *rest

    return Scaled


@pytest.mark.parametrize("algo", ["ppo", "a2c", "appo"])
def test_with_reward_scaling_rewards_times_1000_train_the_same(algo):
    """Exactly where the factor is a power of two, to rounding where it is 1000 (B163)."""
    results = []
    for factor in (1.0, 1024.0, 1000.0):
        parts = make(algo, times(factor), normalize_reward=True)
        parts.sampler.reset()
        for w in range(3):
            window = parts.sampler.collect()
            parts.algorithm.update(window, 64 * w)
        advantage = sample_of(parts, window).advantage
        results.append((advantage, [p.clone() for p in parts.agent.model.parameters()]))
    for advantage, weights in results[1:]:
        torch.testing.assert_close(advantage, results[0][0], rtol=1e-3, atol=1e-4)
        for p, q in zip(weights, results[0][1], strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_without_reward_scaling_they_do_not():
    advantages = []
    for factor in (1.0, 1000.0):
        parts = make(env=times(factor))
        advantages.append(parts.algorithm.reader.sample(collected(parts)).advantage)
    assert advantages[1].abs().mean() > 100 * advantages[0].abs().mean()


def test_reward_statistics_are_merged_before_the_update_observation_statistics_after():
    parts = make(normalize_reward=True, normalize_observation=True)
    window = collected(parts)
    seen = []
    loss = parts.algorithm.loss

    def spy(*args):
        scale, normalizer = parts.algorithm.reader.outcomes.reward_scale, parts.agent.normalizer
        seen.append((float(scale.moments[0]), int(normalizer.count)))
        return loss(*args)

    parts.algorithm.loss = spy
    parts.algorithm.update(window, 0)
    arrived = int((~window.rows.first[1:]).sum())
    assert set(seen) == {(arrived, 0)}
    assert int(parts.agent.normalizer.count) == 64
