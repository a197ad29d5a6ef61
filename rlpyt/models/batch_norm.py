"""Batch renormalization (Ioffe, 2017), by which critics do without target networks (CrossQ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from rlpyt.models.parallel import Chosen, Parallel, pick

# Bhatt et al. (2024), the authors' code: sbx/sac/policies.py and train.py.
MOMENTUM: Final = 0.99
"""Of the running statistics, what is left of them after an update."""
EPSILON: Final = 1e-3
R_MAX: Final = 3.0
D_MAX: Final = 5.0


@final
class BatchNorm(Parallel):
    """C batch renormalizations as one, [C, N, width] -> [C, N, width] (Ioffe, 2017, algorithm 1).

    Rows that are learned from are normalized by the mean and deviation of the batch. From the
    update `warm_up` on they are corrected to what the running statistics would make of them, within
    bounds: r in [1/3, 3], d in [-5, 5]; before it r = 1 and d = 0. All others, in acting and
    evaluation too, are normalized by the running statistics alone.

    Args:
        count, width: C, and of a row.
        warm_up: updates before the correction.
    """

    running: Tensor
    """[2, C, 1, width] mean and variance; part of a checkpoint."""
    newest: Tensor
    """The same of the batch that was learned from last, until `follow`."""
    updates: Tensor
    """0-d int64, how often the running statistics have moved."""

    def __init__(self, count: int, width: int, warm_up: int) -> None:
        super().__init__()
        self.warm_up = warm_up
        self.total: Callable[[Tensor], Tensor] | None = None
        """Of a vector of sums over these rows that over all, where other processes have more."""
        self.weight = nn.Parameter(torch.ones(count, 1, width))
        self.bias = nn.Parameter(torch.zeros(count, 1, width))
        begin = torch.stack([torch.zeros(count, 1, width), torch.ones(count, 1, width)])
        self.register_buffer("running", begin)
        self.register_buffer("newest", begin.clone(), persistent=False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, frozen: bool, chosen: Chosen, counted: Tensor | None) -> Tensor:
        """Normalize rows.

        Args:
            x: [C, N, width].
            frozen, chosen: as `Parallel.taken` takes them.
            counted: [N] bool, rows that are learned from: their statistics are the batch's, and
                nothing is given of the others; None: the running statistics take their place.
        """
        weight, bias = self.taken(frozen, chosen)
        if counted is None:
            mean, variance = pick(self.running, chosen, 1)
            return torch.addcmul(bias, x - mean, weight * (variance + EPSILON).rsqrt())
        return torch.addcmul(bias, self._renormalized(x.to(self.running.dtype), counted), weight)

    def rows(self, x: Tensor, counted: Tensor | None) -> Tensor:
        """The same of C = 1 for rows [..., width]; counted [...]."""
        flat = x.reshape(1, -1, x.shape[-1])
        if counted is not None:
            counted = counted.reshape(-1)
        return self.forward(flat, False, None, counted).view(x.shape)

    def _renormalized(self, x: Tensor, counted: Tensor) -> Tensor:
        rows, counted = counted.sum(), counted.unsqueeze(-1)  # [N, 1]
        x = torch.where(counted, x, 0.0)  # what is not counted may be anything
        if self.total is None:
            share = counted.to(x.dtype) / rows.clamp(min=1)
            mean = (share * x).sum(-2, keepdim=True)
            centred = x - mean
            variance = (share * centred.square()).sum(-2, keepdim=True)
        else:  # in one exchange, about what all processes have in common
            begin = self.running[0]
            apart = torch.where(counted, x - begin, 0.0).double()
            sums = torch.stack((apart, apart.square())).sum(-2, keepdim=True)
            rows, sums = _over_all(rows, sums, self.total)
            shift, squares = sums / rows.clamp(min=1)
            variance = (squares - shift.square()).clamp(min=0).to(x.dtype)
            mean = begin + shift.to(x.dtype)
            centred = x - mean
        deviation = (variance + EPSILON).sqrt()
        with torch.no_grad():
            before = (self.running[1] + EPSILON).sqrt()
            r = (deviation / before).clamp(1 / R_MAX, R_MAX)
            d = ((mean - self.running[0]) / before).clamp(-D_MAX, D_MAX)
            warm = self.updates >= self.warm_up
            r, d = torch.where(warm, r, 1.0), torch.where(warm, d, 0.0)
            found = torch.stack([mean, variance])
            self.newest.copy_(torch.where(rows > 0, found, self.running))
        return centred / deviation * r + d


def normalizes(network: nn.Module) -> bool:
    """Whether any part of a network is a batch normalization."""
    return any(isinstance(part, BatchNorm) for part in network.modules())


class Statistics:
    """The running statistics of all normalizations of a network; () of a network without any.

    Args:
        total: as `BatchNorm.total`.
    """

    def __init__(self, network: nn.Module, total: Callable[[Tensor], Tensor] | None = None) -> None:
        self._norms = [part for part in network.modules() if isinstance(part, BatchNorm)]
        for norm in self._norms:
            norm.total = total

    @torch.no_grad()
    def follow(self) -> None:
        """Move to those of the batch that an update was made of."""
        for norm in self._norms:
            norm.running.lerp_(norm.newest, 1 - MOMENTUM)
            norm.updates += 1


def _over_all(
    rows: Tensor, sums: Tensor, total: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """How many rows all processes have, 0-d, and their sums [...] over them, with gradient."""
    found: Any = _Total.apply(torch.cat([rows.to(sums).view(1), sums.flatten()]), rows, total)
    return found[0], found[1:].view_as(sums)


class _Total(torch.autograd.Function):
    """Sums over processes. Each has the mean over its own rows as its loss, all together the mean
    over the rows of all: a slope counts by the rows of the process that it comes from."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, rows: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.rows, ctx.total = rows, total
        return total(own.clone())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = slopes
        return ctx.total(slope * ctx.rows) / ctx.rows.clamp(min=1), None, None
