"""What algorithms that learn from a replay share: when to learn, how fast, and their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.algos.learner import Learner, Loss
from rlpyt.algos.options import ReplayOptions
from rlpyt.arrays import tree_map
from rlpyt.models.flat import Adam, FlatParameters, RMSprop
from rlpyt.replays.drawn import Drawn
from rlpyt.replays.replay import Replay
from rlpyt.rows import Window
from rlpyt.schedules import scheduled
from rlpyt.storage import as_tensors, to_device


class TargetAgent(Protocol):
    """An agent with a network that is trained and one that follows it."""

    model: nn.Module
    target: nn.Module
    normalizer: ObservationNormalizer | None
    device: torch.device


class ReplayLearning:
    """Counts rows and updates, and makes the updates.

    Args:
        agent: its model is trained, its target follows.
        options: see `ReplayOptions`.
        replay: what is learned from.
        total_env_steps: the length that schedules are made for.
    """

    def __init__(
        self, agent: TargetAgent, options: ReplayOptions, replay: Replay, total_env_steps: int
    ) -> None:
        self.agent, self.options, self.replay = agent, options, replay
        self.total_env_steps = total_env_steps
        rmsprop = partial(RMSprop, decay=0.95, eps=options.optimizer_eps, centred=True)
        adam = partial(Adam, eps=options.optimizer_eps)
        optimizer = rmsprop if options.optimizer == "rmsprop" else adam
        self.learner = Learner(agent.model, optimizer, options.max_grad_norm)
        self.target = FlatParameters(agent.target)
        self.credit = 0.0  # rows that may be trained now
        self.generated = self.trained = 0  # rows since learning started
        self._filled = False

    def update(
        self,
        window: Any,
        env_steps: int,
        read: Callable[[Window], Any],
        draw: Callable[[Any], Any],
        loss: Loss,
        names: Sequence[str],
    ) -> dict[str, Any]:
        """Make the updates that are due after a window, of one loss.

        Args:
            window: T rows that were just answered; the replay holds them.
            env_steps: taken before them.
            read: makes a batch of N items, with a field `weight`, from the rows of a draw.
            draw: what is random in an update of this batch.
            loss: of batch and draws; after the metrics of `names` it returns N errors, from which
                priorities are made.
            names: tags of the metrics.

        Returns:
            Means over the updates by tag, which are not there before the first, and the counts.
        """
        seen, k = [], len(names)
        for _ in range(self.due(window, env_steps)):
            drawn = self.replay.draw(self.beta(env_steps))
            batch = read(self.replay.window)
            batch = batch.replace(weight=self.weights(drawn))
            metrics = self.step(loss, env_steps, batch, draw(batch))
            if self.options.prioritized:
                self.replay.update(drawn, metrics[k:-1].cpu().numpy())
            seen.append(metrics)
        self.observe(window)
        found: dict[str, Any] = self.metrics()
        if seen:
            means = torch.stack(seen).mean(0) if len(seen) > 1 else seen[0]
            found |= dict(zip(names, means[:k].unbind(), strict=True))
            found |= {"loss/error": means[k:-1].mean(), "loss/gradient_norm": means[-1]}
        return found

    def due(self, window: Any, env_steps: int) -> int:
        """Updates that the replay ratio asks for after a window.

        Args:
            window: T rows that were just answered.
            env_steps: taken before them.
        """
        options = self.options
        live = int((~window.rows.last[:-1]).sum())
        counted = min(live, max(0, env_steps + live - options.learning_starts))
        if not (self._filled or self._fill()):
            return 0
        self.generated += counted
        self.credit += options.replay_ratio * counted
        updates = int(self.credit // options.rows_per_update)
        self.credit -= updates * options.rows_per_update
        self.trained += updates * options.rows_per_update
        return updates

    def step(self, loss: Loss, env_steps: int, *inputs: Any) -> Tensor:
        """One update, after which the target network follows if it is its turn.

        Returns:
            The loss's metrics with the gradient's norm appended.
        """
        options = self.options
        lr = scheduled(options.lr, options.lr_schedule, env_steps, self.total_env_steps)
        metrics = self.learner.step(loss, lr, *inputs)
        if self.learner.updates % options.target_update_updates == 0:
            self.target.vector.lerp_(self.learner.parameters.vector, options.target_tau)
            own = self.agent.model.buffers()  # such as those of a user's batch normalization
            for follows, buffer in zip(self.agent.target.buffers(), own, strict=True):
                follows.copy_(buffer)
        return metrics

    def beta(self, env_steps: int) -> float:
        """Exponent of the importance weights."""
        begin, end = self.options.priority_beta, self.options.priority_beta_end
        return begin + (end - begin) * min(1.0, env_steps / self.total_env_steps)

    def weights(self, drawn: Drawn) -> Tensor | None:
        """Importance weights [N] on the agent's device, or None."""
        if drawn.weights is None:
            return None
        return torch.from_numpy(drawn.weights).to(self.agent.device)

    def reward(self, reward: Tensor) -> Tensor:
        """What the learner reads of raw rewards."""
        return reward.sign() if self.options.reward_clip == "sign" else reward

    def observe(self, window: Any) -> None:
        """Merge the window's observations into the normalizer, after its updates."""
        if self.agent.normalizer is not None:
            seen = tree_map(lambda x: x[:-1], window.rows.observation)
            self.agent.normalizer.update(to_device(as_tensors(seen), self.agent.device))

    def metrics(self) -> dict[str, float]:
        """Counts of rows and updates, by tag."""
        return {
            "replay/rows": float(self.replay.rows),
            "replay/ratio": self.trained / max(1, self.generated),
            "replay/updates": float(self.learner.updates),
        }

    def state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state(),
            "credit": self.credit,
            "rows": [self.generated, self.trained],
            "replay": self.replay.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.learner.load(state["learner"])
        self.credit = state["credit"]
        self.generated, self.trained = state["rows"]
        self.replay.load(state["replay"])

    def _fill(self) -> bool:
        """Whether the replay holds as much as when learning starts: a resumed run's may be new."""
        ring = self.replay.ring
        wanted = min(self.options.learning_starts, ring.capacity * ring.num_envs)
        self._filled = self.replay.ready and self.replay.rows >= wanted
        return self._filled
