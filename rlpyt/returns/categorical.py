"""Atoms with probabilities, as in C51."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from rlpyt.functional.q_values import categorical_projection


@final
class CategoricalReturn:
    """Logits z [..., K] of K evenly spaced atoms (Bellemare et al., 2017).

    Args:
        atoms: K.
        v_min, v_max: the first and the last atom.
    """

    fractions_learn = 0

    def __init__(self, atoms: int, v_min: float, v_max: float) -> None:
        self.outputs, self.v_min, self.v_max = atoms, v_min, v_max

    def value(self, z: Tensor) -> Tensor:
        return z.softmax(-1) @ self._support(z)

    def target(self, z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Probabilities of the atoms, [..., K]."""
        return categorical_projection(self._support(z), z.softmax(-1), reward, discount)

    def loss(self, z: Tensor, target: Tensor, fractions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cross-entropy: KL(target, z) and the target's entropy, which has no gradient.

        It is the error too, as in Dopamine's Rainbow before its root; Hessel et al. (2018) take
        the divergence alone.
        """
        loss = -(target * z.log_softmax(-1)).sum(-1)
        return loss, loss.detach()

    def greedy_fractions(self) -> None:
        return None

    def _support(self, z: Tensor) -> Tensor:
        """[K]; made anew each time, in 2 µs, so that there is nothing to move to a device."""
        return torch.linspace(self.v_min, self.v_max, self.outputs, device=z.device)
