"""What soft actor-critic is of actions of any kind: an entropy that has a price."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import SACOptions
from rlpyt.algos.q_value import Draws, QValueLearning
from rlpyt.algos.replay_learning import Items
from rlpyt.algos.target_network import optimizer_of
from rlpyt.algos.temperature import Temperature
from rlpyt.replays.replay import Replay


class SoftLearning(QValueLearning):
    """Abstract: critics of returns that count entropy, and a temperature that is learned or not."""

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
        optimizer = optimizer_of(replace(options, adam_beta1=0.9)) if self._learned else None
        self.temperature = Temperature(initial, agent.device, optimizer)
        for learner in (self.learner, self.actor_learner):
            learner.read.append(self.temperature)
        # TQC pools the quantiles of all critics, REDQ takes the least of a few; both are judged by
        # the mean of all.
        self._pools = options.values == "quantile"
        self._subset = not self._pools and options.target_critics < options.critics
        self.bootstrapping = options.target_critics if self._subset else None
        judge = "mean" if self._pools or self._subset else "least"
        self._judge = judge if options.actor_judge is None else options.actor_judge

    @abstractmethod
    def wanted_entropy(self, metrics: Tensor) -> float | Tensor:
        """What the temperature moves the policy's entropy to.

        Args: metrics: of the actor's update, those of `actor_names`.
        """

    def draw(self, items: Items) -> Draws:
        draws = super().draw(items)
        if not self._subset:
            return draws
        order = torch.randperm(self.options.critics, generator=self.generator)
        return draws.replace(subset=order[: self.options.target_critics])

    def judged(self, value: Tensor) -> Tensor:
        """What the actor climbs, [...], of what each critic says [C, ...]."""
        return value.mean(0) if self._judge == "mean" else value.amin(0)

    def learn_actor(
        self, given: Any, draws: Draws, env_steps: int, live: Tensor | None = None
    ) -> Tensor:
        """One update of the actor, then of the temperature by the entropy that the actor had."""
        metrics = super().learn_actor(given, draws, env_steps, live)
        if self._learned:
            options, wanted = self.options, self.wanted_entropy(metrics)
            lr = options.lr if options.temperature_lr is None else options.temperature_lr
            self.temperature.step(metrics[2], wanted, self.rate(lr, env_steps))
        return metrics

    def state(self) -> dict[str, Any]:
        own = {"temperature": self.temperature.state()} if self._learned else {}
        return super().state() | own

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        if self._learned:
            self.temperature.load(state["temperature"])
