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
from rlpyt.functional.n_step import n_step
from rlpyt.functional.q_values import (
    categorical_projection,
    huber,
    masked_q,
    munchausen,
    quantile_huber,
    sequence_priority,
    soft_values,
    value_rescale,
    value_unrescale,
)

__all__ = [
    "approximate_kl",
    "categorical_projection",
    "clipped_surrogate",
    "clipped_value_loss",
    "discounted_returns",
    "explained_variance",
    "gae",
    "huber",
    "is_clipped",
    "lambda_returns",
    "live_mean",
    "live_means",
    "masked_q",
    "munchausen",
    "n_step",
    "n_step_returns",
    "normalize",
    "quantile_huber",
    "sequence_priority",
    "soft_values",
    "value_loss",
    "value_rescale",
    "value_unrescale",
    "vtrace",
]
