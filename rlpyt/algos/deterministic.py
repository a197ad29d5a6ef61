"""What DDPG, TD3 and D4PG share: an actor of one action, which climbs the first critic."""

from __future__ import annotations

from torch import Tensor

from rlpyt.algos.q_value import Draws, QValueLearning, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.functional import live_mean


class DeterministicLearning(QValueLearning):
    """Abstract: the policy gradient of mu (Silver et al., 2014), and what its targets are of."""

    judging = 1

    def target_action(self, batch: Batch) -> Tensor:
        """mu'(s'), [R, N, *shape]."""
        return self.agent.target_action(batch.following, batch.states.target_actor)[0]

    def target_returns(self, batch: Batch, action: Tensor, draws: Draws) -> Tensor:
        """What the target critics say of the return of an action; of several, the least.

        Args:
            action: [R, N, *shape].
            draws: of the update.

        Returns:
            [R, N, K].
        """
        fed, masks = batch.states.target_critics, draws.targets
        z, _ = self.agent.target_z(batch.following, fed, action, masks=masks)
        return least(self.agent.returns, z)

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """-E[Z_1(s, mu(s))], the mean over live rows: its gradient is the policy's."""
        agent, states = self.agent, batch.states
        action, _ = agent.action(batch.inputs, states.actor)
        fed, count, masks = states.critics, self.judging, draws.judges
        z, _ = agent.z(batch.inputs, fed, action, frozen=True, count=count, masks=masks)
        loss = -live_mean(agent.returns.value(z[0]), batch.live)
        return loss, loss.detach().view(1)
