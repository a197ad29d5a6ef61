"""What Q-learning needs to know of a description of returns."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from rlpyt.functional.q_values import value_rescale, value_unrescale


class Returns(Protocol):
    """N numbers z that describe the return of an action: a mean, atoms' logits, quantiles.

    Holds sizes, no tensors. `...` are any leading dimensions. Where values are rescaled, z and
    what is made of it is h(return) (`value_rescale`); rewards are given as they are.
    """

    outputs: int
    """Numbers for each action that come out of the network; of implicit quantiles, for each
    action and fraction, of which N are given to it."""
    fractions_learn: int
    """N fractions to draw for each row of a forward pass that learns; 0: none are read."""

    def value(self, z: Tensor, /) -> Tensor:
        """What actions are compared by: the mean of the return, z [..., A, N] -> [..., A]."""
        ...

    def target(self, z: Tensor, reward: Tensor, discount: Tensor, /) -> Tensor:
        """What the return reward + discount * Z shall look like to `loss`.

        Args:
            z: [..., N] at the bootstrap row, of the action chosen there; not read where the
                discount is 0.
            reward: [...] sum of n rewards.
            discount: [...].

        Returns:
            [..., N].
        """
        ...

    def loss(self, z: Tensor, target: Tensor, fractions: Tensor | None, /) -> tuple[Tensor, Tensor]:
        """How far z is from a target, to be minimized, and as a priority.

        Args:
            z: [..., N] of the action that was taken.
            target: [..., M].
            fractions: [..., N] at which implicit quantiles z are; others do not read them.

        Returns:
            The loss [...], and the error [...] >= 0, without gradient, that priorities are made of.
        """
        ...

    def greedy_fractions(self) -> Tensor | None:
        """[K] fractions of implicit quantiles whose mean chooses an action; others: None."""
        ...


def bootstrapped(z: Tensor, reward: Tensor, discount: Tensor, eps: float) -> Tensor:
    """h(reward + discount h^-1(z)), number by number (Pohlen et al., 2018, eq. 4).

    h grows everywhere, so it takes quantiles to quantiles. eps = 0 stands for h(x) = x.

    Args:
        z: [..., N]; not read where the discount is 0.
        reward, discount: [...].

    Returns:
        [..., N].
    """
    discount = discount.unsqueeze(-1)
    later = discount * (value_unrescale(z, eps) if eps else z)
    total = reward.unsqueeze(-1) + torch.where(discount == 0, 0.0, later)
    return value_rescale(total, eps) if eps else total
