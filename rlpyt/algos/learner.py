"""One optimizer step: the same for every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.flat import FlatParameters, Optimizer
from rlpyt.models.memory import Memory

Loss = Callable[..., tuple[Tensor, Tensor]]


def compiled(loss: Loss, agent: nn.Module) -> Loss:
    """The loss compiled; memories stay eager, for how they loop depends on where episodes end."""
    for module in agent.modules():
        if isinstance(module, Memory):
            # Of this module alone: decorating the class would import torch._dynamo with it.
            module.__dict__["forward"] = torch.compiler.disable(module.forward)
    return torch.compile(loss)


class Learner:
    """Backward, clip, step, over all parameters of an agent as one vector.

    Args:
        module: whose parameters are trained; already on its device.
        optimizer: Adam or RMSprop of `models.flat`.
        max_grad_norm: gradients are scaled down to this norm; 0 does not clip.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Callable[[FlatParameters], Optimizer],
        max_grad_norm: float,
    ) -> None:
        self.parameters = FlatParameters(module)
        self.optimizer = optimizer(self.parameters)
        self.max_grad_norm = max_grad_norm or float("inf")
        self.updates = 0

    def step(self, loss: Loss, lr: float, *inputs: Any) -> Tensor:
        """One update of all parameters.

        Args:
            loss: of `inputs`; returns the loss, 0-d, and a vector of metrics.
            lr: learning rate.

        Returns:
            The metrics with the gradient's norm before clipping appended.

        Raises:
            FloatingPointError: a gradient is NaN or infinite; parameters are left as they were.
        """
        self.parameters.zero_grad()
        value, metrics = loss(*inputs)
        value.backward()
        norm = self.parameters.clip_(self.max_grad_norm)
        if not torch.isfinite(norm):
            raise self._not_finite(loss, inputs)
        self.optimizer.step(lr)
        self.updates += 1
        return torch.cat([metrics, norm.view(1)])

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
