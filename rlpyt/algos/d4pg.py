"""Distributional deterministic policy gradients (D4PG, Barth-Maron et al., 2018), on one machine.

The critic gives a distribution, of atoms or quantiles; n rewards come before the bootstrap; items
may be drawn by priority. All three are options (`D4PGOptions`), and what is left here is algorithm
1 of the paper. Its actors run beside the learner; here they are the environments of one process.
"""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.deterministic import DeterministicLearning
from rlpyt.algos.q_value import Draws
from rlpyt.algos.q_value_batch import Batch


@final
class D4PG(DeterministicLearning):
    """DDPG whose critic gives the distribution of the return; the actor climbs its mean
    (algorithm 1, line 7)."""

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """Z'(s', mu'(s')); it is projected onto the atoms by `returns.target` (eq. 4)."""
        return self.target_returns(batch, self.target_action(batch), draws), None
