"""Parts of losses: what they equal, and what rows without a transition may hold."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.functional import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    is_clipped,
    live_mean,
    live_means,
    normalize,
    value_loss,
)

NAN = float("nan")
shapes = st.one_of(st.tuples(st.integers(1, 40)), st.tuples(st.integers(1, 12), st.integers(1, 12)))
seeds = st.integers(0, 2**32 - 1)


def draw(shape, seed, columns=1):
    """Random numbers [columns, *shape] and live rows [*shape], the others NaN."""
    generator = torch.Generator().manual_seed(seed)
    live = torch.rand(shape, generator=generator) < 0.8
    x = torch.randn((columns, *shape), generator=generator, dtype=torch.float64)
    return x.where(live, NAN), live


@settings(max_examples=50, deadline=None)
@given(shape=shapes, seed=seeds)
def test_means_and_deviations_are_those_of_the_live_rows(shape, seed):
    (x, target), live = draw(shape, seed, 2)
    normal = normalize(x, live)
    if not live.any():
        assert live_mean(x, live) == 0
        assert not normal.any()
        return
    rows = x[live]
    deviation = rows.std(correction=0)
    torch.testing.assert_close(live_mean(x, live), rows.mean())
    torch.testing.assert_close(live_means([x, target], live)[1], target[live].mean())
    torch.testing.assert_close(normal[live], (rows - rows.mean()) / (deviation + 1e-8))
    assert not normal[~live].any()
    if len(rows) > 1:
        error = (target - x)[live]
        expected = 1 - error.var(correction=0) / target[live].var(correction=0)
        torch.testing.assert_close(explained_variance(x, target, live), expected)


def test_gradients_of_a_live_mean_are_zero_on_dead_rows_that_hold_nan():
    x = torch.tensor([1.0, NAN, 3.0], requires_grad=True)
    live_mean(x * 2, torch.tensor([True, False, True])).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


def test_control_a_mean_by_multiplication_is_nan():
    x, live = torch.tensor([1.0, NAN]), torch.tensor([True, False])
    assert ((x * live).sum() / live.sum()).isnan()
    assert live_mean(x, live) == 1


def test_no_live_row_gives_zero():
    x, none = torch.full((3, 2), NAN), torch.zeros(3, 2, dtype=torch.bool)
    assert live_mean(x, none) == 0
    assert not normalize(x, none).any()
    assert explained_variance(x, x, none) == 0


@settings(max_examples=50, deadline=None)
@given(
    value=st.floats(-1e6, 1e6, width=32),
    count=st.integers(1, 3000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_constant_advantages_are_normalized_to_zeros(value, count, dtype):
    x = torch.full((count,), value, dtype=dtype)
    assert not normalize(x, torch.ones(count, dtype=torch.bool)).any()


def test_rounding_noise_on_a_constant_is_not_blown_up():
    x = 1000 * (1 + torch.finfo(torch.float32).eps * (torch.arange(256) % 2))
    live = torch.ones(256, dtype=torch.bool)
    assert x.std() > 0
    assert not normalize(x, live).any()
    assert normalize(1000 + 0.1 * torch.arange(256.0), live).std() > 0.99


def test_nan_among_live_rows_is_not_hidden():
    x = torch.tensor([1.0, NAN, 2.0])
    assert normalize(x, torch.ones(3, dtype=torch.bool)).isnan().all()


def test_clipped_surrogate_is_the_least_of_both_terms():
    ratio = torch.tensor([0.5, 0.5, 1.0, 1.5, 1.5])
    advantage = torch.tensor([2.0, -2.0, 3.0, 2.0, -2.0])
    expected = torch.tensor([1.0, -1.6, 3.0, 2.4, -3.0])
    torch.testing.assert_close(clipped_surrogate(ratio, advantage, 0.2), expected)
    torch.testing.assert_close(clipped_surrogate(ratio, advantage, torch.tensor(0.2)), expected)
    assert is_clipped(ratio, 0.2).tolist() == [True, True, False, True, True]


def test_clipped_surrogate_stops_gaining_only_where_it_is_an_improvement():
    ratio = torch.tensor([0.5, 0.5, 1.5, 1.5], requires_grad=True)
    clipped_surrogate(ratio, torch.tensor([2.0, -2.0, 2.0, -2.0]), 0.2).sum().backward()
    assert ratio.grad is not None
    assert ratio.grad.tolist() == [2.0, 0.0, 0.0, -2.0]


def test_an_infinite_clip_removes_clipping():
    ratio, advantage = torch.rand(100) * 10, torch.randn(100)
    assert torch.equal(clipped_surrogate(ratio, advantage, math.inf), ratio * advantage)
    assert not is_clipped(ratio, math.inf).any()
    value, old, target = torch.randn(3, 100)
    unclipped = value_loss(value, target)
    torch.testing.assert_close(clipped_value_loss(value, old, target, math.inf), unclipped)


def test_at_a_ratio_of_one_the_gradient_is_the_policy_gradient():
    log_prob = torch.randn(50, dtype=torch.float64, requires_grad=True)
    advantage = torch.randn(50, dtype=torch.float64)
    log_ratio = log_prob - log_prob.detach()
    (gradient,) = torch.autograd.grad(
        clipped_surrogate(log_ratio.exp(), advantage, 0.2).sum(), log_prob
    )
    torch.testing.assert_close(gradient, advantage)
    assert not approximate_kl(log_ratio).any()
    assert not is_clipped(log_ratio.exp(), 0.2).any()


def test_value_loss_is_the_squared_error():
    value, target = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 2.0])
    assert value_loss(value, target).tolist() == [9.0, 0.0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.1, 2.9**2), (2.0, 2.8**2), (-2.0, 5.0**2), (7.0, 4.0**2)],
)
def test_clipped_value_loss_does_not_reward_moving_beyond_the_clip(value, expected):
    old, target = torch.tensor(0.0), torch.tensor(3.0)
    loss = clipped_value_loss(torch.tensor(value), old, target, 0.2)
    assert float(loss) == pytest.approx(expected)


def test_approximate_kl_is_never_negative_and_its_mean_is_the_divergence():
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.4, 0.4, 0.2])
    estimate = approximate_kl(q.log() - p.log())
    assert (estimate >= 0).all()
    torch.testing.assert_close((p * estimate).sum(), (p * (p / q).log()).sum())


def test_explained_variance_is_one_for_the_target_and_zero_for_a_constant():
    target, live = torch.randn(100), torch.ones(100, dtype=torch.bool)
    assert explained_variance(target + 5, target, live) == pytest.approx(1, abs=1e-6)
    assert explained_variance(torch.zeros(100), target, live) == pytest.approx(0, abs=1e-6)
    assert explained_variance(target, torch.ones(100), live) == 0
