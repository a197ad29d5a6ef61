"""Several independent bits."""

from math import prod
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from rlpyt.distributions.categorical import MASKED


@final
class Bernoulli:
    """d independent bits, given by the logits of True, [..., d]; actions are bool [..., *shape]."""

    scales = 0
    normals = 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        """shape: of one action."""
        self.shape = shape
        self.size = self.mask_size = self.uniforms = prod(shape)

    def parameters(self, output: Tensor, log_std: Tensor) -> Tensor:
        """The outputs are the logits; log_std [0] is empty."""
        return output

    def sample(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """The action that uniform noise [..., d] draws, one number a bit: u < p."""
        bits = logits > 0 if noise is None else noise < logits.sigmoid()
        return bits.reshape(bits.shape[:-1] + self.shape)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """Log-probability of action [..., *shape], summed over bits, [...]."""
        bits = action.reshape(logits.shape)
        return logsigmoid(torch.where(bits, logits, -logits)).sum(-1)

    def log_prob_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of action [..., *shape], and entropy, both summed over bits, [...]."""
        x = logits.abs()  # entropy is even in the logit; on this side nothing cancels
        entropy = (softplus(-x) + x * (-x).sigmoid()).sum(-1)
        return self.log_prob(logits, action), entropy

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """KL divergence, summed over bits, from logits [..., d], [...]."""
        of_true = p.sigmoid() * (logsigmoid(p) - logsigmoid(q))
        of_false = (-p).sigmoid() * (logsigmoid(-p) - logsigmoid(-q))
        return (of_true + of_false).sum(-1)

    def mask(self, logits: Tensor, mask: Tensor) -> Tensor:
        """Bits are False where mask [..., d] is."""
        return torch.where(mask, logits, MASKED)
