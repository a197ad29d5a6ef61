"""Layers with their initial weights, and the multilayer perceptron.

Initial weights are drawn from PyTorch's global generator and from nothing else: the same weights
follow the same `torch.manual_seed` by whoever builds the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from rlpyt.models.options import ModelOptions

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

# Those that keep only their result for the backward pass work in place, on images a fifth faster.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh_,
    "relu": torch.relu_,
    "elu": F.elu,
    "silu": F.silu,
}


def initialized(layer: Layer, options: ModelOptions, gain: float = sqrt(2)) -> Layer:
    """The layer with orthogonal weights of this gain and no bias, if the options ask for them."""
    if options.orthogonal_init:
        nn.init.orthogonal_(layer.weight, gain)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer


def plain_attributes(module: nn.Module) -> None:
    """Let Python find the parameters and submodules of a network without nn.Module.__getattr__.

    That takes 0.5 to 1 µs each, a third of the time in which a small policy acts. Moving, loading,
    copying and assigning go on working; torch.func.functional_call does not reach such a network.
    Buffers are left out: moving a module makes new ones. A ModuleList is found as a tuple.
    """
    for part in module.modules():
        part.__dict__.update({k: v for k, v in part._parameters.items() if v is not None})
        for name, child in part._modules.items():
            if child is not None:
                part.__dict__[name] = tuple(child) if isinstance(child, nn.ModuleList) else child


class Encoder(nn.Module):
    """Abstract: a network that makes [..., features] of what it reads."""

    features: int


@final
class MLP(Encoder):
    """Hidden layers, [..., inputs] -> [..., features]; without any it is the identity."""

    layers: Any  # nn.ModuleList of nn.Linear
    norms: Any  # nn.ModuleList of nn.LayerNorm, or None

    def __init__(self, inputs: int, sizes: Sequence[int], options: ModelOptions) -> None:
        super().__init__()
        widths = (inputs, *sizes)
        self.features = widths[-1]
        self.activation = ACTIVATIONS[options.activation]
        self.layers = nn.ModuleList(
            initialized(nn.Linear(n, m), options) for n, m in pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(m) for m in sizes) if options.layer_norm else None

    def forward(self, x: Tensor) -> Tensor:
        # One loop over `forward`: nn.Sequential takes half as long again on 8 rows.
        if self.norms is None:
            for layer in self.layers:
                x = self.activation(layer.forward(x))
            return x
        for k in range(len(self.layers)):
            x = self.layer(k, x)
        return x

    def layer(self, k: int, x: Tensor) -> Tensor:
        """What hidden layer k makes of what the one before it gave."""
        x = self.layers[k].forward(x)
        return self.activation(x if self.norms is None else self.norms[k](x))
