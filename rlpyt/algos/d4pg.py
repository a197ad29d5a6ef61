"""Distributional deterministic policy gradients (D4PG, Barth-Maron et al., 2018), on one machine.

The critic gives a distribution, of atoms or quantiles; n rewards come before the bootstrap; items
may be drawn by priority. All three are options (`D4PGOptions`), and what is left here is algorithm
1 of the paper. Its actors run beside the learner; here they are the environments of one process.
"""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.q_value import Draws, QValueLearning, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.functional import live_mean


@final
class D4PG(QValueLearning):
    """DDPG whose critic gives the distribution of the return."""

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """Z'(s', mu'(s')); it is projected onto the atoms by `returns.target` (eq. 4)."""
        agent, states = self.agent, batch.states
        action, _ = agent.target_action(batch.following, states.target_actor)
        z, _ = agent.target_z(batch.following, states.target_critics, action)
        return least(agent.returns, z), None

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """-E[Z(s, mu(s))], the mean over live rows (algorithm 1, line 7)."""
        agent, states = self.agent, batch.states
        action, _ = agent.action(batch.inputs, states.actor)
        z, _ = agent.z(batch.inputs, states.critics, action, frozen=True, count=1)
        loss = -live_mean(agent.returns.value(z[0]), batch.live)
        return loss, loss.detach().view(1)
