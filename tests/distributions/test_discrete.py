"""Categorical, multi-categorical and Bernoulli actions."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch import distributions as reference

from rlpyt.distributions import Bernoulli, Categorical, MultiCategorical
from rlpyt.distributions.categorical import flat_where_zero

BELOW_ONE = 1 - 2**-24  # the largest float32 below 1
DRAWS = 1_000_000
seeds = st.integers(0, 2**32 - 1)


def uniforms(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def logits(*shape: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def assert_frequencies(found: Tensor, p: Tensor) -> None:
    """Within five standard deviations of p."""
    bound = 5 * (p * (1 - p) / DRAWS).sqrt() + 1e-7
    assert ((found - p).abs() <= bound).all(), (found, p)


@settings(max_examples=50, deadline=None)
@given(leading=st.lists(st.integers(1, 4), max_size=3), n=st.integers(1, 9), seed=seeds)
def test_categorical_equals_the_reference(leading, n, seed):
    ours = Categorical(n)
    p, q = logits(2, *leading, n, seed=seed)
    theirs, other = reference.Categorical(logits=p), reference.Categorical(logits=q)
    action = ours.sample(p, uniforms(*leading, 1, seed=seed))
    assert action.dtype == torch.int64
    assert action.shape == torch.Size(leading)
    log_prob, entropy = ours.log_prob_entropy(p, action)
    torch.testing.assert_close(log_prob, theirs.log_prob(action))
    torch.testing.assert_close(ours.log_prob(p, action), log_prob)
    torch.testing.assert_close(entropy, theirs.entropy())
    torch.testing.assert_close(ours.kl(p, q), reference.kl_divergence(theirs, other))
    assert torch.equal(ours.sample(p, None), p.argmax(-1))


@settings(max_examples=50, deadline=None)
@given(
    leading=st.lists(st.integers(1, 4), max_size=2),
    nvec=st.lists(st.integers(1, 6), min_size=1, max_size=5).map(tuple),
    seed=seeds,
)
def test_multi_categorical_is_the_sum_over_its_components(leading, nvec, seed):
    ours = MultiCategorical(nvec)
    assert (ours.size, ours.uniforms, ours.normals) == (sum(nvec), len(nvec), 0)
    p, q = logits(2, *leading, sum(nvec), seed=seed)
    u = uniforms(*leading, len(nvec), seed=seed)
    action = ours.sample(p, u)
    assert action.shape == (*leading, len(nvec))
    expected, best = torch.zeros(3, *leading, dtype=torch.float64), []
    for k, (n, a, b) in enumerate(zip(nvec, p.split(nvec, -1), q.split(nvec, -1), strict=True)):
        part = Categorical(n)
        assert torch.equal(action[..., k], part.sample(a, u[..., k : k + 1]))
        expected += torch.stack((*part.log_prob_entropy(a, action[..., k]), part.kl(a, b)))
        best.append(a.argmax(-1))
    found = torch.stack((*ours.log_prob_entropy(p, action), ours.kl(p, q)))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.log_prob(p, action), found[0])
    assert torch.equal(ours.sample(p, None), torch.stack(best, -1))


@settings(max_examples=50, deadline=None)
@given(
    leading=st.lists(st.integers(1, 4), max_size=2),
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    seed=seeds,
)
def test_bernoulli_equals_the_reference(leading, shape, seed):
    ours = Bernoulli(shape)
    p, q = logits(2, *leading, ours.size, seed=seed)
    theirs, other = reference.Bernoulli(logits=p), reference.Bernoulli(logits=q)
    action = ours.sample(p, uniforms(*leading, ours.uniforms, seed=seed))
    assert action.dtype == torch.bool
    assert action.shape == (*leading, *shape)
    log_prob, entropy = ours.log_prob_entropy(p, action)
    bits = action.reshape(p.shape).double()
    torch.testing.assert_close(log_prob, theirs.log_prob(bits).sum(-1))
    torch.testing.assert_close(ours.log_prob(p, action), log_prob)
    torch.testing.assert_close(entropy, theirs.entropy().sum(-1))
    torch.testing.assert_close(ours.kl(p, q), reference.kl_divergence(theirs, other).sum(-1))
    assert torch.equal(ours.sample(p, None), (p > 0).reshape(action.shape))


def test_bernoulli_entropy_and_log_prob_are_exact_far_from_zero():
    ours, x = Bernoulli((1,)), torch.tensor([[-1e9], [-30.0], [0.0], [30.0], [1e9]])
    log_prob, entropy = ours.log_prob_entropy(x, x > 0)
    tail = math.exp(-30)
    expected = torch.tensor([0.0, tail * 31, math.log(2), tail * 31, 0.0])
    torch.testing.assert_close(entropy, expected, rtol=1e-6, atol=0)
    expected = torch.tensor([0.0, -tail, -math.log(2), -tail, 0.0])
    torch.testing.assert_close(log_prob, expected, rtol=1e-6, atol=0)


def test_categorical_draws_in_proportion():
    x = logits(6).float()
    action = Categorical(6).sample(x.expand(DRAWS, 6), uniforms(DRAWS, 1))
    assert_frequencies(action.bincount(minlength=6) / DRAWS, x.softmax(-1))


def test_logits_of_half_precision_are_drawn_in_proportion_too():
    x, u = torch.zeros(100, dtype=torch.bfloat16), torch.arange(10_000) / 10_000
    found = Categorical(100).sample(x.expand(10_000, 100), u.unsqueeze(-1)).bincount() / 10_000
    torch.testing.assert_close(found, torch.full((100,), 0.01), rtol=0, atol=2e-4)


def test_multi_categorical_draws_in_proportion_and_independently():
    x = logits(5).float()
    action = MultiCategorical((2, 3)).sample(x.expand(DRAWS, 5), uniforms(DRAWS, 2))
    found = (action[:, 0] * 3 + action[:, 1]).bincount(minlength=6) / DRAWS
    assert_frequencies(found, torch.outer(x[:2].softmax(-1), x[2:].softmax(-1)).flatten())


def test_bernoulli_draws_in_proportion():
    x = logits(4).float()
    bits = Bernoulli((4,)).sample(x.expand(DRAWS, 4), uniforms(DRAWS, 4))
    assert_frequencies(bits.float().mean(0), x.sigmoid())


def every_mask(n: int) -> Tensor:
    """The masks of n actions that leave one or more, [2^n - 1, n]."""
    return torch.tensor(list(product((False, True), repeat=n)))[1:]


def edges(x: Tensor) -> Tensor:
    """Uniform numbers at both ends, and at and beside each cumulative sum, [k, ..., 1]."""
    c = x.softmax(-1, torch.float32).cumsum(-1)
    steps = (c / c[..., -1:]).clamp(max=BELOW_ONE).movedim(-1, 0).unsqueeze(-1)  # [n, ..., 1]
    zero = torch.zeros_like(steps[:1])
    below, above = steps.nextafter(zero), steps.nextafter(zero + 1).clamp(max=BELOW_ONE)
    return torch.cat((zero, zero + 2**-24, zero + BELOW_ONE, below, steps, above))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("masked", ["by mask", "by underflow"])
def test_an_action_of_probability_zero_is_never_drawn(n, masked):
    allowed = every_mask(n)
    for seed, scale in product(range(5), (0.0, 1.0, 10.0)):
        x = logits(len(allowed), n, seed=seed, scale=scale).float()
        ours = Categorical(n)
        x = ours.mask(x, allowed) if masked == "by mask" else x.where(allowed, -300.0)
        for u in edges(x):
            action = ours.sample(x, u)
            assert ((action >= 0) & (action < n)).all()
            assert allowed.gather(-1, action.unsqueeze(-1)).all()


@pytest.mark.parametrize("n", [2, 33, 1000])
def test_sums_in_another_order_stay_where_an_action_has_no_probability(n):
    """As a GPU adds a single row: partial sums, each rounded by itself."""
    torch.manual_seed(n)
    p = torch.rand(50, n) * (torch.rand(50, n) < 0.5)
    p[:, 0], p[:, -1] = 0, torch.rand(50)
    in_order = p.cumsum(-1)
    others = in_order * (1 + torch.finfo(p.dtype).eps * torch.randint(-1, 2, p.shape))
    found = flat_where_zero(p, others)
    moved = found.diff(dim=-1, prepend=torch.zeros(50, 1))
    assert (moved >= 0).all() and (moved[p == 0] == 0).all()
    torch.testing.assert_close(found, in_order)
    assert torch.equal(flat_where_zero(p, in_order), in_order)
    changed = others.diff(dim=-1, prepend=torch.zeros(50, 1))[p == 0]
    assert n == 2 or (changed != 0).any()  # control


def test_control_comparing_with_one_instead_of_the_sum_draws_an_action_that_does_not_exist():
    x = logits(1000, 7).float()
    c = x.softmax(-1).cumsum(-1)
    assert ((c <= BELOW_ONE).sum(-1) == 7).any()
    assert (Categorical(7).sample(x, torch.full((1000, 1), BELOW_ONE)) < 7).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_both_ends_of_the_uniform_numbers_draw_the_first_and_last_action(dtype):
    ours, x = Categorical(5), torch.zeros(1, 5, dtype=dtype)
    allowed = torch.tensor([[False, True, False, True, False]])
    for parameters, ends in ((x, [0, 4]), (ours.mask(x, allowed), [1, 3])):
        found = [int(ours.sample(parameters, torch.tensor([[u]]))) for u in (0.0, BELOW_ONE)]
        assert found == ends


@pytest.mark.parametrize("only", range(4))
def test_a_mask_that_leaves_one_action_gives_it_probability_one(only):
    ours, allowed = Categorical(4), torch.arange(4) == only
    x = logits(4, scale=20).float().requires_grad_()
    masked = ours.mask(x, allowed)
    assert (ours.sample(masked.expand(DRAWS, 4), uniforms(DRAWS, 1)) == only).all()
    assert ours.sample(masked, None) == only
    log_prob, entropy = ours.log_prob_entropy(masked, torch.tensor(only))
    assert (log_prob, entropy) == (0, 0)
    (log_prob + entropy).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_a_masked_categorical_is_the_one_over_what_is_left(scale):
    allowed = torch.tensor([False, True, True, False, True, False])
    x = logits(100, 6, scale=scale).float().requires_grad_()
    ours = Categorical(6)
    action = torch.tensor([1, 2, 4])[torch.randint(3, (100,))]
    masked = ours.mask(x, allowed)
    log_prob, entropy = ours.log_prob_entropy(masked, action)
    left = x[:, allowed]
    torch.testing.assert_close(entropy, reference.Categorical(logits=left).entropy())
    expected = (left.log_softmax(-1) * (action.unsqueeze(-1) == torch.tensor([1, 2, 4]))).sum(-1)
    torch.testing.assert_close(log_prob, expected)
    q = ours.mask(x.flip(0), allowed)
    expected = Categorical(3).kl(left, left.flip(0))
    torch.testing.assert_close(ours.kl(masked, q), expected)
    (log_prob.exp() + entropy + ours.kl(masked, q)).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert not x.grad[:, ~allowed].any()


def test_log_prob_of_a_masked_action_is_finite_and_its_probability_zero():
    ours = MultiCategorical((3,) * 20)
    allowed = torch.tensor([True, True, False]).repeat(20)
    x = ours.mask(torch.zeros(60), allowed).requires_grad_()
    log_prob = ours.log_prob(x, torch.full((20,), 2))
    assert log_prob.isfinite()
    assert log_prob.exp() == 0
    log_prob.backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_mask_without_an_action_is_read_as_all_of_them():
    x = logits(2, 5)
    allowed = torch.tensor([[False] * 5, [True, False, False, False, True]])
    masked = Categorical(5).mask(x, allowed)
    assert torch.equal(masked[0], x[0])
    assert masked[1, 1:4].max() < -1e8
    per_component = MultiCategorical((2, 3)).mask(x, allowed)
    assert torch.equal(per_component[0], x[0])
    assert torch.equal(per_component[1, :1], x[1, :1])
    assert torch.equal(per_component[1, 4:], x[1, 4:])


def test_multi_categorical_masks_each_component():
    ours = MultiCategorical((2, 3))
    masked = ours.mask(torch.zeros(5), torch.tensor([False, True, True, False, False]))
    for u in (0.0, BELOW_ONE):
        assert ours.sample(masked, torch.tensor([u, u])).tolist() == [1, 0]
    assert ours.sample(masked, None).tolist() == [1, 0]
    _, entropy = ours.log_prob_entropy(masked, torch.tensor([1, 0]))
    assert entropy == 0


def test_masked_bits_are_false_and_certain_bits_true():
    ours = Bernoulli((3,))
    x = ours.mask(torch.tensor([1e3, 1e3, 0.0]), torch.tensor([True, False, True]))
    for u in (0.0, BELOW_ONE):
        assert ours.sample(x, torch.full((3,), u))[:2].tolist() == [True, False]


def test_the_same_noise_gives_the_same_action_whatever_stands_beside_it():
    ours, x, u = Categorical(6), logits(8, 6).float(), uniforms(8, 1)
    together = ours.sample(x, u)
    assert all(int(ours.sample(x[b], u[b])) == int(together[b]) for b in range(8))
