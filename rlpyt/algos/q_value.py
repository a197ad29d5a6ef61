"""What DDPG, TD3, D4PG and SAC share: critics learn of returns, an actor of its critics.

Every loss is of T rows of N items, [T, N], of which some are live (`q_value_batch.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import QValueOptions
from rlpyt.algos.q_value_batch import Batch, read
from rlpyt.algos.replay_learning import Items, ReplayLearning
from rlpyt.algos.target_network import TargetNetwork, optimizer_of
from rlpyt.arrays import NamedArrayTuple, tree_leaves
from rlpyt.functional import live_mean, live_means
from rlpyt.functional.q_values import sequence_priority
from rlpyt.means import Means
from rlpyt.models.batch_norm import Statistics
from rlpyt.replays.replay import Replay
from rlpyt.schedules import scheduled
from rlpyt.storage import to_device


class Draws(NamedArrayTuple):
    """What is random in one update; None where the algorithm needs none of it."""

    following: Any = None  # [R, N, *shape] normals of the actions that are bootstrapped from
    action: Any = None  # [T, N, *shape] normals of the actions that the actor is judged by
    subset: Any = None  # [M] int64 the critics that make targets
    # Which units of each hidden layer stay, [C, rows, N, width] bool, where others are dropped, of
    # as many critics as are asked:
    critics: Any = None  # of the critics that learn
    targets: Any = None  # of those that make targets
    judges: Any = None  # of those by which the actor learns


class QValueLearning(ReplayLearning):
    """Trains critics and, every `policy_delay` of their updates, an actor; targets follow both.

    Args:
        agent: is trained.
        options: of the algorithm.
        replay: what is learned from.
        total_env_steps: the length that schedules are made for.
        generator: draws the noise of updates; part of a checkpoint.
        compile: whether the gradients are compiled, each as one function of tensors.
    """

    names = ("loss/gradient_norm", "loss/q", "loss/q_taken", "loss/error")
    actor_names: tuple[str, ...] = ("loss/actor_gradient_norm", "loss/actor")
    judging: int | None = None
    """Critics that the actor's loss asks, the first ones; None: all."""
    bootstrapping: int | None = None
    """Critics that a target asks; None: all."""

    def __init__(
        self,
        agent: QValueAgent,
        options: QValueOptions,
        replay: Replay,
        total_env_steps: int,
        generator: torch.Generator,
        compile: bool = False,
    ) -> None:
        super().__init__(agent, options, replay, total_env_steps, generator)
        self.options: Any = options
        optimizer = optimizer_of(options)

        def learner(name: str, network: nn.Module, means: int) -> Learner:
            named = nn.ModuleDict({name: network})  # so that errors say whose weights they are of
            norm = options.max_grad_norm
            return Learner(named, optimizer, norm, compile, agent, means)

        self.learner = learner("critics", agent.critics, len(self.names) - 1)
        self.actor_learner = learner("actor", agent.actor, len(self.actor_names) - 1)
        followed = (agent.target_critics, self.learner), (agent.target_actor, self.actor_learner)
        self.targets = [TargetNetwork(target, of) for target, of in followed if target is not None]
        whole = self.learner.total
        self.statistics = Statistics(agent.critics, whole), Statistics(agent.actor, whole)
        self._masks: Any = getattr(agent.critics, "masks", None)  # draws them
        self._actor_seen: list[Tensor] = []  # metrics of the window's updates of the actor
        self._remembers = bool(tree_leaves(agent.states(agent.model.initial_state(1))))
        # Reading is part of what is compiled; memories are not, and pass through rows once.
        self._reads_within = compile and not self._remembers

    @abstractmethod
    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor | None]:
        """The returns of the actions that are bootstrapped from, without gradient.

        Returns:
            z [R, N, M], and what is added to their mean [R, N] (an entropy's worth), or None.
        """

    @abstractmethod
    def actor_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of the actor, 0-d, and the metrics of `actor_names` but for the norm."""

    @property
    def updates(self) -> int:
        """Of the critics."""
        return self.learner.updates

    def update(self, window: Any, env_steps: int) -> Means:
        """As `ReplayLearning.update`; the actor's tags are there where it was updated."""
        self._actor_seen.clear()
        found = super().update(window, env_steps)
        if not self._actor_seen or found.vector is None:
            return found
        actor = torch.stack(self._actor_seen).mean(0)
        vector = torch.cat([found.vector, actor])
        return Means(found.counts, (*found.tags, *self.actor_names), vector)

    def learn(self, items: Items, env_steps: int) -> Tensor:
        """One update of the critics; of the actor and the targets, if it is their turn."""
        options = self.options
        draws = to_device(self.draw(items), self.agent.device)
        rate = self.rate(options.lr, env_steps)
        given = items if self._reads_within else self.read(items)
        live = self.live_rows(items)
        metrics = self.learner.step(self._critic_loss, rate, given, draws, live=live)
        self.statistics[0].follow()
        if self.updates % options.policy_delay == 0:
            masks = self.masks(items, critics=self.judging)
            judges = to_device(masks, self.agent.device)
            self.learn_actor(given, draws.replace(judges=judges), env_steps, live)
        if self.updates % options.target_update_updates == 0:
            for target in self.targets:
                target.follow(options.target_tau)
        return metrics

    def learn_actor(
        self, given: Any, draws: Draws, env_steps: int, live: Tensor | None = None
    ) -> Tensor:
        """One update of the actor; returns the metrics of `actor_names`.

        Args:
            live: which rows are, as `live_rows`.
        """
        lr = self.options.lr if self.options.actor_lr is None else self.options.actor_lr
        rate = self.rate(lr, env_steps)
        metrics = self.actor_learner.step(self._actor_loss, rate, given, draws, live=live)
        self.statistics[1].follow()
        self._actor_seen.append(metrics)
        return metrics

    @torch.no_grad()
    def read(self, items: Items) -> Batch:
        """What the losses read of a draw; see `q_value_batch.read`."""
        return read(self.agent, self.options, items, self.reward(items.reward))

    def draw(self, items: Items) -> Draws:
        """What is random in an update, drawn on the CPU: a run is the same on every device."""
        if self.agent.target_critics is None:  # they read both kinds of rows as one batch
            return Draws(critics=self.masks(items, self.options.train_rows))
        critics = self.masks(items)
        targets = self.masks(items, self._beyond, self.bootstrapping)
        return Draws(critics=critics, targets=targets)

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of the critics, summed over them, a mean over live rows.

        Returns:
            The loss, 0-d, and [3 + N]: the loss, the mean value of the actions taken, the mean
            error, and the errors from which priorities are made, means over the critics.
        """
        returns, live = self.agent.returns, batch.live
        z, target = self.compared(batch, draws)  # [C, T, N, K] and [T, N, M]
        # Dead rows are silenced before the loss too: the slope of 0 * NaN is NaN.
        z, target = (torch.where(live[..., None], x, 0.0) for x in (z, target))
        losses, error = returns.loss(z, target, None)
        losses, error = losses.sum(0), error.mean(0)  # [T, N] each
        if batch.weight is not None:
            losses = batch.weight * losses
        with torch.no_grad():
            value = returns.value(z).mean(0)
            priority = sequence_priority(error, live, self.options.priority_eta)
            metrics = torch.cat([live_means([losses, value, error], live), priority])
        return live_mean(losses, live), metrics

    def compared(self, batch: Batch, draws: Draws) -> tuple[Tensor, Tensor]:
        """What critics say of the actions taken, [C, T, N, K], and what they should, [T, N, M]."""
        fed, masks = batch.states.critics, draws.critics
        z, _ = self.agent.z(batch.inputs, fed, batch.action, masks=masks)
        return z, self.target(batch, draws)

    @torch.no_grad()
    def target(self, batch: Batch, draws: Draws) -> Tensor:
        """What the returns of the actions taken should be, [T, N, M]."""
        return self.bootstrapped(batch, *self.following(batch, draws))

    def bootstrapped(self, batch: Batch, z: Tensor, bonus: Tensor | None) -> Tensor:
        """The same, of the returns of what follows (`following`)."""
        reward, discount, at = batch.returns, batch.discount, batch.bootstrap
        if at is not None:
            z = z.gather(0, at[..., None].expand(*at.shape, z.shape[-1]))
        if bonus is not None:
            bonus = bonus if at is None else bonus.gather(0, at)
            reward = reward + torch.where(discount == 0, 0.0, discount * bonus)
        return self.agent.returns.target(z, reward, discount)

    def reward(self, reward: Tensor) -> Tensor:
        """What the learner reads of raw rewards."""
        reward, scale = super().reward(reward), self.options.reward_scale
        return reward if scale == 1 else reward * scale

    def assert_finite(self) -> None:
        """Raise unless every weight that acts or learns is a finite number."""
        self.actor_learner.parameters.assert_finite()
        self.learner.parameters.assert_finite()

    def state(self) -> dict[str, Any]:
        own = {"learner": self.learner.state(), "actor": self.actor_learner.state()}
        return super().state() | own

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.learner.load(state["learner"])
        self.actor_learner.load(state["actor"])

    def rate(self, lr: float, env_steps: int) -> float:
        """The learning rate, as the schedule has changed it."""
        return scheduled(lr, self.options.lr_schedule, env_steps, self.total_env_steps)

    def normals(self, items: Items, rows: int = 0) -> Tensor:
        """Normal noise of an action for each trained row and `rows` more, [T + rows, N, *shape]."""
        dimensions = self.options.train_rows + rows, *items.action.shape[1:]
        return torch.randn(dimensions, generator=self.generator)

    def following_normals(self, items: Items) -> Tensor:
        """The same for the actions that are bootstrapped from, [R, N, *shape]."""
        return self.normals(items, self._beyond)

    @property
    def _beyond(self) -> int:
        """Rows that are bootstrapped from, beyond as many as are trained."""
        return self.options.n_step if self._remembers else 0

    def masks(self, items: Items, beyond: int = 0, critics: int | None = None) -> Any:
        """Which units of critics stay in each trained row and so many more; None: all do.

        Args:
            critics: how many are asked; None: all that there are.
        """
        if self._masks is None:
            return None
        rows = self.options.train_rows + beyond, items.action.shape[1]
        return self._masks(critics or self.options.critics, rows, self.generator)

    def _critic_loss(self, given: Any, draws: Draws) -> tuple[Tensor, Tensor]:
        return self.critic_loss(self._batch(given), draws)

    def _actor_loss(self, given: Any, draws: Draws) -> tuple[Tensor, Tensor]:
        return self.actor_loss(self._batch(given), draws)

    def _batch(self, given: Any) -> Batch:
        """The batch itself, or of items."""
        return self.read(given) if self._reads_within else given


def least(returns: Any, z: Tensor) -> Tensor:
    """Of several critics the returns with the least mean (Fujimoto et al., 2018, eq. 10).

    Args: z: [C, ..., K].    Returns: [..., K].
    """
    if len(z) == 1:
        return z[0]
    if z.shape[-1] == 1:
        return z.amin(0)
    chosen = returns.value(z).argmin(0, keepdim=True)  # [1, ...]
    return z.gather(0, chosen[..., None].expand(*chosen.shape, z.shape[-1]))[0]
