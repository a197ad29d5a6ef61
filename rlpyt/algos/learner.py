"""One optimizer step: the same for every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.algos.compiled import Compiled
from rlpyt.algos.reduction import Reduction
from rlpyt.models.flat import FlatParameters, Optimizer
from rlpyt.ranks import Ranks, bits, differing, world

COMPARED_EVERY = 500  # updates: what several ranks train must be the same on all of them
Loss = Callable[..., tuple[Tensor, Tensor]]


class Learner:
    """Backward, clip, step, over all parameters of an agent as one vector.

    Attributes:
        read: every module that the loss reads; what it reads beside the networks may be added.

    Args:
        module: whose parameters are trained; already on its device.
        optimizer: Adam or RMSprop of `models.flat`.
        max_grad_norm: gradients are scaled down to this norm; 0 does not clip.
        compile: whether the loss and its gradient are compiled, as one function of tensors.
        within: what holds every network that the loss runs, where the module is not alone; the
            others get no gradient.
        means: how many of the metrics are means over rows, from the first on; None: all. Where
            several ranks train the module these are of all; the rest are of a rank's own.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[FlatParameters], Optimizer],
        max_grad_norm: float,
        compile: bool = False,
        within: nn.Module | None = None,
        means: int | None = None,
    ) -> None:
        self.module, self.ranks, self._means = module, world(), means
        self.parameters = FlatParameters(module)
        self.optimizer = optimizer(self.parameters)
        self.max_grad_norm = max_grad_norm or float("inf")
        self.updates = 0
        vectors = self.parameters.vector, self.parameters.gradient
        self.read = nn.ModuleList([within or module])
        self._gradient = Compiled(self._traced, self.read, vectors) if compile else self._eager
        alone = self.ranks.size == 1
        self._reduction = None if alone else Reduction(self.parameters, self.ranks, not compile)

    @property
    def total(self) -> Callable[[Tensor], Tensor] | None:
        """What a loss sums over ranks with; None: there is one."""
        return None if self._reduction is None else self.ranks.sum_

    def step(self, loss: Loss, lr: float, *inputs: Any, live: Tensor | None = None) -> Tensor:
        """One update of all parameters.

        Args:
            loss: of `inputs`; returns the loss, 0-d, and a vector of metrics.
            lr: learning rate.
            live: the rows that the loss is a mean over, [...] bool: where several ranks train the
                module, each counts by how many it has. None: as many on all of them.

        Returns:
            The gradient's norm before clipping, then the metrics.

        Raises:
            FloatingPointError: a gradient is NaN or infinite; parameters are left as they were.
        """
        if self._reduction is None:
            metrics = self._gradient(loss, *inputs)
        else:
            rows = None if live is None else live.sum()
            metrics = self._reduced(self._reduction, loss, inputs, rows)
        if not isfinite(metrics[0].item()):
            raise self._not_finite(loss, inputs)
        self.optimizer.step(lr)
        self.updates += 1
        if self._reduction is not None and self.updates % COMPARED_EVERY == 1:
            assert_same_parameters(self.parameters, self.ranks, self.updates, self.module)
        return metrics

    def _eager(self, loss: Loss, *inputs: Any) -> Tensor:
        """Put the clipped gradient into its vector; returns its norm before, and the metrics."""
        self.parameters.zero_grad()
        value, metrics = loss(*inputs)
        value.backward()
        return self._clipped(metrics)

    def _traced(self, loss: Loss, *inputs: Any) -> Tensor:
        """The same in terms that a compiler follows: nothing accumulates in place.

        The optimizer stays outside: it writes what parameters are views of, and a graph that
        writes one of its inputs through another is slow.
        """
        value, metrics = loss(*inputs)
        parameters = self.parameters.parameters
        trained = [p for p in parameters if p.requires_grad]
        found = iter(torch.autograd.grad(value, trained, allow_unused=True))
        self.parameters.collect_([next(found) if p.requires_grad else None for p in parameters])
        return self._clipped(metrics)

    def _clipped(self, metrics: Tensor) -> Tensor:
        """Clip the gradient where it is whole; of several ranks it is not yet."""
        if self.ranks.size > 1:
            return metrics
        norm = self.parameters.clip_(self.max_grad_norm)
        return torch.cat([norm.view(1), metrics])

    def _reduced(
        self, reduction: Reduction, loss: Loss, inputs: tuple[Any, ...], rows: Tensor | None
    ) -> Tensor:
        """Put the clipped gradient of all ranks into its vector; as `_eager`."""
        reduction.begin(rows)
        metrics = self._gradient(loss, *inputs)
        means = reduction.finish(metrics[: self._means])
        norm = self.parameters.clip_(self.max_grad_norm)  # after the sum: the same on all ranks
        return torch.cat([norm.view(1), means, metrics[len(means) :]])

    def _not_finite(self, loss: Loss, inputs: tuple[Any, ...]) -> FloatingPointError:
        """What went wrong, found by a second pass: clipping by a NaN has spoilt every gradient."""
        self.parameters.zero_grad()
        value, _ = loss(*inputs)
        value.backward()
        gradient = self.parameters.gradient
        named = enumerate(self.ranks.gather(self.parameters.first_non_finite(gradient)))
        rank, name = next(((r, x) for r, x in named if x is not None), (0, None))
        what = f"the gradient of {name} is not finite"
        what += f" on rank {rank}" if self.ranks.size > 1 else ""
        if name is None:
            name = self.parameters.name_at(int(gradient.abs().argmax()))
            what = f"the gradient's norm overflows, mostly in {name},"
        return FloatingPointError(
            f"{what} at update {self.updates} (loss {value.item():.3g}); parameters are as before "
            "it. Lower --lr or --max-grad-norm, or normalize observations and rewards"
        )

    def state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state(), "updates": self.updates}

    def load(self, state: dict[str, Any]) -> None:
        self.optimizer.load(state["optimizer"])
        self.updates = int(state["updates"])


def assert_same_parameters(
    parameters: FlatParameters, ranks: Ranks, updates: int, module: nn.Module | None = None
) -> None:
    """Raise unless parameters, and a module's buffers, are the same on every rank, to the bit."""
    sums = dict(zip(parameters.names, parameters.checksums().tolist(), strict=True))
    buffers = {} if module is None else {name: bits(x) for name, x in module.named_buffers()}
    names = differing(sums | buffers, ranks)
    if not names:
        return
    if (name := names[0]) in buffers:
        raise RuntimeError(
            f"at update {updates} the ranks' buffers differ, first in {name}: the network changes "
            "it by itself, on each rank by other rows. Change it by what ranks have in common "
            "(rlpyt.ranks.world().sum_, docs/ranks.md), or train in one process"
        )
    raise RuntimeError(
        f"at update {updates} the ranks' parameters differ, first in {name}: a model "
        "that changes its weights by itself, or draws by rank? What ranks train must be changed by "
        "gradients alone; go back to an earlier checkpoint"
    )
