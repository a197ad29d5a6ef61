"""Quantiles of the return: at fixed fractions, as in QR-DQN, or at any, as in IQN.

Where values are rescaled, actions are compared by the mean of h(return), as the network knows it.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from rlpyt.functional.q_values import quantile_huber
from rlpyt.returns.returns import bootstrapped


@final
class QuantileReturn:
    """Quantiles z [..., N] at the middles of N equal parts (Dabney et al., 2018a).

    Args:
        quantiles: N.
        kappa: where the quantile Huber loss becomes linear; 0 is the quantile loss.
        eps: of value rescaling; 0 does not rescale.
    """

    fractions_learn = 0

    def __init__(self, quantiles: int, kappa: float, eps: float = 0.0) -> None:
        self.outputs, self.kappa, self.eps = quantiles, kappa, eps

    def value(self, z: Tensor) -> Tensor:
        return z.mean(-1)

    def target(self, z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return bootstrapped(z, reward, discount, self.eps)

    def loss(self, z: Tensor, target: Tensor, fractions: Tensor | None) -> tuple[Tensor, Tensor]:
        """The error is the loss."""
        loss = quantile_huber(z, target, midpoints(self.outputs, z.device), self.kappa)
        return loss, loss.detach()

    def greedy_fractions(self) -> None:
        return None


@final
class ImplicitQuantile:
    """Quantiles z [..., N] at N fractions that the network is given (Dabney et al., 2018b).

    Args:
        fractions: how many are drawn to learn, of predictions and of targets (N = N').
        greedy: how many choose an action (K). The paper draws them too; here they are evenly
            spaced, so that acting takes no randomness.
        kappa: where the quantile Huber loss becomes linear; 0 is the quantile loss.
        eps: of value rescaling; 0 does not rescale.
    """

    outputs = 1

    def __init__(self, fractions: int, greedy: int, kappa: float, eps: float = 0.0) -> None:
        self.fractions_learn, self.greedy = fractions, greedy
        self.kappa, self.eps = kappa, eps

    def value(self, z: Tensor) -> Tensor:
        return z.mean(-1)

    def target(self, z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return bootstrapped(z, reward, discount, self.eps)

    def loss(self, z: Tensor, target: Tensor, fractions: Tensor | None) -> tuple[Tensor, Tensor]:
        """The error is the loss."""
        if fractions is None:
            raise ValueError("implicit quantiles are learned at the fractions z was computed at")
        loss = quantile_huber(z, target, fractions, self.kappa)
        return loss, loss.detach()

    def greedy_fractions(self) -> Tensor:
        return midpoints(self.greedy)


def midpoints(n: int, device: torch.device | None = None) -> Tensor:
    """[n] the middles of n equal parts of (0, 1) (Dabney et al., 2018a, lemma 2)."""
    return torch.linspace(0.5 / n, 1 - 0.5 / n, n, device=device)
