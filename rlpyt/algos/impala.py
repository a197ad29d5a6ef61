"""IMPALA's actor-critic: policy gradients corrected by V-trace (Espeholt et al., 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import IMPALAOptions
from rlpyt.algos.outcomes import observe
from rlpyt.algos.trajectories import Trajectory, TrajectoryReader, unroll
from rlpyt.functional import (
    approximate_kl,
    explained_variance,
    live_mean,
    live_means,
    normalize,
    value_loss,
    vtrace,
)
from rlpyt.models.flat import Adam, RMSprop
from rlpyt.rows import Window
from rlpyt.schedules import scheduled


@final
class IMPALA:
    """Learns from each window by one step on all its rows, whatever weights collected it.

    Args:
        agent: is trained.
        options: see `IMPALAOptions`.
        num_envs: B.
        total_env_steps: the length that the schedule is made for.
        generator: unused, as nothing is shuffled; kept so that algorithms are built alike.
        compile: whether the loss is compiled.
    """

    metrics = (
        *("loss/policy", "loss/value", "loss/entropy", "loss/kl", "loss/rho"),
        "loss/explained_variance",
    )

    def __init__(
        self,
        agent: PolicyGradientAgent,
        options: IMPALAOptions,
        num_envs: int,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        self.agent, self.options = agent, options
        self.total_env_steps = total_env_steps
        self.reader = TrajectoryReader(agent, options, num_envs)
        kind = RMSprop if options.optimizer == "rmsprop" else Adam
        optimizer = partial(kind, eps=options.optimizer_eps)
        self.learner = Learner(agent.model, optimizer, options.max_grad_norm, compile)

    def update(self, window: Window, env_steps: int) -> dict[str, Tensor]:
        """Learn from a window.

        Args:
            window: T answered rows and the boundary row.
            env_steps: taken before the window.

        Returns:
            The step's metrics, 0-d tensors by tag.
        """
        options = self.options
        lr = scheduled(options.lr, options.lr_schedule, env_steps, self.total_env_steps)
        rows, states = self.reader.read(window)
        means = self.learner.step(self.loss, lr, rows, states, live=rows.live)
        observe(self.agent, window)
        names = ("loss/gradient_norm", *self.metrics)
        return {**dict(zip(names, means.unbind(), strict=True)), "loss/lr": torch.tensor(lr)}

    def loss(self, rows: Trajectory, states: Any) -> tuple[Tensor, Tensor]:
        """Policy gradient, value error and entropy (section 4.2), and their parts.

        Args:
            rows: T rows and the boundary row.
            states: [C, B, ...] as fed at the chunks' first rows.

        Returns:
            The loss, 0-d, and [6] means over live rows, in the order of `metrics`.
        """
        options, live = self.options, rows.live
        now, value = unroll(self.agent, rows, states)
        with torch.no_grad():
            log_ratio = torch.where(live, now.log_prob - rows.log_prob, 0.0)
            clips = options.vtrace_lambda, options.rho_clip, options.c_clip
            outcomes = rows.reward, rows.discount, rows.last
            target, advantage = vtrace(log_ratio, *outcomes, value, *clips)
            if options.normalize_advantage:
                advantage = normalize(advantage, live, total=self.learner.total)
            rho = log_ratio.exp().clamp(max=options.rho_clip)
        policy = -rho * advantage * now.log_prob
        error = value_loss(now.value, target)
        total = policy + options.value_coef * error - options.entropy_coef * now.entropy
        with torch.no_grad():
            kl = approximate_kl(log_ratio)
            means = live_means([policy, error, now.entropy, kl, rho], live)
            explained = explained_variance(now.value, target, live, self.learner.total)
        return live_mean(total, live), torch.cat([means, explained.view(1)])

    def state(self) -> dict[str, Any]:
        return {"learner": self.learner.state(), "reader": self.reader.outcomes.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.learner.load(state["learner"])
        self.reader.outcomes.load(state["reader"])
