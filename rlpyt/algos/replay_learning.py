"""What algorithms that learn from a replay share: when to learn, how fast, and from what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.algos.options import ReplayOptions
from rlpyt.algos.outcomes import kept_rows
from rlpyt.arrays import NamedArrayTuple, tree_map
from rlpyt.means import Means
from rlpyt.ranks import world
from rlpyt.replays.replay import Replay
from rlpyt.rows import Window
from rlpyt.storage import as_tensors, to_device


class Items(NamedArrayTuple):
    """N items of L consecutive rows, as they were drawn: rewards raw, observations as they came."""

    inputs: Any  # [L, N, ...] what an agent reads of the rows
    action: Any  # [L, N, ...]
    reward: Any  # [L, N]
    terminated: Any  # [L, N]
    truncated: Any  # [L, N]
    state: Any = ()  # [N, ...] as fed at the first row
    weight: Any = None  # [N] importance weights; None: all are 1

    @property
    def last(self) -> Tensor:
        return self.terminated | self.truncated


def items_of(window: Window, device: torch.device, weight: Any = None) -> Items:
    """The rows of a draw on a device.

    Args:
        window: [L, N] rows, and the states kept at the first.
        weight: [N] importance weights (numpy), or None.
    """
    rows = window.tensors
    if weight is not None:
        weight = torch.from_numpy(weight)
    flags = rows.terminated, rows.truncated
    state = window.kept_state(0)
    items = Items(window.inputs(), rows.action, rows.reward, *flags, state, weight)
    return items if device.type == "cpu" else to_device(items, device)


class ReplayLearning(ABC):
    """Counts rows and updates, and draws what each update learns from.

    Args:
        agent: is trained; has a `device`, and a `normalizer` or None.
        options: see `ReplayOptions`.
        replay: what is learned from.
        total_env_steps: the length that schedules are made for.
        generator: of what is random in an update; part of a checkpoint.
    """

    names: tuple[str, ...]  # tags of the metrics of `learn`

    def __init__(
        self,
        agent: Any,
        options: ReplayOptions,
        replay: Replay,
        total_env_steps: int,
        generator: torch.Generator,
    ) -> None:
        self.agent, self.replay, self.generator = agent, replay, generator
        self.total_env_steps = total_env_steps
        self._pace, self.ranks = options, world()
        self.credit = 0.0  # rows that may be trained now
        self.generated = self.trained = 0  # rows since learning started
        self._filled = False

    @abstractmethod
    def learn(self, items: Items, env_steps: int) -> Tensor:
        """One update.

        Args:
            items: what it learns from.
            env_steps: taken so far.

        Returns:
            The metrics of `names`, then N errors at least 0, from which priorities are made.
        """

    @property
    @abstractmethod
    def updates(self) -> int:
        """How many were made."""

    def update(self, window: Any, env_steps: int) -> Means:
        """Make the updates that are due after a window.

        Args:
            window: T rows that were just answered; the replay holds them.
            env_steps: taken before them.

        Returns:
            Means over the updates by tag, which are not there before the first, and the counts.
        """
        seen, k = [], len(self.names)
        for _ in range(self.due(window, env_steps)):
            drawn = self.replay.draw(self.beta(env_steps))
            items = items_of(self.replay.window, self.agent.device, drawn.weights)
            metrics = self.learn(items, env_steps)
            if self._pace.prioritized:
                self.replay.update(drawn, metrics[k:].cpu().numpy())
            seen.append(metrics)
        self.observe(window)
        if not seen:
            return Means(self.metrics)
        means = torch.stack(seen).mean(0) if len(seen) > 1 else seen[0]
        return Means(self.metrics, self.names, means[:k])

    def due(self, window: Any, env_steps: int) -> int:
        """Updates that the replay ratio asks for after a window.

        Args:
            window: T rows that were just answered.
            env_steps: taken before them.

        Several ranks make as many, of the rows of all: each update is of a batch on every rank.
        """
        options = self._pace
        last = window.rows.last[:-1]
        live = last.size - int(np.count_nonzero(last))
        waits = not (self._filled or self._fill())
        if self.ranks.size > 1:
            live, waits = map(int, self.ranks.totals(live, waits))
        if waits:
            return 0
        counted = min(live, max(0, env_steps + live - options.learning_starts))
        self.generated += counted
        self.credit += options.replay_ratio * counted
        rows = options.rows_per_update * self.ranks.size
        updates = int(self.credit // rows)
        self.credit -= updates * rows
        self.trained += updates * rows
        return updates

    def live_rows(self, items: Items) -> Tensor | None:
        """Which of the trained rows of a draw are; None: they are counted for no other process."""
        if self.ranks.size == 1:
            return None
        trained = self._pace.trained
        return ~items.last[trained.start : trained.stop]

    def beta(self, env_steps: int) -> float:
        """Exponent of the importance weights."""
        begin, end = self._pace.priority_beta, self._pace.priority_beta_end
        return begin + (end - begin) * min(1.0, env_steps / self.total_env_steps)

    def reward(self, reward: Tensor) -> Tensor:
        """What the learner reads of raw rewards."""
        return reward.sign() if self._pace.reward_clip == "sign" else reward

    def observe(self, window: Any) -> None:
        """Merge the window's observations into the normalizer, after its updates."""
        if self.agent.normalizer is not None:
            observation = as_tensors(tree_map(lambda x: x[:-1], window.rows.observation))
            seen = observation, kept_rows(window.rows)
            self.agent.normalizer.update(*to_device(seen, self.agent.device))

    def metrics(self) -> dict[str, float]:
        """Counts of rows and updates, by tag."""
        return {
            "replay/rows": float(self.replay.rows * self.ranks.size),
            "replay/ratio": self.trained / max(1, self.generated),
            "replay/updates": float(self.updates),
        }

    def state(self) -> dict[str, Any]:
        return {
            "credit": self.credit,
            "rows": [self.generated, self.trained],
            "replay": self.replay.state(),
            "generator": self.generator.get_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.credit = state["credit"]
        self.generated, self.trained = state["rows"]
        self.replay.load(state["replay"])
        self.generator.set_state(state["generator"])
        self._filled = False

    def _fill(self) -> bool:
        """Whether the replay holds as much as when learning starts: a resumed run's may be new."""
        ring = self.replay.ring
        wanted = min(self._pace.learning_starts // self.ranks.size, ring.capacity * ring.num_envs)
        self._filled = self.replay.ready and self.replay.rows >= wanted
        return self._filled
