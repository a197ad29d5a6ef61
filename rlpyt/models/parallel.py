"""Layers of C networks that stand beside each other, each as one layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Chosen = int | Tensor | None
"""Which of C: the first so many, those with these numbers, [M] int64, or all."""


class Parallel(nn.Module):
    """Abstract: weights and biases [C, ...] that stand beside each other."""

    weight: Tensor
    bias: Tensor

    def taken(self, frozen: bool, chosen: Chosen) -> tuple[Tensor, Tensor]:
        """Weight and bias of those that are chosen; frozen, they take no gradient."""
        weight, bias = self.weight, self.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return pick(weight, chosen), pick(bias, chosen)


@final
class Stacked(Parallel):
    """C linear layers as one, [C, N, inputs] -> [C, N, outputs]."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        """layers: whose weights are taken."""
        super().__init__()
        weight = torch.stack([layer.weight.detach() for layer in layers])
        if weight.shape[1] >= weight.shape[2]:
            # In memory [C, inputs, outputs], as products give its gradient: no copy transposes it.
            weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
        self.weight = nn.Parameter(weight)
        bias = torch.stack([layer.bias.detach() for layer in layers])
        self.bias = nn.Parameter(bias.unsqueeze(1))  # [C, 1, outputs]

    def forward(
        self, x: Tensor, frozen: bool, chosen: Chosen, before: Tensor | None = None
    ) -> Tensor:
        """before: [C, N, some of the inputs], those before x; no gradient is found of them."""
        weight, bias = self.taken(frozen, chosen)
        weight = weight.transpose(1, 2)  # [C, inputs, outputs]
        if before is not None:
            k = before.shape[-1]
            bias = torch.baddbmm(bias, before.detach(), weight[:, :k])
            weight = weight[:, k:]
        return torch.baddbmm(bias, x, weight)


@final
class StackedNorm(Parallel):
    """C layer normalizations (Ba et al., 2016) as one, [C, N, width] -> [C, N, width]."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.width = (width,)
        self.weight = nn.Parameter(torch.ones(count, 1, width))
        self.bias = nn.Parameter(torch.zeros(count, 1, width))

    def forward(self, x: Tensor, frozen: bool, chosen: Chosen) -> Tensor:
        weight, bias = self.taken(frozen, chosen)
        return torch.addcmul(bias, F.layer_norm(x, self.width), weight)


def pick(x: Tensor, chosen: Chosen, dim: int = 0) -> Tensor:
    """Those that are chosen, of C along this dimension."""
    if chosen is None:
        return x
    if isinstance(chosen, int):
        return x.narrow(dim, 0, chosen)
    return x.index_select(dim, chosen)
