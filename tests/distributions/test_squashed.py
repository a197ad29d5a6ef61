"""Normal actions squashed into (-1, 1): the density of what float32 can no longer tell apart."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as reference

from rlpyt.distributions.squashed import LOG_STD_RANGE, SquashedGaussian, log_slope


def normals(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact_log_slope(x: float) -> float:
    """log(1 - tanh(x)^2) = log(4 / (e^x + e^-x)^2), with 60 digits."""
    getcontext().prec = 60
    e = Decimal(x).exp()
    return float((4 / (e + 1 / e) ** 2).ln())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("x", [0.0, 1e-4, 0.3, 1.0, 5.0, 8.0, 9.0, 20.0, 45.0, 300.0])
def test_the_slope_of_the_squashing_is_exact_in_float32(x, sign):
    """ANCESTOR W36 was off by 0.08 at 8 and by 0.75 at 9, and stayed at log(1e-8) beyond."""
    given = torch.tensor(sign * x, dtype=torch.float32)
    assert float(log_slope(given)) == pytest.approx(
        exact_log_slope(float(given)), rel=3e-7, abs=3e-7
    )


def test_control_the_slope_from_the_squashed_number_is_off():
    u = torch.tensor(9.0).tanh()
    assert abs(float(torch.log(1 - u**2 + 1e-8)) - exact_log_slope(9.0)) > 0.5


@settings(max_examples=100, deadline=None)
@given(
    mean=st.floats(-25, 25, width=32),
    log_std=st.floats(-5, 2, width=32),
    noise=st.floats(-4, 4, width=32),
)
def test_the_density_in_float32_is_that_of_float64(mean, log_std, noise):
    """B176: at any mean and deviation, without an atanh of a clamped action."""
    ours = SquashedGaussian((1,))
    narrow = [torch.tensor([[v]], dtype=torch.float32) for v in (mean, log_std, noise)]
    _, log_prob = ours.sample_log_prob((narrow[0], narrow[1]), narrow[2])
    x = mean + math.exp(log_std) * noise
    slope = 2 * (math.log(2) - np.logaddexp(x, -x))
    expected = -0.5 * (noise**2 + math.log(2 * math.pi)) - log_std - slope
    assert float(log_prob) == pytest.approx(expected, rel=1e-6, abs=2e-6 * max(1, abs(x)))


def test_a_mean_of_20_with_a_small_deviation_has_a_finite_density_and_gradient():
    """B176."""
    ours = SquashedGaussian((2,))
    output = torch.tensor([[20.0, -20.0, -6.0, -6.0]], requires_grad=True)
    u, log_prob = ours.sample_log_prob(ours.parameters(output), torch.tensor([[0.5, -0.5]]))
    assert u.tolist() == [[1.0, -1.0]]
    expected = sum(
        -0.5 * (0.25 + math.log(2 * math.pi)) + 6 - exact_log_slope(s * (20 + math.exp(-6) / 2))
        for s in (1, -1)
    )
    assert float(log_prob.detach()) == pytest.approx(expected, rel=1e-6)
    (gradient,) = torch.autograd.grad(log_prob.sum(), output)
    # d/dx of -log(1 - tanh^2) is 2 tanh(x); of log_std it is -1 and that times x - mean
    shift = math.exp(-6) / 2
    assert gradient.tolist()[0] == pytest.approx([2, -2, -1 + 2 * shift, -1 + 2 * shift], rel=1e-5)


@settings(max_examples=50, deadline=None)
@given(
    leading=st.lists(st.integers(1, 4), max_size=3),
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    shaped=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_equals_the_reference_over_any_leading_dimensions(leading, shape, shaped, seed):
    ours, d = SquashedGaussian(shape), math.prod(shape)
    assert (ours.size, ours.uniforms, ours.normals, ours.outputs) == (d, 0, d, 2 * d)
    mean, noise = normals(2, *leading, d, seed=seed)
    log_std = 0.5 * normals(*leading, d, seed=seed + 1) - 1
    parameters = ours.parameters(torch.cat([mean, log_std], -1))
    given = noise.reshape((*leading, *shape)) if shaped else noise
    u, log_prob = ours.sample_log_prob(parameters, given)
    assert u.shape == (*leading, *shape) and log_prob.shape == tuple(leading)
    squashing = reference.TransformedDistribution(
        reference.Normal(mean, log_std.exp()), reference.TanhTransform(cache_size=1)
    )
    flat = u.reshape(mean.shape)
    torch.testing.assert_close(flat, (mean + log_std.exp() * noise).tanh())
    torch.testing.assert_close(log_prob, squashing.log_prob(flat).sum(-1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.sample(parameters, noise), u)
    assert torch.equal(ours.mode(parameters), mean.tanh().reshape(u.shape))


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.2, 1.0)])
def test_the_density_integrates_to_one_over_the_actions(mean, log_std):
    """Over u, not over x: the squashing's slope is in it."""
    x = torch.linspace(mean - 40, mean + 40, 2_000_001, dtype=torch.float64)
    noise = (x - mean) * math.exp(-log_std)
    wide = torch.full_like(noise, mean)[:, None], torch.full_like(noise, log_std)[:, None]
    u, log_prob = SquashedGaussian((1,)).sample_log_prob(wide, noise[:, None])
    inside = u[:, 0].abs() < 1 - 1e-13  # beyond, neighbours are the same number
    total = torch.trapezoid(log_prob[inside].exp(), u[inside, 0])
    assert float(total) == pytest.approx(1, abs=1e-5)


def test_log_std_is_clamped_and_takes_no_gradient_from_beyond():
    output = torch.tensor([0.0, 0.0, 0.0, -50.0, 1.0, 50.0], requires_grad=True)
    _, log_std = SquashedGaussian((3,)).parameters(output)
    assert log_std.tolist() == [LOG_STD_RANGE[0], 1.0, LOG_STD_RANGE[1]]
    (gradient,) = torch.autograd.grad(log_std.sum(), output)
    assert gradient.tolist() == [0, 0, 0, 0, 1, 0]


def test_gradients_flow_through_the_action_and_equal_differences():
    ours, noise = SquashedGaussian((2,)), normals(3, 2)

    def both(output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return ours.sample_log_prob(ours.parameters(output), noise)

    assert torch.autograd.gradcheck(both, normals(3, 4, seed=1).requires_grad_())


def test_the_mean_log_density_of_samples_is_minus_the_entropy():
    """Of a Gaussian so narrow that the squashing is a straight line: 0.5 log(2 pi e) + log_std."""
    ours, count = SquashedGaussian((1,)), 200_000
    wide = torch.zeros(count, 1).double(), torch.full((count, 1), -4.0).double()
    _, log_prob = ours.sample_log_prob(wide, normals(count, 1))
    expected = 0.5 * math.log(2 * math.pi * math.e) - 4
    assert float(-log_prob.mean()) == pytest.approx(expected, abs=5e-3)
