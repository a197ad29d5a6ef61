"""Independent normal numbers, squashed into (-1, 1)."""

from __future__ import annotations

from math import log, pi, prod
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import softplus

LOG_STD_RANGE: Final = (-20.0, 2.0)
"""As in the published code of Haarnoja et al. (2018)."""


@final
class SquashedGaussian:
    """Actions u = tanh(x) of normal numbers x, given by (mean [..., d], log_std [..., d]) of these.

    Actions are float [..., *shape] in [-1, 1]: in float32 both ends are reached, from |x| = 9 on.
    Therefore a density is given beside the action, from x, and not found from u afterwards.
    """

    uniforms = 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        """shape: of one action."""
        self.shape = shape
        self.size = self.normals = prod(shape)
        self.outputs = 2 * self.size

    def parameters(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs [..., 2 d] are the mean and log_std, which is clamped."""
        mean, log_std = output.chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    def mode(self, parameters: tuple[Tensor, Tensor]) -> Tensor:
        """tanh(mean), the median of each dimension, [..., *shape]."""
        return self._shaped(parameters[0].tanh())

    def sample(self, parameters: tuple[Tensor, Tensor], noise: Tensor) -> Tensor:
        """The action that normal noise [..., d] draws, [..., *shape]."""
        mean, log_std = parameters
        return self._shaped(torch.addcmul(mean, log_std.exp(), noise).tanh())

    def sample_log_prob(
        self, parameters: tuple[Tensor, Tensor], noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The action that normal noise draws, and its log-density (Haarnoja et al., 2018, eq. 21).

        log pi(u) = log N(x; mean, std) - sum log(1 - tanh(x)^2).

        Args:
            noise: [..., d] or [..., *shape].

        Returns:
            action [..., *shape], and the density's logarithm summed over dimensions, [...].
        """
        mean, log_std = parameters
        noise = noise.reshape(mean.shape)
        x = torch.addcmul(mean, log_std.exp(), noise)
        log_prob = -0.5 * (noise.square() + log(2 * pi)) - log_std - log_slope(x)
        return self._shaped(x.tanh()), log_prob.sum(-1)

    def _shaped(self, u: Tensor) -> Tensor:
        return u if len(self.shape) == 1 else u.reshape(u.shape[:-1] + self.shape)


def log_slope(x: Tensor) -> Tensor:
    """log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), [...], at any x without cancellation."""
    return 2 * (log(2) - x - softplus(-2 * x))
