"""What Q-learning from transitions and from sequences share: one network and its target."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import QLearningOptions
from rlpyt.algos.q_targets import Draws, draw
from rlpyt.algos.replay_learning import Items, ReplayLearning
from rlpyt.algos.target_network import TargetNetwork, optimizer_of
from rlpyt.replays.replay import Replay
from rlpyt.schedules import scheduled


class QLearning(ReplayLearning):
    """Trains one network from a replay; another follows it, which targets are made with.

    Args:
        agent: is trained.
        options: of the algorithm.
        replay: what is learned from.
        total_env_steps: the length that schedules are made for.
        generator: draws quantile fractions and the noise of layers; part of a checkpoint.
        compile: whether an update's gradient is compiled, as one function of tensors.
    """

    names = ("loss/gradient_norm", "loss/q", "loss/q_taken", "loss/error")

    def __init__(
        self,
        agent: QLearningAgent,
        options: QLearningOptions,
        replay: Replay,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        super().__init__(agent, options, replay, total_env_steps, generator)
        self.options: Any = options
        optimizer, norm = optimizer_of(options), options.max_grad_norm
        self.learner = Learner(agent.model, optimizer, norm, compile, agent, len(self.names) - 1)
        self.target = TargetNetwork(agent.target, self.learner)

    @abstractmethod
    def read(self, items: Items) -> Any:
        """What the loss reads of a draw: n-step returns, and where they are bootstrapped."""

    @abstractmethod
    def loss(self, batch: Any, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of N items.

        Args:
            batch: as `read`.
            draws: noise and fractions of this update.

        Returns:
            The loss, 0-d, and [3 + N]: the loss, the mean value of the actions taken, the mean
            error, and the errors from which priorities are made.
        """

    @property
    def updates(self) -> int:
        return self.learner.updates

    def learn(self, items: Items, env_steps: int) -> Tensor:
        """One update, after which the target network follows if it is its turn."""
        options = self.options
        lr = scheduled(options.lr, options.lr_schedule, env_steps, self.total_env_steps)
        draws = draw(self.agent, self.generator, *self.unrolled(items))
        metrics = self.learner.step(self.loss_of, lr, items, draws, live=self.live_rows(items))
        if self.learner.updates % options.target_update_updates == 0:
            self.target.follow(options.target_tau)
        return metrics

    def loss_of(self, items: Items, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of a draw."""
        return self.loss(self.read(items), draws)

    @abstractmethod
    def unrolled(self, items: Items) -> tuple[int, ...]:
        """Dimensions of the rows that quantile fractions are drawn for."""

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"explore/epsilon": self.agent.mean_epsilon}

    def state(self) -> dict[str, Any]:
        return super().state() | {"learner": self.learner.state()}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.learner.load(state["learner"])
