"""What a network of Q-learning says of the return of each action, and how that is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlpyt.returns.categorical import CategoricalReturn
from rlpyt.returns.expected import Expected
from rlpyt.returns.quantile import ImplicitQuantile, QuantileReturn
from rlpyt.returns.returns import Returns

if TYPE_CHECKING:
    from rlpyt.algos.options import QLearningOptions

__all__ = [
    "CategoricalReturn",
    "Expected",
    "ImplicitQuantile",
    "QuantileReturn",
    "Returns",
    "make",
]


def make(options: QLearningOptions) -> Returns:
    """The returns that these options ask for."""
    kappa, eps = options.huber_delta, options.value_rescale
    match options.values:
        case "expected":
            return Expected(options.loss, options.huber_delta, eps)
        case "categorical":
            return CategoricalReturn(options.num_atoms, options.v_min, options.v_max)
        case "quantile":
            return QuantileReturn(options.num_quantiles, kappa, eps)
        case "implicit":
            return ImplicitQuantile(options.num_fractions, options.greedy_fractions, kappa, eps)
