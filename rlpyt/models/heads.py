"""From features to the parameters of a policy, to a value, and to the returns of actions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import pi, sqrt
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.distributions import Distribution
from rlpyt.models.layers import ACTIVATIONS, initialized
from rlpyt.models.noisy import NoisyLinear, noise_factors
from rlpyt.models.options import ActorCriticOptions, ModelOptions, QNetworkOptions

LOG_STD_RANGE = (-20.0, 2.0)
"""Of a standard deviation that depends on the state (as in Soft Actor-Critic's published code)."""

COSINES: Final = 64
"""Cosines of a fraction that its embedding reads (Dabney et al., 2018b, section 3, n)."""


@final
class PolicyHead(nn.Module):
    """Parameters of the distribution over actions.

    The last layer begins at gain 0.01, so that every action is about equally likely at the start
    (Andrychowicz et al., 2021, section 3.2). A Gaussian's log_std is one parameter a dimension, or
    an output of the layer.

    Args:
        distribution: says how many outputs and scales it takes.
        inputs: width of the features.
        options: log_std_init, state_dependent_std, and the initial weights.
    """

    def __init__(
        self, distribution: Distribution, inputs: int, options: ActorCriticOptions
    ) -> None:
        super().__init__()
        self.distribution = distribution
        scales = distribution.scales
        self.dependent = options.state_dependent_std and scales > 0
        outputs = distribution.size + (scales if self.dependent else 0)
        self.linear = initialized(nn.Linear(inputs, outputs), options, gain=0.01)
        log_std = torch.full((scales,), float(options.log_std_init))
        if not scales:
            self.log_std = log_std  # empty; a buffer takes 0.6 µs to find
        elif not self.dependent:
            self.log_std = nn.Parameter(log_std)
        else:
            self.register_buffer("log_std", log_std, persistent=False)

    def forward(self, features: Tensor) -> Any:
        """features [..., inputs] -> the tree of parameters that the distribution's methods take."""
        output = F.linear(features, self.linear.weight, self.linear.bias)
        log_std = self.log_std
        if self.dependent:
            sizes = (self.distribution.size, self.distribution.scales)
            output, change = output.split(sizes, -1)
            log_std = (log_std + change).clamp(*LOG_STD_RANGE)
        return self.distribution.parameters(output, log_std)


@final
class ValueHead(nn.Module):
    """One number, features [..., inputs] -> [...]."""

    def __init__(self, inputs: int, options: ModelOptions) -> None:
        super().__init__()
        self.linear = initialized(nn.Linear(inputs, 1), options, gain=1.0)

    def forward(self, features: Tensor) -> Tensor:
        return F.linear(features, self.linear.weight, self.linear.bias).squeeze(-1)


@final
class ReturnsHead(nn.Module):
    """N numbers that say what is returned after each of A actions, [..., inputs] -> [..., A, N].

    Dueling (Wang et al., 2016, eq. 9) is done number by number, on atoms as in Rainbow (Hessel et
    al., 2018): value + advantage - the advantages' mean over actions, from two streams of layers.
    Unlike in Wang et al. the gradient that both send into the features is not scaled down.

    Args:
        actions: A.
        outputs: N.
        inputs: width of the features.
        options: dueling, and what `Stream` reads.
    """

    def __init__(self, actions: int, outputs: int, inputs: int, options: QNetworkOptions) -> None:
        super().__init__()
        self.actions, self.outputs = actions, outputs
        self.advantage = Stream(inputs, actions * outputs, options)
        self.value = Stream(inputs, outputs, options) if options.dueling else None
        self.sizes = self.advantage.sizes + (self.value.sizes if self.value else [])
        self.noise = sum(self.sizes)

    def forward(self, features: Tensor, normals: Tensor | None) -> Tensor:
        """Normals are [..., noise] of each row or [noise] of all; None takes the mean weights."""
        factors: Sequence[Tensor] = ()
        if normals is not None and self.noise:
            factors = noise_factors(normals).split(self.sizes, -1)
        own = len(self.advantage.sizes)
        z = self.advantage.forward(features, factors[:own])
        z = z.view(*z.shape[:-1], self.actions, self.outputs)
        if self.value is None:
            return z
        return z + (self.value.forward(features, factors[own:]) - z.mean(-2)).unsqueeze(-2)


@final
class Stream(nn.Module):
    """Hidden layers and a linear one, [..., inputs] -> [..., outputs]; all of them noisy, or none.

    Args:
        inputs, outputs: widths.
        options: head_sizes, activation, layer_norm, noisy, and the initial weights.
    """

    layers: Any  # nn.ModuleList of nn.Linear or NoisyLinear
    norms: Any  # nn.ModuleList of nn.LayerNorm, or None

    def __init__(self, inputs: int, outputs: int, options: QNetworkOptions) -> None:
        super().__init__()
        sizes = options.head_sizes
        shapes = [(n, m, sqrt(2)) for n, m in pairwise((inputs, *sizes))]
        shapes.append(((inputs, *sizes)[-1], outputs, 1.0))
        self.activation = ACTIVATIONS[options.activation]
        self.layers = nn.ModuleList(
            NoisyLinear(n, m, options, gain)
            if options.noisy
            else initialized(nn.Linear(n, m), options, gain)
            for n, m, gain in shapes
        )
        self.norms = nn.ModuleList(nn.LayerNorm(m) for m in sizes) if options.layer_norm else None
        self.sizes = [width for n, m, _ in shapes for width in (n, m)] if options.noisy else []

    def forward(self, x: Tensor, factors: Sequence[Tensor] = ()) -> Tensor:
        """Factors are `noise_factors` of each layer's inputs and outputs, or () for no noise.

        Their shapes are those of `sizes`, behind the leading dimensions of x or none.
        """
        for k, layer in enumerate(self.layers):
            if k:
                x = self.activation(x if self.norms is None else self.norms[k - 1](x))
            if factors:
                x = layer(x, factors[2 * k], factors[2 * k + 1])
            elif type(layer) is nn.Linear:
                x = layer.forward(x)
            else:
                x = F.linear(x, layer.weight, layer.bias)  # the mean weights
        return x


@final
class FractionEmbedding(nn.Module):
    """Features and fractions of a distribution become one (Dabney et al., 2018b, eq. 4).

    Args:
        inputs: width of the features.
        options: the initial weights.
    """

    frequencies: Tensor

    def __init__(self, inputs: int, options: ModelOptions) -> None:
        super().__init__()
        self.linear = initialized(nn.Linear(COSINES, inputs), options)
        self.register_buffer("frequencies", pi * torch.arange(COSINES), persistent=False)

    def forward(self, features: Tensor, fractions: Tensor) -> Tensor:
        """Features [..., inputs] and fractions [..., K] or [K] of all rows -> [..., K, inputs]."""
        cosines = (fractions.unsqueeze(-1) * self.frequencies).cos()  # [..., K, COSINES]
        embedded = torch.relu_(F.linear(cosines, self.linear.weight, self.linear.bias))
        return features.unsqueeze(-2) * embedded
