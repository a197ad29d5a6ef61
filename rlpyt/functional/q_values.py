"""What targets and losses of Q-learning are made of, of expected returns and of distributions.

A = actions, K = atoms of a categorical distribution, N and M = quantiles of two others. `...` are
any leading dimensions. Everything is per row and unreduced.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def masked_q(q: Tensor, mask: Tensor | None) -> Tensor:
    """Values of which no maximum or softmax chooses what is not allowed.

    Args:
        q: [..., A].
        mask: [..., A] bool, allowed actions; where none is (a mask on an episode's final row says
            nothing), all are. None: all.

    Returns:
        [..., A]; the least finite number instead of values that are masked.
    """
    if mask is None:
        return q
    return torch.where(mask | ~mask.any(-1, keepdim=True), q, torch.finfo(q.dtype).min)


def value_rescale(x: Tensor, eps: float) -> Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al., 2018, proposition A.2).

    Written so that nothing cancels: sqrt(y + 1) - 1 = y / (sqrt(y + 1) + 1).

    Args: x: [...].    Returns: [...].
    """
    return x * (eps + 1 / ((x.abs() + 1).sqrt() + 1))


def value_unrescale(x: Tensor, eps: float) -> Tensor:
    """The inverse of `value_rescale` (Pohlen et al., 2018, proposition A.2, iii).

    With u = sqrt(|y| + 1) - 1 for the y that is looked for, |x| = eps u^2 + (1 + 2 eps) u. The
    published form subtracts nearly equal numbers, twice, and divides the difference by eps; this is
    the same root, found without, also for eps = 0.

    Args: x: [...].    Returns: [...].
    """
    b = 1 + 2 * eps
    u = 2 * x / ((b**2 + 4 * eps * x.abs()).sqrt() + b)  # with the sign of x
    return u * (u.abs() + 2)


def huber(error: Tensor, delta: float) -> Tensor:
    """Half the square, continued linearly beyond delta: its gradient is the error, clipped (Huber,
    1964; Mnih et al., 2015, "Training details").

    Args: error: [...].    Returns: [...].
    """
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def categorical_projection(
    support: Tensor, probabilities: Tensor, reward: Tensor, discount: Tensor
) -> Tensor:
    """The distribution of reward + discount * Z on the support of Z (Bellemare et al., 2017,
    algorithm 1).

    Each atom's mass is shared by the two atoms around the place where it moves to. Where that is
    exactly an atom, or beyond an end, all of it goes there; as printed the algorithm loses the mass
    that moves to an atom, since both its shares are 0.

    Args:
        support: [K] atoms, ascending; K >= 2.
        probabilities: [..., K] of Z; not read where the discount is 0.
        reward: [...].
        discount: [...].

    Returns:
        [..., K].
    """
    atoms, ends = len(support), (discount == 0).unsqueeze(-1)
    probabilities = torch.where(ends, 1 / atoms, probabilities)  # any: all of it moves to reward
    moved = torch.addcmul(reward.unsqueeze(-1), discount.unsqueeze(-1), support)  # [..., K]
    moved = moved.contiguous()  # else searchsorted warns
    below = torch.searchsorted(support, moved, right=True).sub(1).clamp(0, atoms - 2)
    share = ((moved - support.take(below)) / support.diff().take(below)).clamp(0, 1)
    upper = probabilities * share
    projected = torch.zeros_like(upper).scatter_add(-1, below, probabilities - upper)
    return projected.scatter_add(-1, below + 1, upper)


def quantile_huber(prediction: Tensor, target: Tensor, fractions: Tensor, kappa: float) -> Tensor:
    """Quantile Huber loss (Dabney et al., 2018a, eq. 10), divided by kappa as in 2018b, eq. 3.

    Every predicted quantile meets every target quantile: the sum over predictions of the mean over
    targets. kappa = 0 is the limit of small ones, the quantile loss itself (2018a, eq. 8).

    Args:
        prediction: [..., N], of the fractions.
        target: [..., M].
        fractions: [..., N] or [N], in (0, 1).
        kappa: where the loss becomes linear.

    Returns:
        [...].
    """
    predicted, wanted = torch.broadcast_tensors(prediction.unsqueeze(-1), target.unsqueeze(-2))
    if kappa:
        error = F.huber_loss(predicted, wanted, reduction="none", delta=kappa)
    else:
        error = F.l1_loss(predicted, wanted, reduction="none")
    fractions = fractions.unsqueeze(-1)
    weight = torch.where(wanted < predicted, 1 - fractions, fractions)  # [..., N, M]
    return (weight * error).sum((-2, -1)) / ((kappa or 1.0) * wanted.shape[-1])


def munchausen(
    q: Tensor,
    action: Tensor,
    temperature: float,
    alpha: float,
    floor: float,
    mask: Tensor | None = None,
) -> Tensor:
    """What is added to the reward of an action: the scaled logarithm of its probability under
    softmax(q / temperature), alpha * clip(temperature * log p, floor, 0) (Vieillard et al., 2020,
    M-DQN).

    Args:
        q: [..., A] of the target network, at the row where the action was taken.
        action: [...] int64.
        floor: the paper's l_0.
        mask: [..., A] allowed actions, or None.

    Returns:
        [...].
    """
    log_p = masked_q(q / temperature, mask).log_softmax(-1)
    taken = log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return alpha * (temperature * taken).clamp(floor, 0)


def soft_values(z: Tensor, q: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """The bootstrap of a policy that is rewarded for its entropy: the sum over actions of
    p (z - temperature * log p), p = softmax(q / temperature) (Vieillard et al., 2020, soft-DQN).

    Of expected values, z = q, this is temperature * logsumexp(q / temperature).

    Args:
        z: [..., A, N] returns of all actions, at the bootstrap row.
        q: [..., A] their means.
        mask: [..., A] allowed actions, or None.

    Returns:
        [..., N].
    """
    log_p = masked_q(q / temperature, mask).log_softmax(-1)
    p = log_p.exp().unsqueeze(-1)  # [..., A, 1]
    terms = p * (z - temperature * log_p.unsqueeze(-1))
    return torch.where(p == 0, 0.0, terms).sum(-2)


def sequence_priority(error: Tensor, live: Tensor, eta: float) -> Tensor:
    """Priority of a sequence: eta * max |error| + (1 - eta) * mean |error| over its live rows
    (Kapturowski et al., 2019, section 2.3).

    Args:
        error: [L, N]; may hold anything on rows that are not live.
        live: [L, N] bool.

    Returns:
        [N]; 0 where no row is live.
    """
    size = torch.where(live, error.abs(), 0.0)
    mean = size.sum(0) / live.sum(0).clamp(min=1)
    return eta * size.amax(0) + (1 - eta) * mean
