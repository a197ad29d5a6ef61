"""Deep deterministic policy gradient (Lillicrap et al., 2016, algorithm 1)."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.q_value import Draws, QValueLearning, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.functional import live_mean


@final
class DDPG(QValueLearning):
    """One critic; the actor climbs it. See `DDPGOptions`."""

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """Q'(s', mu'(s')): the target critic's returns of the target actor's actions."""
        agent, states = self.agent, batch.states
        action, _ = agent.target_action(batch.following, states.target_actor)
        z, _ = agent.target_z(batch.following, states.target_critics, action)
        return least(agent.returns, z), None

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """-Q(s, mu(s)), the mean over live rows: its gradient is the policy's (eq. 6)."""
        agent, states = self.agent, batch.states
        action, _ = agent.action(batch.inputs, states.actor)
        z, _ = agent.z(batch.inputs, states.critics, action, frozen=True, count=1)
        loss = -live_mean(agent.returns.value(z[0]), batch.live)
        return loss, loss.detach().view(1)
