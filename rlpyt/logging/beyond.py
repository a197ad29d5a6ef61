"""Returns that lie beyond the atoms that are to hold them: said once, for no loss shows it.

A projection puts what lies beyond the first or the last atom onto it. Losses stay small, and all
actions whose returns are that large look alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.algos.options import QLearningOptions, QValueOptions, SACOptions

if TYPE_CHECKING:
    from rlpyt.rows import Row

FORGOTTEN = 0.01  # discount below which a sum of rewards begins anew: what follows hardly counts
ROUNDING = 1e-6  # of what the atoms span


class Beyond:
    """Discounted sums of rewards, as the learner reads them: from some rows on, not from all.

    Of a return that begins with the sum S of k rewards the rest is gamma^k V, or nothing after a
    termination. It lies beyond the atoms where S + gamma^k v_min is more than v_max, or
    S + gamma^k v_max less than v_min: even if all that follows is as bad, or as good, as atoms go.
    Sums begin at episodes, at the last row before a reward that is not 0, and where one has run
    so far that what follows hardly counts.

    Args:
        algo: its learner's gamma, v_min, v_max, and what it reads of rewards.
        tell: shows a line to the user; once for each end of the atoms.
    """

    def __init__(self, algo: QLearningOptions | QValueOptions, tell: Callable[[str], object]):
        self.algo, self.tell = algo, tell
        self._scale = algo.reward_scale if isinstance(algo, QValueOptions) else 1.0
        self._sum: Any = 0.0  # [B] float64
        self._discount: Any = 1.0  # [B] gamma^k
        self._open = {"v_max", "v_min"}  # that nothing was told of

    def look(self, rows: Row) -> None:
        """Look at a window.

        Args:
            rows: numpy, [T+1, B], each row but the first new.
        """
        if not self._open:
            return
        reward = np.sign(rows.reward) if self.algo.reward_clip == "sign" else rows.reward
        reward = reward * np.float64(self._scale)
        self._begin(rows.first[0])
        for t in range(1, len(reward)):
            self._begin(rows.first[t])  # an episode's sum ends before the next one's first row
            with np.errstate(invalid="ignore"):  # infinities, where --nan-policy lets them through
                self._sum = self._sum + self._discount * reward[t]
            self._discount = self._discount * self.algo.gamma
            self._judge(self._sum, np.where(rows.terminated[t], 0.0, self._discount))
            self._begin((self._sum == 0) | (self._discount < FORGOTTEN))

    def _begin(self, where: np.ndarray) -> None:
        self._sum = np.where(where, 0.0, self._sum)
        self._discount = np.where(where, 1.0, self._discount)

    def _judge(self, summed: np.ndarray, discount: np.ndarray) -> None:
        low, high = self.algo.v_min, self.algo.v_max
        rounding = ROUNDING * (high - low)
        least, most = summed + discount * low, summed + discount * high
        if np.count_nonzero(least > high + rounding):
            self._say("v_max", f"{np.nanmax(least):.4g} or more", "greater", "raise --v-max")
        if np.count_nonzero(most < low - rounding):
            self._say("v_min", f"{np.nanmin(most):.4g} or less", "lower", "lower --v-min")

    def _say(self, end: str, seen: str, which: str, remedy: str) -> None:
        if end not in self._open:
            return
        self._open.remove(end)
        atom = f"{getattr(self.algo, end):g}"
        clip = "" if self.algo.reward_clip == "sign" else ", or --reward-clip sign"
        self.tell(
            f"a discounted return of {seen} was seen, and {end}={atom}: {which} returns are "
            f"learned as {atom}, and look alike; {remedy}{clip}"
        )


def beyond(algo: Any, tell: Callable[[str], object]) -> Beyond | None:
    """What looks for returns beyond the atoms; None where there are none.

    Nor with an entropy beside rewards, of which the rows do not tell.
    """
    learns = isinstance(algo, QLearningOptions | QValueOptions) and algo.values == "categorical"
    return Beyond(algo, tell) if learns and not isinstance(algo, SACOptions) else None
