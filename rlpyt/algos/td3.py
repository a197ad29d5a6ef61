"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018, algorithm 1)."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.q_value import Draws, QValueLearning, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.replay_learning import Items
from rlpyt.functional import live_mean


@final
class TD3(QValueLearning):
    """DDPG with the lesser of two critics, an actor that is updated less often, and targets of
    actions that are smoothed. See `TD3Options`."""

    def draw(self, items: Items) -> Draws:
        return Draws(following=self.following_normals(items))

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """min_i Q_i'(s', mu'(s') + clip(noise)), the action clipped to its bounds (eq. 10, 14)."""
        agent, options, states = self.agent, self.options, batch.states
        clip = options.target_noise_clip
        noise = (options.target_noise * draws.following).clamp(-clip, clip)
        action, _ = agent.target_action(batch.following, states.target_actor)
        action = (action + noise).clamp(-1, 1)  # unit coordinates span [low, high]
        z, _ = agent.target_z(batch.following, states.target_critics, action)
        return least(agent.returns, z), None

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """-Q_1(s, mu(s)), the mean over live rows."""
        agent, states = self.agent, batch.states
        action, _ = agent.action(batch.inputs, states.actor)
        z, _ = agent.z(batch.inputs, states.critics, action, frozen=True, count=1)
        loss = -live_mean(agent.returns.value(z[0]), batch.live)
        return loss, loss.detach().view(1)
