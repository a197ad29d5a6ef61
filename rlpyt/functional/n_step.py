"""n-step returns of rows that lie in a replay: what is known before any network is asked.

What arrives at row t is the outcome of the action of row t-1, and a row that ends an episode
(`last`) has no transition; `advantages.py` says more. There `n_step_returns` takes values of rows
that are all at hand and shortens returns at the window's end. Here the sum of rewards, the
bootstrap row and its discount are apart: networks look at that row only, and returns of
distributions are not added up.
"""

import torch
from torch import Tensor


def n_step(
    reward: Tensor, terminated: Tensor, last: Tensor, gamma: float, n: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of up to n rewards, and where and how to bootstrap (Sutton & Barto, eq. 7.1).

    From row t there are m = n steps, or as many as its episode has left, so that row t + m is
    either n rows later or the episode's final one:
    R = sum over i = 1 .. m of gamma^(i-1) reward[t+i], and the n-step return is
    R + discount * Q(row t + m).

    Args:
        reward: [L, N]; reward[t] arrived together with observation t.
        terminated: [L, N]; True where the episode terminated on arrival.
        last: [L, N]; True where row t ends an episode, so that its action never happened.
        gamma: discount per step.
        n: 1 <= n < L.

    Returns:
        R [L-n, N], the discount gamma^m [L-n, N] (0 where row t+m terminated), and m [L-n, N]
        int64; all 0 on rows that have no transition.
    """
    rows = len(reward) - n
    live, open_ended = ~last, ~terminated
    if n == 1:  # the same in half the operations
        going = live[:-1]
        discount = (going & open_ended[1:]).to(reward.dtype).mul_(gamma)
        return torch.where(going, reward[1:], 0.0), discount, going.long()
    going = live[:rows]  # still in the episode of row t, after i steps
    returns = torch.where(going, reward[1 : rows + 1], 0.0)
    bootstraps = going & open_ended[1 : rows + 1]
    steps = going.long()
    for i in range(1, n):
        going = going & live[i : rows + i]
        arrived = slice(i + 1, rows + i + 1)
        returns = returns.add(torch.where(going, reward[arrived], 0.0), alpha=gamma**i)
        bootstraps = torch.where(going, open_ended[arrived], bootstraps)
        steps = steps + going
    return returns, torch.where(bootstraps, gamma**steps, 0.0), steps
