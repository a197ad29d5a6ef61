"""An action of several named parts."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from rlpyt.arrays import namedarraytuple
from rlpyt.distributions.distribution import Distribution


@final
class Composite:
    """Independent parts; parameters are a tuple of the parts', actions a namedarraytuple.

    Outputs, log_std and masks of the parts lie side by side. Noise is first the uniform numbers of
    all parts, then the normal numbers of all parts. Log-probabilities are summed, so that whoever
    clips their ratio clips that of the whole action.
    """

    def __init__(self, parts: Sequence[Distribution], names: Sequence[str]) -> None:
        """parts and their names, in the order in which rows store them."""
        self.parts = tuple(parts)
        self.action = namedarraytuple("Composite", tuple(names))
        self._sizes = [part.size for part in self.parts]
        self._scales = [part.scales for part in self.parts]
        self._mask_sizes = [part.mask_size for part in self.parts]
        self._uniforms = [part.uniforms for part in self.parts]
        self._normals = [part.normals for part in self.parts]
        self.size = sum(self._sizes)
        self.scales = sum(self._scales)
        self.mask_size = sum(self._mask_sizes)
        self.uniforms = sum(self._uniforms)
        self.normals = sum(self._normals)

    def parameters(self, output: Tensor, log_std: Tensor) -> tuple[Any, ...]:
        """Each part's parameters, from output [..., size] and log_std [..., scales] or [scales]."""
        outputs, log_stds = output.split(self._sizes, -1), log_std.split(self._scales, -1)
        parts = zip(self.parts, outputs, log_stds, strict=True)
        return tuple(part.parameters(o, s) for part, o, s in parts)

    def sample(self, parameters: tuple[Any, ...], noise: Tensor | None) -> Any:
        """Each part's action from its share of noise [..., uniforms + normals]."""
        shares = [None] * len(self.parts) if noise is None else self._shares(noise)
        parts = zip(self.parts, parameters, shares, strict=True)
        return self.action(*[part.sample(p, share) for part, p, share in parts])

    def log_prob(self, parameters: tuple[Any, ...], action: Any) -> Tensor:
        """Log-probability, summed over parts, [...]."""
        parts = zip(self.parts, parameters, action, strict=True)
        return _sum([part.log_prob(p, a) for part, p, a in parts])

    def log_prob_entropy(self, parameters: tuple[Any, ...], action: Any) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy, both summed over parts, [...]."""
        parts = zip(self.parts, parameters, action, strict=True)
        pairs = [part.log_prob_entropy(p, a) for part, p, a in parts]
        return _sum([log_prob for log_prob, _ in pairs]), _sum([entropy for _, entropy in pairs])

    def kl(self, p: tuple[Any, ...], q: tuple[Any, ...]) -> Tensor:
        """KL divergence, summed over parts, [...]."""
        return _sum([part.kl(a, b) for part, a, b in zip(self.parts, p, q, strict=True)])

    def mask(self, parameters: tuple[Any, ...], mask: Tensor) -> tuple[Any, ...]:
        """Each part masked by its share of mask [..., mask_size]."""
        parts = zip(self.parts, parameters, mask.split(self._mask_sizes, -1), strict=True)
        return tuple(part.mask(p, m) for part, p, m in parts)

    def _shares(self, noise: Tensor) -> list[Tensor]:
        """For each part its uniform, then its normal numbers, [..., uniforms + normals]."""
        pieces = noise.split(self._uniforms + self._normals, -1)
        k = len(self.parts)
        return [torch.cat(pair, -1) for pair in zip(pieces[:k], pieces[k:], strict=True)]


def _sum(tensors: list[Tensor]) -> Tensor:
    """[...] each -> [...]."""
    total = tensors[0]
    for x in tensors[1:]:
        total = total + x
    return total
