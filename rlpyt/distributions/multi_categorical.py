"""Several independent choices, of n_1, n_2, … each."""

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from rlpyt.distributions.categorical import MASKED, Categorical


@final
class MultiCategorical:
    """K independent choices of nvec[k] each, given by their logits side by side, [..., sum(nvec)];
    actions are int64 [..., K], from 0.

    Computed as one categorical of [..., K, max(nvec)], whose additional actions are masked.
    """

    scales = 0
    normals = 0

    def __init__(self, nvec: tuple[int, ...]) -> None:
        """nvec: how many actions each component has."""
        self.nvec = nvec
        self.size = self.mask_size = sum(nvec)
        self.uniforms = len(nvec)
        self._ragged = len(set(nvec)) > 1
        self._each = Categorical(max(nvec))

    def parameters(self, output: Tensor, log_std: Tensor) -> Tensor:
        """The outputs are the logits; log_std [0] is empty."""
        return output

    def sample(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """The action [..., K] that uniform noise [..., K] draws, one number a component."""
        noise = None if noise is None else noise.unsqueeze(-1)
        return self._each.sample(self._components(logits), noise)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        """Log-probability of action [..., K], summed over components, [...]."""
        return self._each.log_prob(self._components(logits), action).sum(-1)

    def log_prob_entropy(self, logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of action [..., K], and entropy, both summed over components, [...]."""
        log_prob, entropy = self._each.log_prob_entropy(self._components(logits), action)
        return log_prob.sum(-1), entropy.sum(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """KL divergence, summed over components, from logits [..., sum(nvec)], [...]."""
        return self._each.kl(self._components(p), self._components(q)).sum(-1)

    def mask(self, logits: Tensor, mask: Tensor) -> Tensor:
        """As `Categorical.mask` in each component; mask [..., sum(nvec)], in the logits' order."""
        parts = zip(logits.split(self.nvec, -1), mask.split(self.nvec, -1), strict=True)
        return torch.cat([self._each.mask(x, m) for x, m in parts], -1)

    def _components(self, logits: Tensor) -> Tensor:
        """[..., sum(nvec)] -> [..., K, max(nvec)]."""
        n = self._each.size
        if not self._ragged:
            return logits.unflatten(-1, (-1, n))
        parts = logits.split(self.nvec, -1)
        return torch.stack([pad(x, (0, n - x.shape[-1]), value=MASKED) for x in parts], -2)
