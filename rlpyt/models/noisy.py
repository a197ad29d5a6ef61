"""A linear layer with learned noise on its weights (Fortunato et al., 2018)."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.models.layers import initialized
from rlpyt.models.options import QNetworkOptions


@final
class NoisyLinear(nn.Module):
    """y = (W + s_W * eps_W) x + b + s_b * eps_b, with factorized noise (eq. 9 to 11).

    eps_W[i, j] = f(n[i]) f(n[j]) and eps_b[i] = f(n[i]) with one normal number n for each input and
    each output, so that y = W x + b + f_out * (s_W (f_in * x) + s_b). In this form the noise meets
    activations instead of weights, and every row can have its own.

    W, b and their scales s begin as in section 3.2: uniform up to 1 / sqrt(inputs), and
    sigma_0 / sqrt(inputs). Orthogonal initial weights take the place of W and b.

    Args:
        inputs, outputs: widths.
        options: noisy_sigma, and the initial weights.
        gain: of orthogonal weights.
    """

    def __init__(self, inputs: int, outputs: int, options: QNetworkOptions, gain: float) -> None:
        super().__init__()
        linear = initialized(nn.Linear(inputs, outputs), options, gain)
        self.weight, self.bias = linear.weight, linear.bias
        sigma = options.noisy_sigma * inputs**-0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma))

    def forward(self, x: Tensor, f_in: Tensor, f_out: Tensor) -> Tensor:
        """x [..., inputs] -> [..., outputs].

        Without noise, with the mean of the weights, it is F.linear of `weight` and `bias`.

        Args:
            f_in, f_out: [..., inputs], [..., outputs] `noise_factors` of each row, or [inputs],
                [outputs] of all.
        """
        noise = F.linear(x * f_in, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(F.linear(x, self.weight, self.bias), f_out, noise)


def noise_factors(normals: Tensor) -> Tensor:
    """f(n) = sign(n) sqrt(|n|) of standard normal numbers [...] (section 3, factorized noise)."""
    return normals.abs().sqrt().copysign(normals)
