"""Deep Q-learning (Mnih et al., 2015) and what was built on it, each variant an option."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from rlpyt.algos.q_learning import QLearning
from rlpyt.algos.q_targets import Draws, bonus, next_values, taken_of
from rlpyt.algos.replay_learning import Items
from rlpyt.arrays import NamedArrayTuple, tree_map
from rlpyt.functional import n_step


class Transitions(NamedArrayTuple):
    """What the loss reads of N transitions."""

    inputs: Any  # [N, ...] of the rows that were acted on
    action: Any  # [N]
    returns: Any  # [N] n-step sums of rewards
    discount: Any  # [N] gamma^m, 0 where the episode terminated
    following: Any  # [N, ...] inputs of the rows m later, which are bootstrapped from
    weight: Any = None  # [N] importance weights


@final
class DQN(QLearning):
    """Learns from transitions of n_step + 1 rows; see `DQNOptions`."""

    @torch.no_grad()
    def read(self, items: Items) -> Transitions:
        """The transitions of a draw.

        Args:
            items: [n_step + 1, N] rows.
        """
        options, inputs = self.options, items.inputs
        reward, terminated = self.reward(items.reward), items.terminated
        found = n_step(reward, terminated, items.last, options.gamma, options.n_step)
        returns, discount, m = (x[0] for x in found)
        if options.n_step == 1:
            following = inputs[1]
        else:
            columns = torch.arange(len(m), device=m.device)
            following = tree_map(lambda x: x[m, columns], inputs)
        read, action = self.agent.read, items.action[0]
        return Transitions(
            read(inputs[0]), action, returns, discount, read(following), items.weight
        )

    def loss(self, batch: Transitions, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of N transitions, as `QLearning.loss`."""
        agent, options, returns = self.agent, self.options, self.agent.returns
        with torch.no_grad():
            reward = batch.returns
            if options.munchausen:
                reward = reward + bonus(agent, options, batch.inputs, batch.action, draws)
            following = next_values(agent, options, batch.following, draws)
            target = returns.target(following, reward, batch.discount)
        z, _ = agent.z(batch.inputs, (), draws.online, draws.fractions)
        taken = taken_of(z, batch.action)
        losses, error = returns.loss(taken, target, draws.fractions)
        loss = losses.mean() if batch.weight is None else (batch.weight * losses).mean()
        with torch.no_grad():
            value = returns.value(taken.unsqueeze(-2)).mean()
            return loss, torch.cat([torch.stack((loss, value, error.mean())), error])

    def unrolled(self, items: Items) -> tuple[int, ...]:
        return (items.reward.shape[1],)
