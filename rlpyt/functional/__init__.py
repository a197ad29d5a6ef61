"""Pure functions of tensors, each with the equation that it computes."""

from rlpyt.functional.advantages import (
    discounted_returns,
    gae,
    lambda_returns,
    n_step_returns,
    vtrace,
)
from rlpyt.functional.losses import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    is_clipped,
    live_mean,
    live_means,
    normalize,
    value_loss,
)

__all__ = [
    "approximate_kl",
    "clipped_surrogate",
    "clipped_value_loss",
    "discounted_returns",
    "explained_variance",
    "gae",
    "is_clipped",
    "lambda_returns",
    "live_mean",
    "live_means",
    "n_step_returns",
    "normalize",
    "value_loss",
    "vtrace",
]
