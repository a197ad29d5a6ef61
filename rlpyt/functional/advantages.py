"""Returns and advantages over a window of T rows and the boundary row that follows them.

What arrives at row t is the outcome of the action of row t-1, so the transition of row t is
(row t, row t+1). A row that ends an episode (`last`) has no transition: it is the state after
the final action, there to bootstrap from where the episode was only truncated.
The window's end, row T, is treated as a truncation.

Rows without a transition give 0, and whatever stands there (also NaN) reaches no other row:
masks select with `where`, because 0 * NaN is NaN.
"""

import torch
from torch import Tensor


def discounted_returns(reward: Tensor, discount: Tensor, last: Tensor, value: Tensor) -> Tensor:
    """Monte Carlo returns, bootstrapped where the episode is cut off (Sutton & Barto, eq. 3.9).

    Args:
        reward: [T+1, B]; reward[t] arrived together with observation t.
        discount: [T+1, B]; gamma, or 0 where the episode terminated on arrival.
        last: [T+1, B]; True where row t ends an episode, so that its action never happened.
        value: [T+1, B]; V of observation t, read at truncations and at the boundary row only.

    Returns:
        [T, B]; 0 on rows that have no transition.
    """
    live = ~last[:-1]
    end = torch.where(discount == 0, 0.0, value)
    returns = _accumulate(live, reward[1:], discount[1:], end)
    return torch.where(live, returns, 0.0)


def gae(reward: Tensor, discount: Tensor, last: Tensor, value: Tensor, lam: float) -> Tensor:
    """Generalized advantage estimates (Schulman et al., 2016, eq. 16).

    Args:
        reward: [T+1, B]; reward[t] arrived together with observation t.
        discount: [T+1, B]; gamma, or 0 where the episode terminated on arrival.
        last: [T+1, B]; True where row t ends an episode, so that its action never happened.
        value: [T+1, B]; V of observation t.
        lam: 0 is one-step TD, 1 is Monte Carlo.

    Returns:
        [T, B]; 0 on rows that have no transition.
    """
    delta = reward[1:] + _discounted(discount[1:], value[1:]) - value[:-1]
    return _accumulate(~last[:-1], delta, lam * discount[1:], torch.zeros_like(value))


def n_step_returns(reward: Tensor, discount: Tensor, last: Tensor, value: Tensor, n: int) -> Tensor:
    """n-step returns: fewer than n steps where the episode or the window ends before
    (Sutton & Barto, eq. 7.1).

    Args:
        reward: [T+1, B]; reward[t] arrived together with observation t.
        discount: [T+1, B]; gamma, or 0 where the episode terminated on arrival.
        last: [T+1, B]; True where row t ends an episode, so that its action never happened.
        value: [T+1, B]; V of observation t.
        n: steps of reward before the bootstrap; 1 is TD, T and more is Monte Carlo.

    Returns:
        [T, B]; 0 on rows that have no transition.
    """
    live = ~last[:-1]
    returns = value
    for _ in range(n):  # k+1 steps from here are one step and k steps from the next row
        longer = reward[1:] + _discounted(discount[1:], returns[1:])
        returns = torch.cat((torch.where(live, longer, value[:-1]), value[-1:]))  # [T+1, B]
    return torch.where(live, returns[:-1], 0.0)


def lambda_returns(
    reward: Tensor, discount: Tensor, last: Tensor, value: Tensor, lam: float
) -> Tensor:
    """λ-returns, the mean of the n-step returns weighted by (1-λ) λ^(n-1)
    (Sutton & Barto, eq. 12.3). On live rows this is `gae` plus the value.

    Args:
        reward: [T+1, B]; reward[t] arrived together with observation t.
        discount: [T+1, B]; gamma, or 0 where the episode terminated on arrival.
        last: [T+1, B]; True where row t ends an episode, so that its action never happened.
        value: [T+1, B]; V of observation t.
        lam: 0 is one-step TD, 1 is Monte Carlo.

    Returns:
        [T, B]; 0 on rows that have no transition.
    """
    live = ~last[:-1]
    end = torch.where(discount == 0, 0.0, value)
    one_step = reward[1:] + (1 - lam) * _discounted(discount[1:], value[1:])
    returns = _accumulate(live, one_step, lam * discount[1:], end)
    return torch.where(live, returns, 0.0)


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    discount: Tensor,
    last: Tensor,
    value: Tensor,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """V-trace targets, and the advantages of actions over them (Espeholt et al., 2018, eq. 1 and
    section 4.2, whose policy gradient weighs the advantages by the truncated ratio rho).

    With a log-ratio of 0 they are the λ-returns and `gae`, for every λ: the advantages look λ far
    ahead, as RLax's do; with λ = 1 that is the paper's r + gamma v' - V.

    Args:
        log_ratio: [T, B]; log of the learner's over the actor's probability of action t.
        reward: [T+1, B]; reward[t] arrived together with observation t.
        discount: [T+1, B]; gamma, or 0 where the episode terminated on arrival.
        last: [T+1, B]; True where row t ends an episode, so that its action never happened.
        value: [T+1, B]; the learner's V of observation t.
        lam: multiplies the traces c (remark 2).
        rho_clip: the paper's rho-bar; decides which policy's value is the fixed point.
        c_clip: the paper's c-bar; decides how far corrections travel.

    Returns:
        Targets v and advantages r + gamma (V' + λ (v' - V')) - V, each [T, B]; 0 on rows without
        a transition.
    """
    live, end = ~last[:-1], torch.zeros_like(value)
    ratio = log_ratio.exp()
    delta = reward[1:] + _discounted(discount[1:], value[1:]) - value[:-1]
    decay = lam * discount[1:]
    rho, c = ratio.clamp(max=rho_clip), ratio.clamp(max=c_clip)
    correction = _accumulate(live, rho * delta, decay * c, end)  # v - V
    following = torch.cat((correction[1:], end[-1:]))
    advantage = torch.addcmul(delta, decay, following)
    return torch.where(live, value[:-1] + correction, 0.0), torch.where(live, advantage, 0.0)


def _accumulate(live: Tensor, delta: Tensor, decay: Tensor, end: Tensor) -> Tensor:
    """x[t] = delta[t] + decay[t] x[t+1] where live, else end[t]; x[T] = end[T].

    Args: live, delta, decay: [T, B]; end: [T+1, B].    Returns: [T, B].
    """
    # Slices made by one unbind each: indexing row by row doubles the cost of the loop.
    *ends, x = end.unbind()
    rows = []
    for alive, d, c, e in zip(
        reversed(live.unbind()),
        reversed(delta.unbind()),
        reversed(decay.unbind()),
        reversed(ends),
        strict=True,
    ):
        x = torch.where(alive, torch.addcmul(d, c, x), e)  # [B]
        rows.append(x)
    return torch.stack(rows[::-1])


def _discounted(discount: Tensor, value: Tensor) -> Tensor:
    """discount * value, and 0 where the discount is, whatever the value of a terminal row."""
    return torch.where(discount == 0, 0.0, discount * value)
