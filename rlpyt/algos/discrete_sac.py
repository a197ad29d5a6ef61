"""Soft actor-critic of one Discrete choice (Christodoulou, 2019): nothing is sampled in its losses.

Critics value every action at once, and what is a mean over actions is computed as one.
"""

from __future__ import annotations

from math import log
from typing import final

import torch
from torch import Tensor

from rlpyt.algos.q_value import Draws
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.soft import SoftLearning
from rlpyt.functional import live_mean
from rlpyt.rows import Inputs


@final
class DiscreteSAC(SoftLearning):
    """A policy of n probabilities, and critics of n actions. See `SACOptions`."""

    actor_names = (*SoftLearning.actor_names, "policy/target_entropy")

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """V(s') = sum_a pi(a|s') (min_i Q_i'(s', a) - alpha log pi(a|s')), in two parts."""
        states, alpha = batch.states, self.temperature()
        log_p, _ = self.agent.log_policy(batch.following, states.actor)  # [R, N, n]
        fed, subset, masks = states.target_critics, draws.subset, draws.targets
        z, _ = self.agent.target_z(batch.following, fed, None, subset, masks)
        p = log_p.exp()  # [R, N, n], and z [C or M, R, N, n, 1]
        value = (p * z.squeeze(-1).amin(0)).sum(-1, keepdim=True)
        return value, -alpha * (p * log_p).sum(-1)

    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """sum_a pi(a|s) (alpha log pi(a|s) - min_i Q_i(s, a)), the mean over live rows."""
        agent, states, live = self.agent, batch.states, batch.live
        log_p, _ = agent.log_policy(batch.inputs, states.actor)  # [T, N, n]
        fed, masks = states.critics, draws.judges
        with torch.no_grad():
            z, _ = agent.z(batch.inputs, fed, None, frozen=True, masks=masks)
            value, alpha = self.judged(z.squeeze(-1)), self.temperature()
            wanted = self.target_entropy(batch.inputs, log_p)
        p = log_p.exp()
        loss = live_mean((p * (alpha * log_p - value)).sum(-1), live)
        entropy = live_mean(-(p * log_p).sum(-1), live)
        found = torch.stack((loss, entropy, alpha, live_mean(wanted, live)))
        return loss, found.detach()

    def target_entropy(self, inputs: Inputs, log_p: Tensor) -> Tensor:
        """What each row's entropy should be, [T, N]: unset, a part of the most that it can be."""
        options, given = self.options, self.options.target_entropy
        if given is not None:
            return torch.full_like(log_p[..., 0], given)
        part = options.entropy_fraction
        if inputs.mask is None:
            return torch.full_like(log_p[..., 0], part * log(log_p.shape[-1]))
        allowed = inputs.mask | ~inputs.mask.any(-1, keepdim=True)
        return part * allowed.sum(-1).log()

    def wanted_entropy(self, metrics: Tensor) -> Tensor:
        return metrics[4]
