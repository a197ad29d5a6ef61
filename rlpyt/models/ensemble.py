"""Several multilayer perceptrons as one network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod, sqrt
from typing import Any, final

import torch
from torch import Tensor, nn

from rlpyt.models.batch_norm import BatchNorm
from rlpyt.models.layers import ACTIVATIONS, initialized
from rlpyt.models.options import ActorQOptions
from rlpyt.models.parallel import Chosen, Stacked, StackedNorm

Masks = tuple[Tensor, ...]
"""Of each hidden layer [C, N, width] bool: units that stay, where the others are dropped."""


@final
class Ensemble(nn.Module):
    """C multilayer perceptrons as one, [N, inputs] -> [C, N, outputs].

    A hidden layer is linear, dropout, layer normalization, activation (as in Hiraoka et al., 2022),
    each where the options ask for it; with batch normalization the inputs are normalized first and
    what each hidden layer gives (as in Bhatt et al., 2024).

    Weights are [C, outputs, inputs]; each is drawn as if it were alone, one perceptron after the
    other, and equals what a list of them would have (`tests/models/test_critics.py`).

    Args:
        count: C.
        widths: of the inputs, the hidden layers and the outputs.
        options: activation, dropout, normalization, and the initial weights.
    """

    layers: Any  # nn.ModuleList of Stacked
    norms: Any  # nn.ModuleList of StackedNorm, or None
    batch_norms: Any  # nn.ModuleList of BatchNorm, or None

    def __init__(self, count: int, widths: Sequence[int], options: ActorQOptions) -> None:
        super().__init__()
        self.count, self.hidden = count, tuple(widths[1:-1])
        self.dropped = _of_2_16(options.critic_dropout)
        self.activation = ACTIVATIONS[options.activation]
        gains = [sqrt(2)] * (len(widths) - 2) + [1.0]
        shapes = [(n, m, gain) for (n, m), gain in zip(pairwise(widths), gains, strict=True)]
        alone = [
            [initialized(nn.Linear(n, m), options, gain) for n, m, gain in shapes]
            for _ in range(count)
        ]
        self.layers = nn.ModuleList(Stacked(layers) for layers in zip(*alone, strict=True))
        self.norms = self.batch_norms = None
        normed = options.critic_layer_norm
        if options.layer_norm if normed is None else normed:
            self.norms = nn.ModuleList(StackedNorm(count, m) for m in self.hidden)
        if options.batch_norm:
            warm_up = options.batch_norm_warm_up
            norms = (BatchNorm(count, m, warm_up) for m in widths[:-1])
            self.batch_norms = nn.ModuleList(norms)

    def forward(
        self,
        x: Tensor,
        frozen: bool = False,
        chosen: Chosen = None,
        before: Tensor | None = None,
        masks: Masks | None = None,
        counted: Tensor | None = None,
    ) -> Tensor:
        """x [N, inputs] of all perceptrons -> [C, N, outputs].

        Args:
            frozen: whether gradients reach x alone, and no weights.
            chosen: of which perceptrons.
            before: [N, some of the inputs], those before x; no gradient reaches them.
            masks: of `masks`, for as many perceptrons as are chosen; None drops nothing.
            counted: [N] bool, rows that batch normalization is of (`BatchNorm.forward`).
        """
        count = _count(chosen, self.count)
        if before is not None and self.batch_norms is not None:
            x, before = torch.cat([before.detach(), x], -1), None
        x = x.expand(count, *x.shape)
        for k, layer in enumerate(self.layers):
            if k:
                mask = None if masks is None else masks[k - 1]
                x = self._hidden(k - 1, x, frozen, chosen, mask)
            if self.batch_norms is not None:
                x = self.batch_norms[k].forward(x, frozen, chosen, counted)
            known = None if k or before is None else before.expand(count, *before.shape)
            x = layer.forward(x, frozen, chosen, known)
        return x

    def _hidden(
        self, k: int, x: Tensor, frozen: bool, chosen: Chosen, mask: Tensor | None
    ) -> Tensor:
        """What follows the linear part of hidden layer k."""
        if mask is not None:
            x = x * (mask * (1 / (1 - self.dropped / 2**16)))
        if self.norms is not None:
            x = self.norms[k].forward(x, frozen, chosen)
        return self.activation(x)

    def masks(self, count: int, rows: tuple[int, ...], generator: torch.Generator) -> Masks | None:
        """Draw which units of `count` perceptrons stay in each row, on the CPU.

        Args:
            rows: leading dimensions.

        Returns:
            [count, *rows, width] of each hidden layer; None without dropout.
        """
        if not self.dropped:
            return None
        return tuple(
            _above(self.dropped, (count, *rows, width), generator) for width in self.hidden
        )


def _of_2_16(probability: float) -> int:
    """The probability in 65,536ths; of what is neither never nor always, at least one."""
    return min(max(1, round(probability * 2**16)), 2**16 - 1) if probability else 0


def _above(least: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Bool, True with probability 1 - least / 2^16.

    Four from each 64 random bits: a third of the time that `bernoulli_` takes, which is that of an
    update.
    """
    size = prod(shape)
    bits = torch.empty(-(-size // 4), dtype=torch.int64)
    bits.random_(-(2**63), None, generator=generator)
    return (bits.view(torch.int16)[:size] >= least - 2**15).view(shape)


def _count(chosen: Chosen, count: int) -> int:
    """How many of `count` are chosen."""
    if chosen is None:
        return count
    return chosen if isinstance(chosen, int) else len(chosen)
