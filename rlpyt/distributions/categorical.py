"""One choice of n."""

from typing import Final, final

import torch
from torch import Tensor

MASKED: Final = -1e9
"""Logit of a masked action. Its probability is exactly 0 in float32; finite, so that gradients
and p log p are finite too, and sums over many components do not overflow."""


@final
class Categorical:
    """One of n actions, given by logits [..., n]; actions are int64 [...], from 0."""

    scales = 0
    uniforms = 1
    normals = 0

    def __init__(self, n: int) -> None:
        """n: how many actions there are."""
        self.size = self.mask_size = n

    def parameters(self, output: Tensor, log_std: Tensor) -> Tensor:
        """The outputs are the logits; log_std [0] is empty."""
        return output

    def sample(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """The action that the uniform noise [..., 1] draws, by the inverse of the cumulative sum.

        The action is the number of c[i] <= u c[n-1]. u < 1 gives u c < c also when rounded, so it
        is less than n; p[i] = 0 gives c[i] = c[i-1], so such an action is never drawn (on a CPU;
        elsewhere it is made so).
        """
        if noise is None:
            return logits.argmax(-1)
        c = logits.softmax(-1, torch.float32).cumsum(-1)
        if not logits.is_cpu:
            c = flat_where_zero(logits.softmax(-1, torch.float32), c)
        drawn = noise * c.narrow(-1, self.size - 1, 1)
        return torch.searchsorted(c, drawn, right=True).squeeze(-1)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """Log-probability of action [...], [...]."""
        return logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def log_prob_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of action [...], and -sum p log p, each [...]."""
        log_p = logits.log_softmax(-1)  # [..., n]
        entropy = -(log_p.exp() * log_p).sum(-1)
        return log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1), entropy

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """sum p (log p - log q), from logits [..., n], [...]."""
        log_p = p.log_softmax(-1)
        return (log_p.exp() * (log_p - q.log_softmax(-1))).sum(-1)

    def mask(self, logits: Tensor, mask: Tensor) -> Tensor:
        """Only actions where mask [..., n] is True are left; where none is, all are.

        (A mask without any action can stand on the final row of an episode, where it says nothing.)
        """
        return torch.where(mask | ~mask.any(-1, keepdim=True), logits, MASKED)


def flat_where_zero(p: Tensor, c: Tensor) -> Tensor:
    """Cumulative sums c of p, [..., n] each, made to stay where p is 0, in whatever order they were
    added.

    A CPU adds from left to right. A GPU adds partial sums, of a single row in such an order that
    c[i] and c[i-1] can differ by rounding where p[i] = 0: an action that is masked would be drawn,
    once in millions of rows.
    """
    return torch.where(p > 0, c, 0.0).cummax(-1).values
