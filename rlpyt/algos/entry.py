"""The priority with which items enter the replay: their error under the values of acting."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from rlpyt.algos.options import QLearningOptions
from rlpyt.errors import UsageError
from rlpyt.functional.n_step import n_step
from rlpyt.functional.q_values import sequence_priority
from rlpyt.returns import Returns
from rlpyt.ring import Ring


@final
class Entry:
    """|n-step error| of an item's trained rows, from the values that acting kept (`QKept`).

    The bootstrap is the greatest value at row t + m, the very row that the learner bootstraps
    from, discounted by gamma^m (Kapturowski et al., 2019, appendix; the target network and double
    Q-learning's choice are left to the learner). An item of transitions has one trained row.

    Args:
        ring: whose rows hold what was kept.
        returns: of expected values: how targets are made of rewards and values.
        options: gamma, n_step, reward_clip.
        trained: rows of an item, counted from its start.
        eta: of several rows, weight of the greatest error against their mean.
    """

    def __init__(
        self,
        ring: Ring,
        returns: Returns,
        options: QLearningOptions,
        trained: range,
        eta: float = 1.0,
    ) -> None:
        if options.values != "expected" or options.munchausen:
            raise UsageError(
                f"priority_entry=td with values={options.values}, munchausen={options.munchausen}: "
                "what acting keeps gives the error of expected values alone; choose "
                "--priority-entry max"
            )
        self._ring, self._returns, self._options, self._eta = ring, returns, options, eta
        self._rows = np.arange(trained.start, trained.stop + options.n_step)[:, None]
        self._trained = len(trained)

    @torch.no_grad()
    def __call__(self, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Priorities [M] of the items that begin at these rows of these columns, [M] each.

        All of an item's rows are answered.
        """
        ring, options = self._ring, self._options
        at = (starts + self._rows) % ring.num_slots, columns  # [trained + n, M]
        stored, kept = ring.rows, ring.rows.info
        reward, terminated, truncated, taken, best = (
            torch.from_numpy(x[at])
            for x in (stored.reward, stored.terminated, stored.truncated, kept.taken, kept.best)
        )
        last = terminated | truncated
        if options.reward_clip == "sign":
            reward = reward.sign()
        summed, discount, m = n_step(reward, terminated, last, options.gamma, options.n_step)
        bootstrap = best.gather(0, m + torch.arange(self._trained)[:, None])  # row t + m
        target = self._returns.target(bootstrap.unsqueeze(-1), summed, discount)
        taken, live = taken[: self._trained], ~last[: self._trained]
        _, error = self._returns.loss(taken.unsqueeze(-1), target, None)
        return sequence_priority(error, live, self._eta).numpy()
