"""Gradients of all ranks as one: each is the mean over its own rows, their sum that over all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import torch
from torch import Tensor

from rlpyt.models.flat import FlatParameters
from rlpyt.ranks import Ranks

BUCKET: Final = 1 << 20
"""Elements that are summed at once while the backward pass goes on (4 MB of float32). Networks of
less are summed at its end: starting a sum costs more than there is to hide."""


@final
class Reduction:
    """Sums a network's gradients, and means that are logged, over ranks.

    A rank whose loss is a mean over n of N rows has the weight n / N; so the sum is the gradient of
    the mean over the rows of all, whichever rank they are on.

    Args:
        parameters: whose gradients.
        ranks: more than one.
        overlapped: parts of the gradient are summed as soon as the backward pass has them: in one
            order on all ranks, from the last part to the first, whichever parameters are used.
    """

    def __init__(self, parameters: FlatParameters, ranks: Ranks, overlapped: bool) -> None:
        self._gradient, self._ranks = parameters.gradient, ranks
        self._parts = [slice(0, len(parameters.gradient))]
        self._missing = [0]  # parameters of each part whose gradient has not come
        self._counts, self._begun = [0], 0
        self._waits: list[Callable[[], object]] = []
        self._weight: Tensor | None = None
        if overlapped and len(parameters.gradient) > BUCKET:
            self._hook(parameters)

    def begin(self, rows: Tensor | None) -> None:
        """A backward pass begins.

        Args:
            rows: how many rows the loss is a mean over, 0-d; None: as many on every rank.
        """
        self._weight = rows
        self._missing, self._begun, self._waits = list(self._counts), 0, []

    def finish(self, means: Tensor) -> Tensor:
        """The backward pass has ended: put the gradient of all in its place.

        Args:
            means: [k] over the same rows.

        Returns:
            [k], over the rows of all ranks.
        """
        own = means.new_ones(1) if self._weight is None else self._weight.view(1).to(means)
        total = torch.cat([own, torch.where(own > 0, own * means, 0.0)])
        if len(self._parts) > 1:
            while self._begun < len(self._parts):
                self._begin_next()
            self._ranks.sum_(total)
            for wait in self._waits:
                wait()
            rows = total[0].clamp(min=1)
            self._gradient.div_(rows)
            return total[1:] / rows
        # Of a small network a sum takes as long as it takes to begin one: all of it is one.
        split = len(self._gradient)
        whole = torch.cat([self._gradient * own.to(self._gradient), total.to(self._gradient)])
        self._ranks.sum_(whole)
        rows = whole[split].clamp(min=1)
        torch.div(whole[:split], rows, out=self._gradient)
        return (whole[split + 1 :] / rows).to(means)

    def _begin_next(self) -> None:
        part = self._gradient[self._parts[self._begun]]
        if self._weight is not None:
            part.mul_(self._weight)
        self._waits.append(self._ranks.begin_sum_(part))
        self._begun += 1

    def _hook(self, parameters: FlatParameters) -> None:
        """Have the backward pass say which gradients are there: parts from the end on."""
        self._parts, self._counts, stop = [], [], len(parameters.gradient)
        for i in reversed(range(len(parameters.parameters))):
            if not self._parts or self._parts[-1].stop - self._parts[-1].start >= BUCKET:
                self._parts.append(slice(stop, stop))
                self._counts.append(0)
            stop = parameters.offsets[i]
            self._parts[-1] = slice(stop, self._parts[-1].stop)
            self._counts[-1] += 1
            part = len(self._parts) - 1
            parameters.parameters[i].register_post_accumulate_grad_hook(self._arrived(part))

    def _arrived(self, part: int) -> Callable[[Tensor], None]:
        def hook(_: Tensor) -> None:
            self._missing[part] -= 1
            # In order: what is ready before its turn waits for those before it.
            while self._begun < len(self._parts) and not self._missing[self._begun]:
                self._begin_next()

        return hook
