"""Normal actions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as reference

from rlpyt.distributions import Gaussian


def normals(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=50, deadline=None)
@given(
    leading=st.lists(st.integers(1, 4), max_size=3),
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    shared=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_gaussian_equals_the_reference(leading, shape, shared, seed):
    ours = Gaussian(shape)
    d = math.prod(shape)
    assert (ours.size, ours.uniforms, ours.normals) == (d, 0, d)
    mean, other_mean, noise = normals(3, *leading, d, seed=seed)
    log_std, other_log_std = normals(2, *([] if shared else leading), d, seed=seed + 1)
    theirs = reference.Normal(mean, log_std.exp())
    other = reference.Normal(other_mean, other_log_std.exp())
    p, q = ours.parameters(mean, log_std), ours.parameters(other_mean, other_log_std)
    action = ours.sample(p, noise)
    assert action.shape == (*leading, *shape)
    flat = action.reshape(mean.shape)
    torch.testing.assert_close(flat, mean + log_std.exp() * noise)
    log_prob, entropy = ours.log_prob_entropy(p, action)
    torch.testing.assert_close(log_prob, theirs.log_prob(flat).sum(-1))
    torch.testing.assert_close(ours.log_prob(p, action), log_prob)
    torch.testing.assert_close(entropy, theirs.entropy().sum(-1))
    torch.testing.assert_close(ours.kl(p, q), reference.kl_divergence(theirs, other).sum(-1))
    assert torch.equal(ours.sample(p, None), mean.reshape(action.shape))


def test_density_integrates_to_one():
    x = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
    parameters = torch.full((len(x), 1), 0.3, dtype=torch.float64), torch.tensor([0.4]).double()
    density = Gaussian(()).log_prob(parameters, x).exp()
    assert float(torch.trapezoid(density, x)) == pytest.approx(1, abs=1e-9)


def test_entropy_does_not_depend_on_the_action():
    ours, parameters = Gaussian((2,)), (torch.zeros(3, 2), torch.zeros(2))
    entropies = [ours.log_prob_entropy(parameters, torch.full((3, 2), a))[1] for a in (0.0, 9.0)]
    assert torch.equal(*entropies)
    assert entropies[0].tolist() == pytest.approx([math.log(2 * math.pi * math.e)] * 3)


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_equal_the_references(shared):
    ours = Gaussian((3,))
    action = normals(5, 3, seed=7)

    def gradients(use_ours: bool) -> list[torch.Tensor]:
        mean = normals(5, 3).requires_grad_()
        log_std = (normals(3, seed=1) if shared else normals(5, 3, seed=1)).requires_grad_()
        if use_ours:
            log_prob, entropy = ours.log_prob_entropy((mean, log_std), action)
        else:
            theirs = reference.Normal(mean, log_std.exp())
            log_prob, entropy = theirs.log_prob(action).sum(-1), theirs.entropy().sum(-1)
            entropy = entropy.expand(5)
        (log_prob + 0.1 * entropy).sum().backward()
        return [x.grad for x in (mean, log_std) if x.grad is not None]

    for ours_gradient, theirs_gradient in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(ours_gradient, theirs_gradient)


def test_divergence_from_itself_is_exactly_zero():
    p = normals(4, 3), normals(4, 3, seed=1)
    assert not Gaussian((3,)).kl(p, p).any()
