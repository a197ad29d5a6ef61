"""Asynchronous PPO: the clipped objective against whoever acted, with V-trace's targets
(Petrenko et al., 2020, "Sample Factory", section 3.4).
"""

from __future__ import annotations

from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import APPOOptions
from rlpyt.algos.outcomes import observe
from rlpyt.algos.trajectories import Trajectory, TrajectoryReader, unroll
from rlpyt.algos.windows import Sample, fold, minibatches
from rlpyt.arrays import tree_map
from rlpyt.functional import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    is_clipped,
    live_mean,
    live_means,
    normalize,
    value_loss,
    vtrace,
)
from rlpyt.models.flat import Adam
from rlpyt.rows import Window
from rlpyt.schedules import scheduled


@final
class APPO:
    """Learns from each window by several epochs of minibatches, whatever weights collected it.

    Args:
        agent: is trained.
        options: see `APPOOptions`.
        num_envs: B.
        total_env_steps: the length that the schedules are made for.
        generator: shuffles; its state is part of a checkpoint.
        compile: whether the loss is compiled.
    """

    metrics = ("loss/policy", "loss/value", "loss/entropy", "loss/kl", "loss/clip_fraction")

    def __init__(
        self,
        agent: PolicyGradientAgent,
        options: APPOOptions,
        num_envs: int,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        self.agent, self.options, self.generator = agent, options, generator
        self.total_env_steps = total_env_steps
        self.reader = TrajectoryReader(agent, options, num_envs)
        adam = partial(Adam, eps=options.optimizer_eps)
        self.learner = Learner(agent.model, adam, options.max_grad_norm, compile)
        self._clip = torch.zeros((), device=agent.device)  # a tensor: compiled once

    def update(self, window: Window, env_steps: int) -> dict[str, Tensor]:
        """Learn from a window.

        Args:
            window: T answered rows and the boundary row.
            env_steps: taken before the window.

        Returns:
            Means over the minibatches, 0-d tensors by tag.
        """
        options, total = self.options, self.total_env_steps
        lr = scheduled(options.lr, options.lr_schedule, env_steps, total)
        self._clip.fill_(scheduled(options.clip_coef, options.clip_schedule, env_steps, total))
        rows, states = self.reader.read(window)
        sample = self.sample(rows, states)
        whole = self.learner.total
        explained = explained_variance(sample.value, sample.target, sample.live, whole)
        begins = tree_map(lambda x: x.flatten(0, 1), states)
        count = options.minibatches(window.num_envs)
        seen: list[Tensor] = []
        for epoch in range(options.update_epochs):
            if epoch and options.recompute_advantages:
                sample = self.sample(rows, states)
            chunks = fold(sample, window.sample_length)
            for part, state in minibatches(chunks, begins, count, self.generator):
                seen.append(self.learner.step(self.loss, lr, part, state, live=part.live))
            if options.target_kl and self._mean(seen[-count:])["loss/kl"] > options.target_kl:
                break
        observe(self.agent, window)
        return {
            **self._mean(seen),
            "loss/explained_variance": explained,
            "loss/lr": torch.tensor(lr),
        }

    @torch.no_grad()
    def sample(self, rows: Trajectory, states: Any) -> Sample:
        """Targets and advantages by V-trace, of the present weights against those that acted."""
        options, live = self.options, rows.live
        now, value = unroll(self.agent, rows, states)
        log_ratio = torch.where(live, now.log_prob - rows.log_prob, 0.0)
        clips = options.vtrace_lambda, options.rho_clip, options.c_clip
        outcomes = rows.reward, rows.discount, rows.last
        target, advantage = vtrace(log_ratio, *outcomes, value, *clips)
        return Sample(
            inputs=rows.inputs[:-1],
            action=rows.action,
            log_prob=rows.log_prob,
            value=now.value,
            advantage=advantage,
            target=target,
            live=live,
        )

    def loss(self, sample: Sample, state: Any) -> tuple[Tensor, Tensor]:
        """The clipped objective (Schulman et al., 2017, eq. 9) of a minibatch, and its parts.

        Args:
            sample: [L, N, ...].
            state: [N, ...] as fed at the chunks' first rows.

        Returns:
            The loss, 0-d, and [5] means over live rows, in the order of `metrics`.
        """
        options, live = self.options, sample.live
        now, _ = self.agent.assess(sample.inputs, state, sample.action)
        advantage = sample.advantage
        if options.normalize_advantage:
            advantage = normalize(advantage, live, total=self.learner.total)
        log_ratio = torch.where(live, now.log_prob - sample.log_prob, 0.0)
        ratio = log_ratio.exp()  # to the weights that acted, which may be far behind
        policy = -clipped_surrogate(ratio, advantage, self._clip)
        if options.clip_value:
            error = clipped_value_loss(now.value, sample.value, sample.target, options.clip_value)
        else:
            error = value_loss(now.value, sample.target)
        total = policy + options.value_coef * error - options.entropy_coef * now.entropy
        with torch.no_grad():
            kl, clipped = approximate_kl(log_ratio), is_clipped(ratio, self._clip)
            means = live_means([policy, error, now.entropy, kl, clipped.float()], live)
        return live_mean(total, live), means

    def state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state(),
            "reader": self.reader.outcomes.state(),
            "generator": self.generator.get_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.learner.load(state["learner"])
        self.reader.outcomes.load(state["reader"])
        self.generator.set_state(state["generator"])

    def _mean(self, seen: list[Tensor]) -> dict[str, Tensor]:
        means = torch.stack(seen).mean(0)
        return dict(zip(("loss/gradient_norm", *self.metrics), means.unbind(), strict=True))
