"""What policy-gradient losses are made of.

Terms are per row and unreduced; `live_mean` reduces their sum once. Rows that end an episode are
not `live`: their action never happened, so they take part in no mean.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def live_mean(x: Tensor, live: Tensor) -> Tensor:
    """The mean over live rows; 0 where there is none.

    Args:
        x: [...]; may hold anything on the other rows, also NaN.
        live: [...] bool.

    Returns:
        [].
    """
    return torch.where(live, x, 0.0).sum() / live.sum().clamp(min=1)


def live_means(terms: Sequence[Tensor], live: Tensor) -> Tensor:
    """The mean of each term over live rows, in one pass: what is logged of a loss.

    Args: terms: K of [...]; live: [...] bool.    Returns: [K].
    """
    stacked = torch.where(live, torch.stack(list(terms)), 0.0)  # [K, ...]
    return stacked.flatten(1).sum(1) / live.sum().clamp(min=1)


def normalize(
    x: Tensor,
    live: Tensor,
    epsilon: float = 1e-8,
    total: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Shifted and scaled to mean 0 and standard deviation 1 over the live rows.

    The standard deviation is the population's (divided by N, not N - 1): one row is no special
    case, and gives 0. Rows that differ by no more than rounding are constant, and give 0.

    Args:
        x: [...].
        live: [...] bool.
        epsilon: added to the standard deviation.
        total: of a vector of sums over these rows that over all, where other processes have more
            of them (`Ranks.sum_`).

    Returns:
        [...]; 0 on rows that are not live.
    """
    if total is None:
        count = live.sum().clamp(min=1)
        mean = torch.where(live, x, 0.0).sum() / count
        centred = torch.where(live, x - mean, 0.0)
        deviation = (centred.square().sum() / count).sqrt()
    else:  # in one exchange; float64 holds the squares of float32
        values = torch.where(live, x, 0.0).double()
        sums = torch.stack((live.sum().double(), values.sum(), values.square().sum()))
        count, summed, squares = total(sums)
        count = count.clamp(min=1)
        mean = (summed / count).to(x.dtype)
        deviation = (squares / count - (summed / count).square()).clamp(min=0).sqrt().to(x.dtype)
        centred = torch.where(live, x - mean, 0.0)
    rounding = 8 * torch.finfo(x.dtype).eps * mean.abs()
    # `<=` is false for NaN: a NaN among live rows stays visible.
    return torch.where(deviation <= rounding, 0.0, centred / (deviation + epsilon))


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float | Tensor) -> Tensor:
    """PPO's objective, to be maximized (Schulman et al., 2017, eq. 7).

    Args:
        ratio: [...]; probability of the action now over that when acting. For an action of
            several parts, of the whole action: log-probabilities are summed before.
        advantage: [...].
        clip: the paper's epsilon, a number or a tensor of it (which compiled code can be given
            anew each update); infinity removes the clipping.

    Returns:
        [...].
    """
    low, high = 1 - clip, 1 + clip
    clipped = ratio.clamp(low, high)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return torch.minimum(ratio * advantage, clipped * advantage)


def is_clipped(ratio: Tensor, clip: float | Tensor) -> Tensor:
    """Where the ratio lies outside of [1 - clip, 1 + clip]; its mean is the clip fraction.

    Args: ratio: [...].    Returns: [...] bool.
    """
    return (ratio - 1).abs() > clip


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """An estimate of KL(when acting, now) from actions taken when acting: r - 1 - log r.

    Unbiased and never negative (Schulman, 2020, "Approximating KL Divergence", k3).

    Args: log_ratio: [...]; log-probability now less that when acting.    Returns: [...].
    """
    return log_ratio.expm1() - log_ratio


def value_loss(value: Tensor, target: Tensor) -> Tensor:
    """Squared error (Schulman et al., 2017, eq. 9), without a factor of 1/2.

    Args: value, target: [...].    Returns: [...].
    """
    return (value - target).square()


def clipped_value_loss(
    value: Tensor, old_value: Tensor, target: Tensor, clip: float | Tensor
) -> Tensor:
    """Squared error that gains nothing by moving further than `clip` from the value when acting.

    In no paper: from OpenAI Baselines' ppo2, as described by Huang et al. (2022), "The 37
    Implementation Details of PPO", detail 9. Depends on the scale of the returns.

    Args: value, old_value, target: [...].    Returns: [...].
    """
    move = value - old_value
    move = move.clamp(-clip, clip)  # pyright: ignore[reportCallIssue, reportArgumentType]
    clipped = old_value + move
    return torch.maximum((value - target).square(), (clipped - target).square())


def explained_variance(
    value: Tensor,
    target: Tensor,
    live: Tensor,
    total: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """1 - Var[target - value] / Var[target] over live rows: 1 is perfect, 0 no better than a
    constant. A constant target has nothing to explain, and gives 0.

    Args: value, target: [...]; live: [...] bool; total: as `normalize` takes it.    Returns: [].
    """
    if total is None:
        of_error, of_target = _variance(target - value, live), _variance(target, live)
    else:
        terms = torch.stack((target - value, target)).double()
        terms = torch.where(live, terms, 0.0).flatten(1)  # [2, n]
        sums = total(torch.cat((terms.sum(1), terms.square().sum(1), live.sum().double().view(1))))
        mean, squares = (sums[:4] / sums[4].clamp(min=1)).view(2, 2)
        variance = (squares - mean.square()).to(value.dtype)
        # What differs by no more than rounding is constant.
        rounding = (8 * torch.finfo(value.dtype).eps * mean).square()
        of_error, of_target = torch.where(variance <= rounding, 0.0, variance)
    return torch.where(of_target == 0, 0.0, 1 - of_error / of_target)


def _variance(x: Tensor, live: Tensor) -> Tensor:
    """Population variance over live rows, [...] -> []."""
    return live_mean((x - live_mean(x, live)).square(), live)
