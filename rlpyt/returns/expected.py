"""The mean of the return, as in DQN."""

from __future__ import annotations

from typing import Literal, final

from torch import Tensor

from rlpyt.functional.q_values import huber
from rlpyt.returns.returns import bootstrapped


@final
class Expected:
    """One number, z [..., 1] (Mnih et al., 2015).

    Args:
        loss: half the square of the error, or Huber's.
        delta: where the latter becomes linear.
        eps: of value rescaling; 0 does not rescale.
    """

    outputs = 1
    fractions_learn = 0

    def __init__(self, loss: Literal["huber", "squared"], delta: float, eps: float = 0.0) -> None:
        self.squared, self.delta, self.eps = loss == "squared", delta, eps

    def value(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)

    def target(self, z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return bootstrapped(z, reward, discount, self.eps)

    def loss(self, z: Tensor, target: Tensor, fractions: Tensor | None) -> tuple[Tensor, Tensor]:
        """The error is |target - z|."""
        difference = (target - z).squeeze(-1)
        loss = 0.5 * difference.square() if self.squared else huber(difference, self.delta)
        return loss, difference.detach().abs()

    def greedy_fractions(self) -> None:
        return None
