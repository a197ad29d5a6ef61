"""What is returned after an action of numbers: several critics as one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod, sqrt
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.envs.spec import Box, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models import encoders
from rlpyt.models.layers import ACTIVATIONS, initialized, plain_attributes
from rlpyt.models.options import ActorQOptions
from rlpyt.models.trunk import Trunk
from rlpyt.returns import Returns
from rlpyt.rows import Inputs

Chosen = int | Tensor | None
"""Which of C: the first so many, those with these numbers, [M] int64, or all."""


@final
class Critics(nn.Module):
    """The returns of an action, as each of C critics sees them.

    Critics have a trunk (encoder and memory) in common and hidden layers of their own, which read
    its features and the action. A vector is its own features.

    Args:
        env_spec: observations, actions, frame stack.
        returns: how many numbers describe a return.
        count: C.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features].
    """

    noise = 0

    def __init__(
        self,
        env_spec: EnvSpec,
        returns: Returns,
        count: int,
        options: ActorQOptions,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.size = prod(bounded(env_spec).shape)
        self.trunk = trunk(env_spec, options, encoder)
        sizes = options.hidden_sizes if options.critic_sizes is None else options.critic_sizes
        widths = (self.trunk.features + self.size, *sizes, returns.outputs)
        self.ensemble = Ensemble(count, widths, options)
        self.reads = self.trunk.reads
        plain_attributes(self)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        return self.trunk.initial_state(batch)

    def __call__(self, *args: Any) -> tuple[Tensor, Any]:
        """`forward`, without nn.Module's search for hooks."""
        return self.forward(*args)

    def forward(
        self,
        inputs: Inputs,
        state: Any,
        action: Tensor,
        frozen: bool = False,
        chosen: Chosen = None,
    ) -> tuple[Tensor, Any]:
        """The numbers z [C, ..., K] of each critic, and the state of the row after.

        Args:
            inputs: [T, B, ...] or [B, ...]; without memory any leading dimensions.
            state: as fed at the first row.
            action: [..., *shape] of each row, in units in which bounds are -1 and 1.
            frozen: whether gradients reach the action alone, and no weights.
            chosen: of which critics.
        """
        if frozen:
            with torch.no_grad():
                features, state = self.trunk.forward(inputs, state)
        else:
            features, state = self.trunk.forward(inputs, state)
        return self.values(features, action, frozen, chosen), state

    def features(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """What the critics read of rows beside the action, [..., F], and the next state."""
        return self.trunk.forward(inputs, state)

    def values(
        self, features: Tensor, action: Tensor, frozen: bool = False, chosen: Chosen = None
    ) -> Tensor:
        """z [C, ..., K] of features [..., F] and action [..., *shape]."""
        leading = features.shape[:-1]
        action = action.reshape(*leading, self.size)
        if len(leading) > 1:
            features, action = features.flatten(0, -2), action.flatten(0, -2)
        if frozen:
            z = self.ensemble.forward(action, True, chosen, features)
        else:
            z = self.ensemble.forward(torch.cat([features, action], -1), False, chosen)
        return z.unflatten(1, leading) if len(leading) > 1 else z


@final
class Ensemble(nn.Module):
    """C multilayer perceptrons as one, [N, inputs] -> [C, N, outputs].

    Weights are [C, outputs, inputs]; each is drawn as if it were alone, one perceptron after the
    other, and equals what a list of them would have (`tests/models/test_critics.py`).

    Args:
        count: C.
        widths: of the inputs, the hidden layers and the outputs.
        options: activation, layer_norm, and the initial weights.
    """

    layers: Any  # nn.ModuleList of Stacked
    norms: Any  # nn.ModuleList of StackedNorm, or None

    def __init__(self, count: int, widths: Sequence[int], options: ActorQOptions) -> None:
        super().__init__()
        self.count = count
        self.activation = ACTIVATIONS[options.activation]
        gains = [sqrt(2)] * (len(widths) - 2) + [1.0]
        shapes = [(n, m, gain) for (n, m), gain in zip(pairwise(widths), gains, strict=True)]
        alone = [
            [initialized(nn.Linear(n, m), options, gain) for n, m, gain in shapes]
            for _ in range(count)
        ]
        self.layers = nn.ModuleList(Stacked(layers) for layers in zip(*alone, strict=True))
        self.norms = None
        if options.layer_norm:
            self.norms = nn.ModuleList(StackedNorm(count, m) for m in widths[1:-1])

    def forward(
        self,
        x: Tensor,
        frozen: bool = False,
        chosen: Chosen = None,
        before: Tensor | None = None,
    ) -> Tensor:
        """x [N, inputs] of all perceptrons -> [C, N, outputs].

        Args:
            frozen: whether gradients reach x alone, and no weights.
            chosen: of which perceptrons.
            before: [N, some of the inputs], those before x; no gradient reaches them.
        """
        count = _count(chosen, self.count)
        x = x.expand(count, *x.shape)
        for k, layer in enumerate(self.layers):
            if k:
                if self.norms is not None:
                    x = self.norms[k - 1].forward(x, frozen, chosen)
                x = self.activation(x)
                x = layer.forward(x, frozen, chosen)
            else:
                known = None if before is None else before.expand(count, *before.shape)
                x = layer.forward(x, frozen, chosen, known)
        return x


class Parallel(nn.Module):
    """Abstract: weights and biases [C, ...] that stand beside each other."""

    weight: Tensor
    bias: Tensor

    def taken(self, frozen: bool, chosen: Chosen) -> tuple[Tensor, Tensor]:
        """Weight and bias of those that are chosen; frozen, they take no gradient."""
        weight, bias = self.weight, self.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        if chosen is None:
            return weight, bias
        if isinstance(chosen, int):
            return weight[:chosen], bias[:chosen]
        return weight.index_select(0, chosen), bias.index_select(0, chosen)


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


def _count(chosen: Chosen, count: int) -> int:
    """How many of `count` are chosen."""
    if chosen is None:
        return count
    return chosen if isinstance(chosen, int) else len(chosen)


def trunk(env_spec: EnvSpec, options: ActorQOptions, encoder: nn.Module | None) -> Trunk:
    """What an actor or critics have below the layers that `hidden_sizes` names."""
    return Trunk(env_spec, replace(options, hidden_sizes=options.encoder_sizes), encoder)


def shares_trunk(env_spec: EnvSpec, options: ActorQOptions) -> bool:
    """Whether the actor reads the critics' trunk instead of one of its own."""
    share = options.share_trunk
    return encoders.has_images(env_spec.observation, options) if share is None else share


def bounded(env_spec: EnvSpec) -> Box:
    """The actions, of an environment that has numbers with bounds for actions."""
    space = env_spec.action
    if not isinstance(space, Box):
        raise UsageError(
            f"{env_spec.id} has actions of {space!r}; DDPG, TD3, D4PG and SAC choose numbers of a "
            "Box: choose ppo or a2c, which act in any space, or dqn for one Discrete choice"
        )
    if not np.isfinite([space.low, space.high]).all() or not prod(space.shape):
        raise UsageError(
            f"{env_spec.id} has actions of shape {space.shape} from {space.low.tolist()} to "
            f"{space.high.tolist()}; DDPG, TD3, D4PG and SAC squash actions between two finite "
            "bounds: give it some (gymnasium.wrappers.RescaleAction, or --wrapper), or choose ppo "
            "or a2c"
        )
    return space
