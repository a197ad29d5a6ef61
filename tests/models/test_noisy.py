"""A noisy layer is a linear layer with the explicit weights of its noise."""

from math import sqrt

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rlpyt.models.noisy import NoisyLinear, noise_factors
from rlpyt.models.options import QNetworkOptions

IN, OUT = 7, 5


def layer(**options: object) -> NoisyLinear:
    torch.manual_seed(0)
    return NoisyLinear(IN, OUT, QNetworkOptions(noisy=True, **options), gain=sqrt(2))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def explicit(noisy: NoisyLinear, n_in: Tensor, n_out: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and bias of one draw: mu + sigma * eps, eps[i, j] = f(n_out[i]) f(n_in[j])."""
    f_in, f_out = (x.sign() * x.abs() ** 0.5 for x in (n_in, n_out))
    weight = noisy.weight + noisy.weight_sigma * (f_out[:, None] * f_in[None, :])
    return weight, noisy.bias + noisy.bias_sigma * f_out


def test_one_draw_for_all_rows_equals_the_explicit_weights_forward_and_backward() -> None:
    noisy, x = layer(), randn(3, 4, IN)
    n_in, n_out = randn(IN, seed=1), randn(OUT, seed=2)
    found = noisy(x, noise_factors(n_in), noise_factors(n_out))
    expected = F.linear(x, *explicit(noisy, n_in, n_out))
    torch.testing.assert_close(found, expected)
    parameters = list(noisy.parameters())
    got = torch.autograd.grad(found.square().sum(), parameters)
    want = torch.autograd.grad(expected.square().sum(), parameters)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)
        assert g.any()


def test_a_draw_of_each_row_equals_each_row_s_explicit_weights() -> None:
    noisy, x = layer(), randn(6, IN)
    n_in, n_out = randn(6, IN, seed=1), randn(6, OUT, seed=2)
    found = noisy(x, noise_factors(n_in), noise_factors(n_out))
    rows = [F.linear(x[b], *explicit(noisy, n_in[b], n_out[b])) for b in range(6)]
    torch.testing.assert_close(found, torch.stack(rows))
    assert (found - F.linear(x, noisy.weight, noisy.bias)).abs().min() > 0


def test_factors_are_the_signed_roots() -> None:
    n = torch.tensor([-4.0, -0.25, 0.0, 1.0, 9.0])
    assert noise_factors(n).tolist() == [-2.0, -0.5, 0.0, 1.0, 3.0]


@pytest.mark.parametrize("sigma", [0.5, 0.1])
def test_weights_begin_as_published(sigma: float) -> None:
    noisy = layer(noisy_sigma=sigma)
    scale = sigma / sqrt(IN)
    torch.testing.assert_close(noisy.weight_sigma, torch.full((OUT, IN), scale))
    torch.testing.assert_close(noisy.bias_sigma, torch.full((OUT,), scale))
    wide = NoisyLinear(100, 300, QNetworkOptions(noisy=True), gain=1.0)
    for mean in (wide.weight.detach(), wide.bias.detach()):  # uniform between -1/10 and 1/10
        assert 0.09 < float(mean.abs().max()) <= 0.1
        assert float(mean.std()) == pytest.approx(0.1 / sqrt(3), rel=0.1)


def test_orthogonal_means_have_their_gain() -> None:
    noisy = layer(orthogonal_init=True)
    torch.testing.assert_close(noisy.weight @ noisy.weight.T, 2 * torch.eye(OUT))
    assert not noisy.bias.any()
    assert (noisy.weight_sigma > 0).all()


def test_noise_averages_out_to_the_mean_weights() -> None:
    noisy, x = layer(), randn(IN).expand(20000, IN)
    out = noisy(
        x, noise_factors(randn(20000, IN, seed=1)), noise_factors(randn(20000, OUT, seed=2))
    )
    mean = F.linear(x[0], noisy.weight, noisy.bias)
    torch.testing.assert_close(out.mean(0), mean, rtol=0, atol=0.03)
