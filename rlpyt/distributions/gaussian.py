"""Independent normal numbers."""

from math import log, pi, prod
from typing import final

from torch import Tensor


@final
class Gaussian:
    """d independent normal numbers, given by (mean [..., d], log_std [..., d] or [d]).

    Actions are float [..., *shape], unbounded: whoever executes them clips.
    """

    mask_size = 0
    uniforms = 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        """shape: of one action."""
        self.shape = shape
        self.size = self.scales = self.normals = prod(shape)

    def parameters(self, output: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs are the mean; log_std [..., d] for each row, or [d] for all."""
        return output, log_std

    def sample(self, parameters: tuple[Tensor, Tensor], noise: Tensor | None) -> Tensor:
        """mean + std * noise, of normal noise [..., d]; without noise the mean."""
        mean, log_std = parameters
        x = mean if noise is None else mean + log_std.exp() * noise
        return x.reshape(x.shape[:-1] + self.shape)

    def log_prob(self, parameters: tuple[Tensor, Tensor], action: Tensor) -> Tensor:
        """Log-density of action [..., *shape], summed over dimensions, [...]."""
        mean, log_std = parameters
        z = (action.reshape(mean.shape) - mean) * (-log_std).exp()
        return -0.5 * (z.square() + log(2 * pi)).sum(-1) - log_std.sum(-1)

    def log_prob_entropy(
        self, parameters: tuple[Tensor, Tensor], action: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Log-density of action [..., *shape], and sum(log_std + log(2 pi e) / 2), each [...]."""
        log_prob = self.log_prob(parameters, action)
        entropy = parameters[1].sum(-1) + 0.5 * self.size * (1 + log(2 * pi))
        return log_prob, entropy.expand(log_prob.shape)

    def kl(self, p: tuple[Tensor, Tensor], q: tuple[Tensor, Tensor]) -> Tensor:
        """KL divergence, summed over dimensions, [...]."""
        (mean, log_std), (q_mean, q_log_std) = p, q
        z = (mean - q_mean) * (-q_log_std).exp()
        d = log_std - q_log_std
        return 0.5 * (z.square() + (2 * d).expm1() - 2 * d).sum(-1)

    def mask(self, parameters: tuple[Tensor, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
        """Nothing can be masked: mask is [..., 0]."""
        return parameters
