"""Soft actor-critic (Haarnoja et al., 2018b, "Soft Actor-Critic Algorithms and Applications").

Options make of it ensembles of critics (REDQ, Chen et al., 2021, algorithm 1), truncated mixtures
of quantile critics (TQC, Kuznetsov et al., 2020, algorithm 1), critics with dropout (DroQ, Hiraoka
et al., 2022, algorithm 2), without target networks (CrossQ, Bhatt et al., 2024) and with a network
of state values (the older SAC, Haarnoja et al., 2018a).
"""

from __future__ import annotations

from math import prod
from typing import final

import torch
from torch import Tensor

from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import SACOptions
from rlpyt.algos.q_value import Draws, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.replay_learning import Items
from rlpyt.algos.soft import SoftLearning
from rlpyt.arrays import tree_map
from rlpyt.functional import live_mean
from rlpyt.replays.replay import Replay


@final
class SAC(SoftLearning):
    """A stochastic actor, and critics of returns that count its entropy. See `SACOptions`."""

    def __init__(
        self,
        agent: QValueAgent,
        options: SACOptions,
        replay: Replay,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        super().__init__(agent, options, replay, total_env_steps, generator, compile)
        wanted = options.target_entropy  # unset: as in appendix D
        self.target_entropy = -float(prod(agent.action_shape)) if wanted is None else wanted
        self._joint = agent.target_critics is None
        self._values_states = bool(getattr(agent.critics, "values_states", False))

    def draw(self, items: Items) -> Draws:
        following = None if self._values_states else self.following_normals(items)
        return super().draw(items).replace(following=following, action=self.normals(items))

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor | None]:
        """min_i Q_i'(s', a') with a' from the policy, and -alpha log pi(a'|s') (eq. 3 and 5); of a
        network of state values V'(s') (2018a, eq. 8)."""
        if self._values_states:
            fed = batch.states.target_critics
            return self.agent.state_value(batch.following, fed, target=True), None
        action, bonus = self.following_action(batch, draws)
        fed, subset, masks = batch.states.target_critics, draws.subset, draws.targets
        z, _ = self.agent.target_z(batch.following, fed, action, subset, masks)
        return self.reduced(z), bonus

    @torch.no_grad()
    def following_action(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """a' of the policy [R, N, *shape], and its entropy's worth [R, N]."""
        states, noise = batch.states, draws.following
        action, log_prob, _ = self.agent.sample(batch.following, states.actor, noise)
        return action, -self.temperature() * log_prob

    def reduced(self, z: Tensor) -> Tensor:
        """What targets are made of: of critics' returns [C or M, R, N, K], [R, N, K']."""
        if self._pools:
            return lowest(z, self.options.drop_quantiles)
        return least(self.agent.returns, z)

    def compared(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """As `QValueLearning.compared`; without target networks both in one pass of one batch, of
        which the normalization is (Bhatt et al., 2024)."""
        if not self._joint:
            return super().compared(batch, draws)
        action, bonus = self.following_action(batch, draws)
        inputs = tree_map(lambda *x: torch.cat(x), batch.inputs, batch.following)  # [2T, N, ...]
        actions = torch.cat([batch.action, action])
        live = batch.live.repeat(2, 1)
        both, _ = self.agent.z(inputs, (), actions, masks=draws.critics, counted=live)
        z, following = both.chunk(2, dim=1)  # [C, T, N, K] each
        following = following.detach()
        if draws.subset is not None:
            following = following.index_select(0, draws.subset)
        return z, self.bootstrapped(batch, self.reduced(following), bonus)

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """As `QValueLearning.critic_loss`, with that of state values where they are learned."""
        loss, metrics = super().critic_loss(batch, draws)
        return (loss + self.value_loss(batch, draws) if self._values_states else loss), metrics

    def value_loss(self, batch: Batch, draws: Draws) -> Tensor:
        """(V(s) - min_i Q_i(s, a) + alpha log pi(a|s))² / 2, a from the policy (2018a, eq. 5)."""
        agent, states = self.agent, batch.states
        with torch.no_grad():
            action, log_prob, _ = agent.sample(batch.inputs, states.actor, draws.action)
            z, _ = agent.z(batch.inputs, states.critics, action)
            wanted = z.squeeze(-1).amin(0) - self.temperature() * log_prob  # [T, N]
        error = agent.state_value(batch.inputs, states.critics).squeeze(-1) - wanted
        losses = 0.5 * error.square()
        return live_mean(losses if batch.weight is None else batch.weight * losses, batch.live)

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """alpha log pi(a|s) - min_i Q_i(s, a) with a from the policy, through whose noise the
        gradient flows; the mean over live rows (eq. 7 and 9)."""
        agent, states, live = self.agent, batch.states, batch.live
        counted = live if self._joint else None
        action, log_prob, _ = agent.sample(batch.inputs, states.actor, draws.action, counted)
        fed, masks = states.critics, draws.judges
        z, _ = agent.z(batch.inputs, fed, action, frozen=True, masks=masks)
        value = self.judged(agent.returns.value(z))  # [T, N]
        alpha = self.temperature()
        loss = live_mean(alpha * log_prob - value, live)
        return loss, torch.stack((loss, -live_mean(log_prob, live), alpha)).detach()

    def wanted_entropy(self, metrics: Tensor) -> float:
        return self.target_entropy


def lowest(z: Tensor, drop: int) -> Tensor:
    """The quantiles of all critics but the greatest, ascending (Kuznetsov et al., 2020, eq. 9).

    Args:
        z: [C, ..., K].
        drop: for each critic.

    Returns:
        [..., C * (K - drop)].
    """
    pooled = z.movedim(0, -2).flatten(-2)  # [..., C * K]
    return pooled.sort(-1).values[..., : pooled.shape[-1] - drop * len(z)] if drop else pooled
