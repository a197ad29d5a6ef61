"""Recurrent Q-learning from sequences (R2D2, Kapturowski et al., 2019), on one machine.

A sequence has burn_in + train_rows + n_step rows. Both networks begin with the state that acting
had at its first row, read the burn-in rows without gradient, each with its own weights, and then
the others; losses are of the trained rows, and targets come from up to n_step rows behind them.
Wherever an episode begins in between, both states are reset (`models/memory.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.learner import compiled
from rlpyt.algos.options import R2D1Options
from rlpyt.algos.q_targets import Draws, draw, taken_of
from rlpyt.algos.replay_learning import ReplayLearning
from rlpyt.arrays import NamedArrayTuple, tree_leaves
from rlpyt.functional import live_mean, live_means
from rlpyt.functional.n_step import n_step
from rlpyt.functional.q_values import masked_q, munchausen, sequence_priority, soft_values
from rlpyt.replays.replay import Replay
from rlpyt.rows import Window
from rlpyt.storage import to_device


class Sequences(NamedArrayTuple):
    """What the loss reads of N sequences; L rows, of which T are trained, and n behind them."""

    inputs: Any  # [L, N, ...]
    state: Any  # [N, ...] as fed at the first row
    action: Any  # [T, N]
    returns: Any  # [T, N] n-step sums of rewards
    discount: Any  # [T, N] gamma^m, 0 where the episode terminated
    bootstrap: Any  # [T, N] int64 rows that are bootstrapped from, counted from the first trained
    live: Any  # [T, N] rows with a transition
    weight: Any = None  # [N] importance weights


class R2D1:
    """Learns from sequences drawn from a replay.

    Args:
        agent: is trained.
        options: see `R2D1Options`.
        replay: sequences of burn_in + train_rows + n_step rows.
        total_env_steps: the length that the schedules are made for.
        generator: draws quantile fractions and the noise of layers; part of a checkpoint.
        compile: whether the loss is compiled.
    """

    names = ("loss/q", "loss/q_taken")  # the loss, and the value of the actions taken

    def __init__(
        self,
        agent: QLearningAgent,
        options: R2D1Options,
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
    def read(self, window: Window) -> Sequences:
        """The sequences of a draw, on the agent's device.

        Args:
            window: [L, N] rows, and the states kept at the first.
        """
        options, rows, burn_in = self.options, window.tensors, self.options.burn_in
        behind = rows[burn_in:]  # [T + n, N, ...]
        trained = behind[: options.train_rows]
        returns, discount, m = n_step(
            self.learning.reward(behind.reward),
            behind.terminated,
            behind.last,
            options.gamma,
            options.n_step,
        )
        state = window.kept_state(0)
        if options.zero_state:
            state = self.agent.model.initial_state(window.num_envs)
        batch = Sequences(
            inputs=window.inputs(),
            state=state,
            action=trained.action,
            returns=returns,
            discount=discount,
            bootstrap=m + torch.arange(options.train_rows, device=m.device)[:, None],
            live=~trained.last,
        )
        batch = to_device(batch, self.agent.device)
        return batch.replace(inputs=self.agent.read(batch.inputs))

    def loss(self, batch: Sequences, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of N sequences, a mean over their live rows.

        Args:
            batch: as `read`.
            draws: noise and fractions [T + n, N, K] of this update.

        Returns:
            The loss, 0-d, and [2 + N]: the metrics of `names`, then the sequences' priorities.
        """
        returns, live = self.agent.returns, batch.live
        state, target_state = self._burn_in(batch, draws)
        inputs = batch.inputs[self.options.burn_in :]
        z, choosing = self._unroll(self.agent.z, inputs, state, draws.online, draws.fractions)
        with torch.no_grad():
            target = self._target(batch, inputs, choosing.detach(), target_state, draws)
        taken = taken_of(z[: len(live)], batch.action)  # [T, N, K]
        # Dead rows are silenced before the loss too: the slope of 0 * NaN is NaN.
        taken, target = (torch.where(live[..., None], x, 0.0) for x in (taken, target))
        fractions = None if draws.fractions is None else draws.fractions[: len(live)]
        losses, error = returns.loss(taken, target, fractions)  # [T, N] each
        if batch.weight is not None:
            losses = batch.weight * losses
        loss = live_mean(losses, live)
        with torch.no_grad():
            value = returns.value(taken.unsqueeze(-2)).squeeze(-1)
            priority = sequence_priority(error, live, self.options.priority_eta)
            return loss, torch.cat([live_means([losses, value], live), priority])

    def state(self) -> dict[str, Any]:
        return {"learning": self.learning.state(), "generator": self.generator.get_state()}

    def load(self, state: dict[str, Any]) -> None:
        self.learning.load(state["learning"])
        self.generator.set_state(state["generator"])

    def _draw(self, batch: Sequences) -> Draws:
        unrolled = self.options.item_length - self.options.burn_in
        return draw(self.agent, self.generator, unrolled, batch.action.shape[1])

    @torch.no_grad()
    def _burn_in(self, batch: Sequences, draws: Draws) -> tuple[Any, Any]:
        """The states [N, ...] that each network is fed at the first trained row."""
        rows, state = self.options.burn_in, batch.state
        if not rows or not tree_leaves(state):
            return state, state
        agent, inputs = self.agent, batch.inputs[:rows]
        _, online = agent.z(inputs, state, draws.online)
        _, target = agent.target_z(inputs, state, draws.target)
        return online, target

    def _unroll(
        self, network: Any, inputs: Any, state: Any, noise: Tensor | None, fractions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """z [T + n, N, A, K] of a network, and the z by which its actions are compared.

        Implicit quantiles are compared at other fractions than those drawn, in the same pass.
        """
        greedy = self.agent.returns.greedy_fractions()
        if greedy is None or fractions is None:
            z, _ = network(inputs, state, noise)
            return z, z
        greedy = greedy.to(fractions).expand(*fractions.shape[:-1], -1)
        z, _ = network(inputs, state, noise, torch.cat([fractions, greedy], -1))
        drawn = fractions.shape[-1]
        return z[..., :drawn], z[..., drawn:]

    def _target(
        self, batch: Sequences, inputs: Any, online: Tensor, state: Any, draws: Draws
    ) -> Tensor:
        """What the returns of the actions taken should be, [T, N, K].

        Args:
            inputs: [T + n, N, ...] from the first trained row on.
            online: [T + n, N, A, K] of the trained network, which chooses if `double`.
            state: the target network's at the first of these rows.
        """
        agent, options, returns = self.agent, self.options, self.agent.returns
        z, choosing = self._unroll(
            agent.target_z, inputs, state, draws.target, draws.target_fractions
        )
        value, reward, mask = returns.value(choosing), batch.returns, inputs.mask
        if options.munchausen:
            temperature, rows = options.munchausen_temperature, len(reward)
            following = soft_values(z, value, temperature, mask)
            reward = reward + munchausen(
                value[:rows],
                batch.action,
                temperature,
                options.munchausen_alpha,
                options.munchausen_floor,
                None if mask is None else mask[:rows],
            )
        else:
            chooser = returns.value(online) if options.double else value
            following = taken_of(z, masked_q(chooser, mask).argmax(-1))
        # The row that is bootstrapped from, an episode's final row included: [T, N, K].
        at = batch.bootstrap[..., None].expand(*batch.bootstrap.shape, following.shape[-1])
        return returns.target(following.gather(0, at), reward, batch.discount)
