"""Advantage actor-critic, synchronous (Mnih et al., 2016, algorithm S3, workers in step)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import A2COptions
from rlpyt.algos.outcomes import observe
from rlpyt.algos.windows import Sample, WindowReader, fold
from rlpyt.arrays import tree_map
from rlpyt.functional import explained_variance, live_mean, live_means, normalize, value_loss
from rlpyt.models.flat import Adam, RMSprop
from rlpyt.rows import Window
from rlpyt.schedules import scheduled
from rlpyt.storage import to_device


class A2C:
    """Learns from each window by one step on all its rows.

    Args:
        agent: is trained.
        options: see `A2COptions`.
        num_envs: B.
        total_env_steps: the length that the schedule is made for.
        generator: unused, as nothing is shuffled; kept so that algorithms are built alike.
        compile: whether the loss is compiled.
    """

    metrics = ("loss/policy", "loss/value", "loss/entropy")

    def __init__(
        self,
        agent: PolicyGradientAgent,
        options: A2COptions,
        num_envs: int,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        self.agent, self.options = agent, options
        self.total_env_steps = total_env_steps
        self.reader = WindowReader(agent, options, num_envs)
        optimizer = (
            partial(RMSprop, eps=options.optimizer_eps, eps_inside_root=True)
            if options.optimizer == "rmsprop"
            else partial(Adam, eps=options.optimizer_eps)
        )
        self.learner = Learner(agent.model, optimizer, options.max_grad_norm, compile)

    def update(self, window: Window, env_steps: int) -> dict[str, Tensor]:
        """Learn from a window that was collected by the present weights.

        Args:
            window: T answered rows and the boundary row.
            env_steps: taken before the window.

        Returns:
            The step's metrics, 0-d tensors by tag.
        """
        options = self.options
        lr = scheduled(options.lr, options.lr_schedule, env_steps, self.total_env_steps)
        sample = self.reader.sample(window)
        whole = self.learner.total
        explained = explained_variance(sample.value, sample.target, sample.live, whole)
        states = tree_map(lambda x: x.flatten(0, 1), to_device(window.states, self.agent.device))
        chunks = fold(sample, window.sample_length)
        means = self.learner.step(self.loss, lr, chunks, states, live=chunks.live)
        observe(self.agent, window)
        names = ("loss/gradient_norm", *self.metrics)
        seen = dict(zip(names, means.unbind(), strict=True))
        return {**seen, "loss/explained_variance": explained, "loss/lr": torch.tensor(lr)}

    def loss(self, sample: Sample, state: Any) -> tuple[Tensor, Tensor]:
        """Policy gradient, value error and entropy of a window, and its parts.

        Args:
            sample: [L, N, ...].
            state: [N, ...] as fed at the chunks' first rows.

        Returns:
            The loss, 0-d, and [3] means over live rows, in the order of `metrics`.
        """
        options, live = self.options, sample.live
        now, _ = self.agent.assess(sample.inputs, state, sample.action)
        advantage = sample.advantage
        if options.normalize_advantage:
            advantage = normalize(advantage, live, total=self.learner.total)
        policy = -advantage * now.log_prob
        error = value_loss(now.value, sample.target)
        total = policy + options.value_coef * error - options.entropy_coef * now.entropy
        with torch.no_grad():
            means = live_means([policy, error, now.entropy], live)
        return live_mean(total, live), means

    def state(self) -> dict[str, Any]:
        return {"learner": self.learner.state(), "reader": self.reader.outcomes.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.learner.load(state["learner"])
        self.reader.outcomes.load(state["reader"])
