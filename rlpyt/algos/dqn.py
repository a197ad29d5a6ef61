"""Deep Q-learning (Mnih et al., 2015) and what was built on it, each variant an option."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.learner import compiled
from rlpyt.algos.options import DQNOptions
from rlpyt.algos.q_targets import Draws, bonus, draw, next_values, taken_of
from rlpyt.algos.replay_learning import ReplayLearning
from rlpyt.arrays import NamedArrayTuple, tree_map
from rlpyt.functional import n_step
from rlpyt.replays.replay import Replay
from rlpyt.rows import Window
from rlpyt.storage import to_device


class Transitions(NamedArrayTuple):
    """What the loss reads of N transitions."""

    inputs: Any  # [N, ...] of the rows that were acted on
    action: Any  # [N]
    returns: Any  # [N] n-step sums of rewards
    discount: Any  # [N] gamma^m, 0 where the episode terminated
    following: Any  # [N, ...] inputs of the rows m later, which are bootstrapped from
    weight: Any = None  # [N] importance weights


class DQN:
    """Learns from transitions drawn from a replay.

    Args:
        agent: is trained.
        options: see `DQNOptions`.
        replay: transitions of n_step + 1 rows.
        total_env_steps: the length that the schedules are made for.
        generator: draws quantile fractions and the noise of layers; part of a checkpoint.
        compile: whether the loss is compiled.
    """

    names = ("loss/q", "loss/q_taken")  # the loss, and the value of the actions taken

    def __init__(
        self,
        agent: QLearningAgent,
        options: DQNOptions,
        replay: Replay,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        self.agent, self.options, self.generator = agent, options, generator
        self.learning = ReplayLearning(agent, options, replay, total_env_steps)
        self._loss = compiled(self.loss, agent) if compile else self.loss

    @property
    def learner(self) -> Any:
        return self.learning.learner

    def update(self, window: Any, env_steps: int) -> dict[str, Any]:
        """Make the updates that are due after a window.

        Args:
            window: T rows that were just answered; the replay holds them.
            env_steps: taken before them.

        Returns:
            Means over the updates by tag, which are not there before the first, and counts.
        """
        found = self.learning.update(
            window, env_steps, self.read, self._draw, self._loss, self.names
        )
        return found | {"explore/epsilon": self.agent.epsilon.mean()}

    @torch.no_grad()
    def read(self, window: Window) -> Transitions:
        """The transitions of a draw, on the agent's device.

        Args:
            window: [n_step + 1, N] rows.
        """
        options, rows = self.options, window.tensors
        reward, terminated = self.learning.reward(rows.reward), rows.terminated
        inputs, n = window.inputs(), options.n_step
        found = n_step(reward, terminated, rows.last, options.gamma, n)
        returns, discount, m = (x[0] for x in found)
        if n == 1:
            following = inputs[1]
        else:
            columns = torch.arange(len(m), device=m.device)
            following = tree_map(lambda x: x[m, columns], inputs)
        batch = Transitions(inputs[0], rows.action[0], returns, discount, following)
        batch = to_device(batch, self.agent.device)
        read = self.agent.read
        return batch.replace(inputs=read(batch.inputs), following=read(batch.following))

    def loss(self, batch: Transitions, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of N transitions.

        Args:
            batch: as `read`.
            draws: noise and fractions of this update.

        Returns:
            The mean loss, 0-d, and [2 + N]: the metrics of `names`, then the errors from which
            priorities are made.
        """
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
            return loss, torch.cat([torch.stack((loss, value)), error])

    def state(self) -> dict[str, Any]:
        return {"learning": self.learning.state(), "generator": self.generator.get_state()}

    def load(self, state: dict[str, Any]) -> None:
        self.learning.load(state["learning"])
        self.generator.set_state(state["generator"])

    def _draw(self, batch: Transitions) -> Draws:
        return draw(self.agent, self.generator, len(batch.returns))
