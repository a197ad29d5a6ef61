"""The temperature of soft actor-critic: what entropy is worth beside returns."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, final

import torch
from torch import Tensor, nn

from rlpyt.models.flat import FlatParameters, Optimizer


@final
class Temperature(nn.Module):
    """alpha: a number, or learned by its logarithm, so that it stays above 0.

    Args:
        initial: where it stays, or begins.
        device: of what it is multiplied with.
        optimizer: moves the logarithm; None: it stays as it is.
    """

    value: Tensor

    def __init__(
        self,
        initial: float,
        device: torch.device,
        optimizer: Callable[[FlatParameters], Optimizer] | None,
    ) -> None:
        super().__init__()
        self.optimizer: Any = None
        if optimizer is None:
            self.register_buffer("value", torch.tensor(float(initial), device=device))
        else:
            self.log_temperature = nn.Parameter(torch.tensor(log(initial), device=device))
            self.optimizer = optimizer(FlatParameters(self))

    def forward(self) -> Tensor:
        """alpha, 0-d, without gradient."""
        return self.value if self.optimizer is None else self.log_temperature.detach().exp()

    def step(self, entropy: Tensor, wanted: float | Tensor, lr: float) -> None:
        """A step against log(alpha) (entropy - wanted): too little entropy raises alpha (as eq. 18
        of Haarnoja et al., 2018b). The gradient is the difference itself."""
        torch.sub(entropy, wanted, out=self.log_temperature.grad)
        self.optimizer.step(lr)

    def state(self) -> dict[str, Any]:
        return {"weights": dict(self.state_dict()), "optimizer": self.optimizer.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state["weights"])
        self.optimizer.load(state["optimizer"])
