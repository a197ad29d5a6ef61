"""From features to the parameters of a policy, and to a value."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.distributions import Distribution
from rlpyt.models.layers import initialized
from rlpyt.models.options import ModelOptions

LOG_STD_RANGE = (-20.0, 2.0)
"""Of a standard deviation that depends on the state (as in Soft Actor-Critic's published code)."""


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

    def __init__(self, distribution: Distribution, inputs: int, options: ModelOptions) -> None:
        super().__init__()
        self.distribution = distribution
        scales = distribution.scales
        self.dependent = options.state_dependent_std and scales > 0
        outputs = distribution.size + (scales if self.dependent else 0)
        self.linear = initialized(nn.Linear(inputs, outputs), options, gain=0.01)
        log_std = torch.full((scales,), float(options.log_std_init))
        if scales and not self.dependent:
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
