"""One optimizer step: the same for every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.flat import FlatParameters, Optimizer
from rlpyt.models.memory import Memory

Loss = Callable[..., tuple[Tensor, Tensor]]


class Learner:
    """Backward, clip, step, over all parameters of an agent as one vector.

    Args:
        module: whose parameters are trained; already on its device.
        optimizer: Adam or RMSprop of `models.flat`.
        max_grad_norm: gradients are scaled down to this norm; 0 does not clip.
        compile: whether the loss and its gradient are compiled, as one function of tensors.
        within: what holds every network that the loss runs, where the module is not alone; the
            others get no gradient.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[FlatParameters], Optimizer],
        max_grad_norm: float,
        compile: bool = False,
        within: nn.Module | None = None,
    ) -> None:
        self.module = module
        self.parameters = FlatParameters(module)
        self.optimizer = optimizer(self.parameters)
        self.max_grad_norm = max_grad_norm or float("inf")
        self.updates = 0
        whole, device = within or module, self.parameters.vector.device
        self._gradient = _compiled(self._traced, whole, device) if compile else self._eager

    def step(self, loss: Loss, lr: float, *inputs: Any) -> Tensor:
        """One update of all parameters.

        Args:
            loss: of `inputs`; returns the loss, 0-d, and a vector of metrics.
            lr: learning rate.

        Returns:
            The gradient's norm before clipping, then the metrics.

        Raises:
            FloatingPointError: a gradient is NaN or infinite; parameters are left as they were.
        """
        metrics = self._gradient(loss, *inputs)
        if not isfinite(metrics[0].item()):
            raise self._not_finite(loss, inputs)
        self.optimizer.step(lr)
        self.updates += 1
        return metrics

    def _eager(self, loss: Loss, *inputs: Any) -> Tensor:
        """Put the clipped gradient into its vector; returns its norm before, and the metrics."""
        self.parameters.zero_grad()
        value, metrics = loss(*inputs)
        value.backward()
        norm = self.parameters.clip_(self.max_grad_norm)
        return torch.cat([norm.view(1), metrics])

    def _traced(self, loss: Loss, *inputs: Any) -> Tensor:
        """The same in terms that a compiler follows: nothing accumulates in place.

        The optimizer stays outside: it writes what parameters are views of, and a graph that
        writes one of its inputs through another is slow.
        """
        value, metrics = loss(*inputs)
        trained = self.parameters.parameters
        self.parameters.collect_(torch.autograd.grad(value, trained, allow_unused=True))
        norm = self.parameters.clip_(self.max_grad_norm)
        return torch.cat([norm.view(1), metrics])

    def _not_finite(self, loss: Loss, inputs: tuple[Any, ...]) -> FloatingPointError:
        """What went wrong, found by a second pass: clipping by a NaN has spoilt every gradient."""
        self.parameters.zero_grad()
        value, _ = loss(*inputs)
        value.backward()
        gradient = self.parameters.gradient
        name = self.parameters.first_non_finite(gradient)
        what = f"the gradient of {name} is not finite"
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


def _compiled(
    function: Callable[..., Tensor], module: nn.Module, device: torch.device
) -> Callable[..., Tensor]:
    """The function compiled; memories stay eager, for how they loop depends on where episodes end.

    PyTorch 2.13 follows a gradient inside of what it compiles, if it is told to; an older one
    compiles the passes forward and backward one by one.
    """
    import torch._dynamo.config as dynamo

    if hasattr(dynamo, "trace_autograd_ops"):
        dynamo.trace_autograd_ops = True
    # Every learner of a process counts as another compilation of one function.
    dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
    for part in module.modules():
        if isinstance(part, Memory):
            # Of this module alone: decorating the class would import torch._dynamo with it.
            part.__dict__["forward"] = torch.compiler.disable(part.forward)
    # Called from C++ the operations of a small network take two thirds of the time.
    options: Any = {"cpp_wrapper": True} if device.type == "cpu" else None
    return torch.compile(function, dynamic=False, options=options)
