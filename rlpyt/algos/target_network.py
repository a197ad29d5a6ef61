"""A network that targets are made with, and the optimizers of those that it follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from torch import nn

from rlpyt.algos.learner import Learner
from rlpyt.algos.options import ReplayOptions
from rlpyt.models.flat import Adam, FlatParameters, Optimizer, RMSprop


@final
class TargetNetwork:
    """Follows a trained network: its weights by a part of the way, its buffers wholly.

    Args:
        network: a copy of what `learner` trains.
        learner: of the trained one.
    """

    def __init__(self, network: nn.Module, learner: Learner) -> None:
        self.parameters, self.trained = FlatParameters(network), learner.parameters
        self.vector = self.parameters.vector
        pairs = zip(network.buffers(), learner.module.buffers(), strict=True)
        self._buffers = list(pairs)  # such as those of a user's normalization

    def follow(self, tau: float) -> None:
        """Move by this part of the way; 1 copies."""
        self.vector.lerp_(self.trained.vector, tau)
        for target, own in self._buffers:
            target.copy_(own)


def optimizer_of(options: ReplayOptions) -> Callable[[FlatParameters], Optimizer]:
    """The optimizer that these options ask for."""
    if options.optimizer == "rmsprop":
        return partial(RMSprop, decay=0.95, eps=options.optimizer_eps, centred=True)
    return partial(Adam, betas=(options.adam_beta1, 0.999), eps=options.optimizer_eps)
