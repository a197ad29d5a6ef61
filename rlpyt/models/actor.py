"""A policy of numbers between bounds: encoder, memory, hidden layers and a linear one."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.envs.spec import EnvSpec
from rlpyt.models.batch_norm import BatchNorm
from rlpyt.models.critics import trunk
from rlpyt.models.layers import MLP, initialized, plain_attributes
from rlpyt.models.options import ActorQOptions
from rlpyt.models.trunk import Trunk
from rlpyt.rows import Inputs


@final
class Actor(nn.Module):
    """Numbers from which an action follows: the agent squashes them.

    With a shared trunk, which belongs to the critics, it reads features as they come: its gradient
    ends there.

    Args:
        env_spec: observations, actions, frame stack.
        outputs: how many numbers.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features].
        shared: the critics' trunk, in place of one of its own.
        constant: so many of the last numbers are parameters, the same for every row.
    """

    norms: Any  # nn.ModuleList of BatchNorm, or None
    noise = 0

    def __init__(
        self,
        env_spec: EnvSpec,
        outputs: int,
        options: ActorQOptions,
        encoder: nn.Module | None = None,
        shared: Trunk | None = None,
        constant: int = 0,
    ) -> None:
        super().__init__()
        self.shares_trunk = shared is not None
        if shared is None:
            self.trunk = trunk(env_spec, options, encoder)
        else:
            self.__dict__["trunk"] = shared  # not registered: it is no part of this network
        self.hidden = MLP(self.trunk.features, options.hidden_sizes, options)
        linear = nn.Linear(self.hidden.features, outputs - constant)
        self.linear = initialized(linear, options, gain=0.01)
        self.constant = nn.Parameter(torch.zeros(constant)) if constant else None
        self.norms = None
        if options.batch_norm:
            widths = (self.trunk.features, *options.hidden_sizes)
            self.norms = nn.ModuleList(BatchNorm(1, n, options.batch_norm_warm_up) for n in widths)
        self.reads = self.trunk.reads
        plain_attributes(self)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        return self.trunk.initial_state(batch)

    def __call__(self, *args: Any) -> tuple[Tensor, Any]:
        """`forward`, without nn.Module's search for hooks."""
        return self.forward(*args)

    def forward(
        self, inputs: Inputs, state: Any, counted: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The numbers [..., outputs], and the state of the row after.

        Args:
            inputs: [T, B, ...] or [B, ...]; without memory any leading dimensions.
            state: as fed at the first row.
            counted: [...] bool, rows that batch normalization is of; None: of those before.
        """
        if self.shares_trunk:
            with torch.no_grad():
                features, state = self.trunk.forward(inputs, state)
        else:
            features, state = self.trunk.forward(inputs, state)
        return self.outputs(features, counted), state

    def outputs(self, features: Tensor, counted: Tensor | None = None) -> Tensor:
        """features [..., F] of the trunk -> [..., outputs]."""
        if self.norms is None:
            x = self.hidden.forward(features)
        else:
            x = self._normalized(features, counted)
        x = F.linear(x, self.linear.weight, self.linear.bias)
        if self.constant is None:
            return x
        return torch.cat([x, self.constant.expand(*x.shape[:-1], -1)], -1)

    def _normalized(self, x: Tensor, counted: Tensor | None) -> Tensor:
        """Hidden layers between batch normalizations, of the features first."""
        x = self.norms[0].rows(x, counted)
        for k, norm in enumerate(self.norms[1:]):
            x = norm.rows(self.hidden.layer(k, x), counted)
        return x
