"""Targets and losses of Q-learning against their papers, in loops over numbers."""

from itertools import product
from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rlpyt.functional import (
    categorical_projection,
    huber,
    masked_q,
    munchausen,
    quantile_huber,
    sequence_priority,
    soft_values,
    value_rescale,
    value_unrescale,
)

NAN = float("nan")
INF = float("inf")


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def both_signs(smallest: float, largest: float) -> Tensor:
    x = torch.logspace(log(smallest), log(largest), 4001, base=exp(1), dtype=torch.float64)
    return torch.cat((-x, torch.zeros(1, dtype=torch.float64), x))


# Value rescaling


def published_h(x: Tensor, eps: float) -> Tensor:
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + eps * x


def published_inverse(x: Tensor, eps: float) -> Tensor:
    root = (1 + 4 * eps * (x.abs() + 1 + eps)).sqrt()
    return x.sign() * (((root - 1) / (2 * eps)) ** 2 - 1)


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 1.0])
def test_rescaling_and_its_inverse_are_the_published_formulas(eps: float) -> None:
    x = both_signs(1e-3, 1e6)
    torch.testing.assert_close(value_rescale(x, eps), published_h(x, eps), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        value_unrescale(x, eps), published_inverse(x, eps), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-3, 1e-2])
def test_the_inverse_of_rescaling_is_exact_to_rounding_in_single_precision(eps: float) -> None:
    x = both_signs(1e-8, 1e6).float()
    torch.testing.assert_close(value_unrescale(value_rescale(x, eps), eps), x, rtol=1e-6, atol=0)
    torch.testing.assert_close(value_rescale(value_unrescale(x, eps), eps), x, rtol=1e-6, atol=0)


def test_control_the_published_inverse_is_not() -> None:
    x = both_signs(1e-3, 1e4).float()
    back = published_inverse(published_h(x, 1e-3), 1e-3)
    assert ((back - x).abs() > 1e-3 * x.abs()).any()


def test_rescaling_grows_everywhere_and_has_its_gradient_at_zero() -> None:
    x = both_signs(1e-6, 1e6).sort().values
    assert (value_rescale(x, 1e-3).diff() > 0).all()
    zero = torch.zeros(1, requires_grad=True)
    value_rescale(zero, 1e-3).backward()
    torch.testing.assert_close(zero.grad, torch.tensor([0.5 + 1e-3]))


# Huber


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_huber_is_half_the_square_and_then_linear(delta: float) -> None:
    error = torch.linspace(-5, 5, 101, dtype=torch.float64, requires_grad=True)
    expected = [0.5 * e**2 if abs(e) <= delta else delta * (abs(e) - delta / 2) for e in error]
    torch.testing.assert_close(huber(error, delta), torch.stack(expected))
    huber(error, delta).sum().backward()
    torch.testing.assert_close(error.grad, error.detach().clamp(-delta, delta))


# Categorical projection


def projected(
    support: list[float], probabilities: list[float], reward: float, discount: float
) -> list[float]:
    """Algorithm 1, atom by atom; an atom that moves to an atom keeps its mass."""
    k = len(support)
    mass = [0.0] * k
    for p, z in zip(probabilities, support, strict=True):
        moved = min(max(reward + discount * z, support[0]), support[-1])
        upper = next(i for i in range(k) if support[i] >= moved)
        if support[upper] == moved:
            mass[upper] += p
            continue
        lower = upper - 1
        share = (moved - support[lower]) / (support[upper] - support[lower])
        mass[lower] += p * (1 - share)
        mass[upper] += p * share
    return mass


@settings(max_examples=60, deadline=None)
@given(
    atoms=st.integers(2, 12),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.1, 1.0, 20.0]),
    discount=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_projection_equals_the_algorithm_atom_by_atom(
    atoms: int, seed: int, scale: float, discount: float
) -> None:
    support = torch.linspace(-10, 10, atoms, dtype=torch.float64)
    p = randn(3, 2, atoms, seed=seed).softmax(-1)
    reward = scale * randn(3, 2, seed=seed + 1)
    found = categorical_projection(support, p, reward, torch.full_like(reward, discount))
    for i, j in product(range(3), range(2)):
        expected = projected(support.tolist(), p[i, j].tolist(), float(reward[i, j]), discount)
        torch.testing.assert_close(found[i, j], torch.tensor(expected, dtype=torch.float64))


def test_mass_that_moves_exactly_to_an_atom_all_goes_there() -> None:
    support = torch.linspace(-10, 10, 51)
    p = randn(51, 51, dtype=torch.float32).softmax(-1)
    found = categorical_projection(support, p, support, torch.zeros(51))
    assert torch.equal(found.argmax(-1), torch.arange(51))
    assert torch.equal(found > 0, torch.eye(51, dtype=torch.bool))
    torch.testing.assert_close(found, torch.eye(51))
    # Nothing moves: every atom is on an atom.
    stay = categorical_projection(support, p, torch.zeros(51), torch.ones(51))
    assert torch.equal(stay, p)


def test_mass_beyond_an_end_all_goes_to_the_end() -> None:
    support = torch.linspace(-10, 10, 51)
    p = randn(4, 51, dtype=torch.float32).softmax(-1)
    reward = torch.tensor([10.0, 1e6, -10.0, -1e6])
    for discount in (0.0, 1e-3):
        found = categorical_projection(support, p, 3 * reward, torch.full((4,), discount))
        expected = torch.zeros(4, 51)
        expected[:2, -1] = expected[2:, 0] = 1
        torch.testing.assert_close(found, expected)
        assert torch.equal(found > 0, expected > 0)


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_mass_is_kept_and_inside_the_ends_the_mean_moves_by_reward_and_discount(
    discount: float,
) -> None:
    support = torch.linspace(-10, 10, 51, dtype=torch.float64)
    middle = (support.abs() < 5).double()
    p = randn(100, 51).exp() * middle
    p = p / p.sum(-1, keepdim=True)
    reward = randn(100, seed=1)
    found = categorical_projection(support, p, reward, torch.full_like(reward, discount))
    torch.testing.assert_close(found.sum(-1), torch.ones(100, dtype=torch.float64))
    torch.testing.assert_close(found @ support, reward + discount * (p @ support))


def test_rewards_may_lie_in_any_order_in_memory() -> None:
    support, p, reward = torch.linspace(-1, 1, 5), randn(3, 2, 5).softmax(-1).float(), randn(2, 3)
    turned = reward.float().T
    found = categorical_projection(support, p, turned, torch.full_like(turned, 0.9))
    copied = categorical_projection(support, p, turned.contiguous(), torch.full((3, 2), 0.9))
    assert not turned.is_contiguous() and torch.equal(found, copied)


def test_after_a_termination_nothing_is_read_of_the_distribution() -> None:
    support = torch.linspace(-2, 2, 5)
    p = torch.full((5,), NAN)
    found = categorical_projection(support, p, torch.tensor(0.5), torch.tensor(0.0))
    assert found.tolist() == pytest.approx([0, 0, 0.5, 0.5, 0])


def test_control_the_algorithm_as_printed_loses_mass_on_atoms() -> None:
    """Shares u - b and b - l with l = floor(b), u = ceil(b)."""
    b = (torch.linspace(-2, 2, 5) + 2) / 1  # reward 0, discount 1
    assert ((b.ceil() - b) + (b - b.floor()) == 0).all()


# Quantiles


def pairs(prediction: Tensor, target: Tensor, fractions: Tensor, kappa: float) -> Tensor:
    """Sum over predictions of the mean over targets, pair by pair; differentiable."""
    total = prediction.new_zeros(())
    for i, j in product(range(len(prediction)), range(len(target))):
        u = target[j] - prediction[i]
        if kappa == 0:
            size = u.abs()
        elif u.abs() <= kappa:
            size = 0.5 * u**2 / kappa
        else:
            size = u.abs() - 0.5 * kappa
        total = total + (fractions[i] - (1.0 if u < 0 else 0.0)).abs() * size / len(target)
    return total


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("shared", [False, True])
def test_quantile_huber_and_its_gradient_equal_the_sum_over_pairs(
    kappa: float, shared: bool
) -> None:
    prediction = randn(2, 3, 5, seed=1).requires_grad_()
    target = 2 * randn(2, 3, 4, seed=2)
    shape = (5,) if shared else (2, 3, 5)
    fractions = torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = quantile_huber(prediction, target, fractions, kappa)
    each = fractions.expand(2, 3, 5)
    rows = zip(prediction.flatten(0, 1), target.flatten(0, 1), each.flatten(0, 1), strict=True)
    expected = torch.stack([pairs(*row, kappa) for row in rows]).view(2, 3)
    torch.testing.assert_close(found, expected)
    (got,) = torch.autograd.grad(found.sum(), prediction)
    (want,) = torch.autograd.grad(expected.sum(), prediction)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.5, 0.9])
def test_the_quantile_loss_is_least_at_the_quantile(fraction: float) -> None:
    target = torch.arange(100, dtype=torch.float64)
    candidates = torch.linspace(0, 99, 991, dtype=torch.float64)
    loss = quantile_huber(
        candidates.unsqueeze(-1), target, torch.tensor([fraction], dtype=torch.float64), 0.0
    )
    assert abs(float(candidates[loss.argmin()]) - 100 * fraction) <= 1


# Masks


@pytest.mark.parametrize("q", [-1e30, -5.0, 1e30])
def test_neither_maximum_nor_softmax_chooses_what_is_masked(q: float) -> None:
    values = torch.tensor([q, q - 1.0, q + 1.0])
    mask = torch.tensor([[True, True, False], [False, True, False]])
    masked = masked_q(values.expand(2, 3), mask)
    assert (masked.argmax(-1) != 2).all() and masked.isfinite().all()
    assert masked[1].argmax() == 1
    assert masked.softmax(-1)[~mask].abs().sum() == 0
    assert torch.equal(masked[mask], values.expand(2, 3)[mask])


def test_a_mask_without_any_action_says_nothing_and_none_is_no_mask() -> None:
    q = randn(2, 3)
    assert masked_q(q, None) is q
    assert torch.equal(masked_q(q, torch.zeros(2, 3, dtype=torch.bool)), q)


# Munchausen


def log_policy(q: list[float], allowed: list[bool], temperature: float) -> list[float]:
    """log softmax(q / temperature) over allowed actions; -inf of the others."""
    top = max(v for v, a in zip(q, allowed, strict=True) if a)
    total = sum(exp((v - top) / temperature) for v, a in zip(q, allowed, strict=True) if a)
    return [
        (v - top) / temperature - log(total) if a else -INF for v, a in zip(q, allowed, strict=True)
    ]


MASKS = [[True] * 4, [True, False, True, True], [False, False, False, True]]


@pytest.mark.parametrize("temperature", [0.03, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_munchausen_and_soft_values_equal_sums_over_actions(
    temperature: float, masked: bool
) -> None:
    q, z = randn(3, 4, seed=4), randn(3, 4, 5, seed=5)
    mask = torch.tensor(MASKS) if masked else None
    action = torch.tensor([1, 2, 3])
    bonus = munchausen(q, action, temperature, 0.9, -1.0, mask)
    values = soft_values(z, q, temperature, mask)
    for row in range(3):
        allowed = MASKS[row] if masked else [True] * 4
        log_p = log_policy(q[row].tolist(), allowed, temperature)
        scaled = temperature * log_p[int(action[row])]
        assert float(bonus[row]) == pytest.approx(0.9 * min(0.0, max(-1.0, scaled)))
        for n in range(5):
            expected = sum(
                exp(log_p[a]) * (float(z[row, a, n]) - temperature * log_p[a])
                for a in range(4)
                if allowed[a]
            )
            assert float(values[row, n]) == pytest.approx(expected)


def test_soft_values_of_means_are_a_log_sum_and_at_low_temperature_the_maximum() -> None:
    q = randn(6, 3)
    for temperature in (0.5, 5.0):
        expected = temperature * (q / temperature).logsumexp(-1, keepdim=True)
        torch.testing.assert_close(soft_values(q.unsqueeze(-1), q, temperature), expected)
    cold = soft_values(q.unsqueeze(-1), q, 1e-6)
    torch.testing.assert_close(cold, q.amax(-1, keepdim=True))


def test_values_masked_before_give_what_masks_give() -> None:
    q, z, mask = randn(3, 4), randn(3, 4, 5, seed=1), torch.tensor(MASKS)
    found = soft_values(z, masked_q(q, mask), 0.03)  # divided by 0.03 they are infinite
    torch.testing.assert_close(found, soft_values(z, q, 0.03, mask))
    action = torch.tensor([0, 2, 3])
    found = munchausen(masked_q(q, mask), action, 0.03, 0.9, -1.0)
    torch.testing.assert_close(found, munchausen(q, action, 0.03, 0.9, -1.0, mask))


def test_munchausen_takes_nothing_from_the_greedy_action_at_low_temperature() -> None:
    q = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    bonus = munchausen(q, torch.tensor([0, 1]), 0.03, 0.9, -1.0)
    assert bonus.tolist() == pytest.approx([0.0, -0.9])


# Priorities of sequences


def test_a_sequences_priority_mixes_maximum_and_mean_over_live_rows() -> None:
    error = randn(7, 5)
    live = torch.rand(7, 5, generator=torch.Generator().manual_seed(1)) < 0.6
    live[:, 4] = False
    error = error.where(live, NAN)
    found = sequence_priority(error, live, 0.9)
    for b in range(5):
        sizes = [abs(float(e)) for e, alive in zip(error[:, b], live[:, b], strict=True) if alive]
        expected = 0.9 * max(sizes) + 0.1 * sum(sizes) / len(sizes) if sizes else 0.0
        assert float(found[b]) == pytest.approx(expected)
    assert found[4] == 0


# All of them


def test_compiled_without_a_break_all_give_the_same() -> None:
    q, z, mask = randn(3, 4), randn(3, 4, 5), torch.tensor(MASKS)
    support, p = torch.linspace(-1, 1, 5, dtype=torch.float64), z[:, 0].softmax(-1)
    reward, discount = randn(3, seed=6), torch.tensor([0.0, 0.9, 1.0], dtype=torch.float64)

    def everything() -> list[Tensor]:
        return [
            value_unrescale(value_rescale(q, 1e-3), 1e-3),
            huber(q, 1.0),
            categorical_projection(support, p, reward, discount),
            quantile_huber(z[:, 0], z[:, 1], support.abs(), 1.0),
            masked_q(q, mask),
            munchausen(q, torch.tensor([0, 2, 3]), 0.03, 0.9, -1.0, mask),
            soft_values(z, q, 0.03, mask),
            sequence_priority(q, mask, 0.9),
        ]

    compiled = torch.compile(everything, backend="eager", fullgraph=True)
    for got, want in zip(compiled(), everything(), strict=True):
        torch.testing.assert_close(got, want)
