"""A policy of numbers between bounds: encoder, memory, hidden layers and a linear one."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.envs.spec import EnvSpec
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
        self.reads = self.trunk.reads
        plain_attributes(self)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        return self.trunk.initial_state(batch)

    def __call__(self, *args: Any) -> tuple[Tensor, Any]:
        """`forward`, without nn.Module's search for hooks."""
        return self.forward(*args)

    def forward(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """The numbers [..., outputs], and the state of the row after.

        Args:
            inputs: [T, B, ...] or [B, ...]; without memory any leading dimensions.
            state: as fed at the first row.
        """
        if self.shares_trunk:
            with torch.no_grad():
                features, state = self.trunk.forward(inputs, state)
        else:
            features, state = self.trunk.forward(inputs, state)
        return self.outputs(features), state

    def outputs(self, features: Tensor) -> Tensor:
        """features [..., F] of the trunk -> [..., outputs]."""
        x = self.hidden.forward(features)
        x = F.linear(x, self.linear.weight, self.linear.bias)
        if self.constant is None:
            return x
        return torch.cat([x, self.constant.expand(*x.shape[:-1], -1)], -1)
