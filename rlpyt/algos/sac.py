"""Soft actor-critic (Haarnoja et al., 2018b, "Soft Actor-Critic Algorithms and Applications").

Options make of it ensembles of critics (REDQ, Chen et al., 2021, algorithm 1) and truncated
mixtures of quantile critics (TQC, Kuznetsov et al., 2020, algorithm 1).
"""

from __future__ import annotations

from math import prod
from typing import Any, final

import torch
from torch import Tensor

from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import SACOptions
from rlpyt.algos.q_value import Draws, QValueLearning, least
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.replay_learning import Items
from rlpyt.algos.temperature import Temperature
from rlpyt.functional import live_mean
from rlpyt.replays.replay import Replay


@final
class SAC(QValueLearning):
    """A stochastic actor, and critics of returns that count its entropy. See `SACOptions`."""

    actor_names = (*QValueLearning.actor_names, "policy/entropy", "policy/temperature")

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
        fixed = options.temperature
        initial = options.initial_temperature if fixed is None else fixed
        self._learned = fixed is None
        optimizer = self._optimizer if self._learned else None
        self.temperature = Temperature(initial, agent.device, optimizer)
        wanted = options.target_entropy  # unset: as in appendix D
        self.target_entropy = -float(prod(agent.action_shape)) if wanted is None else wanted
        # TQC pools the quantiles of all critics, REDQ takes the least of a few; both are judged by
        # the mean of all.
        self._pools = options.values == "quantile"
        self._subset = not self._pools and options.target_critics < options.critics

    def draw(self, items: Items) -> Draws:
        draws = Draws(following=self.following_normals(items), action=self.normals(items))
        if not self._subset:
            return draws
        order = torch.randperm(self.options.critics, generator=self.generator)
        return draws.replace(subset=order[: self.options.target_critics])

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """min_i Q_i'(s', a') with a' from the policy, and -alpha log pi(a'|s') (eq. 3 and 5)."""
        agent, states = self.agent, batch.states
        action, log_prob, _ = agent.sample(batch.following, states.actor, draws.following)
        fed = states.target_critics
        z, _ = agent.target_z(batch.following, fed, action, draws.subset)  # [C or M, R, N, K]
        z = lowest(z, self.options.drop_quantiles) if self._pools else least(agent.returns, z)
        return z, -self.temperature() * log_prob

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """alpha log pi(a|s) - min_i Q_i(s, a) with a from the policy, through whose noise the
        gradient flows; the mean over live rows (eq. 7 and 9)."""
        agent, states, live = self.agent, batch.states, batch.live
        action, log_prob, _ = agent.sample(batch.inputs, states.actor, draws.action)
        z, _ = agent.z(batch.inputs, states.critics, action, frozen=True)
        value = agent.returns.value(z)  # [C, T, N]
        value = value.mean(0) if self._pools or self._subset else value.amin(0)
        alpha = self.temperature()
        loss = live_mean(alpha * log_prob - value, live)
        return loss, torch.stack((loss, -live_mean(log_prob, live), alpha)).detach()

    def learn_actor(
        self, given: Any, draws: Draws, env_steps: int, live: Tensor | None = None
    ) -> Tensor:
        """One update of the actor, then of the temperature by the entropy that the actor had."""
        metrics = super().learn_actor(given, draws, env_steps, live)
        if self._learned:
            options, entropy = self.options, metrics[2]
            lr = options.lr if options.temperature_lr is None else options.temperature_lr
            self.temperature.step(entropy, self.target_entropy, self.rate(lr, env_steps))
        return metrics

    def state(self) -> dict[str, Any]:
        own = {"temperature": self.temperature.state()} if self._learned else {}
        return super().state() | own

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        if self._learned:
            self.temperature.load(state["temperature"])


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
