"""Recurrent Q-learning from sequences (R2D2, Kapturowski et al., 2019), on one machine.

A sequence has burn_in + train_rows + n_step rows. Both networks begin with the state that acting
had at its first row, read the burn-in rows without gradient, each with its own weights, and then
the others; losses are of the trained rows, and targets come from up to n_step rows behind them.
Wherever an episode begins in between, both states are reset (`models/memory.py`).
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from rlpyt.algos.q_learning import QLearning
from rlpyt.algos.q_targets import Draws, taken_of
from rlpyt.algos.replay_learning import Items
from rlpyt.arrays import NamedArrayTuple, tree_leaves
from rlpyt.functional import live_mean, live_means
from rlpyt.functional.n_step import n_step
from rlpyt.functional.q_values import masked_q, munchausen, sequence_priority, soft_values
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


@final
class R2D1(QLearning):
    """Learns from sequences of burn_in + train_rows + n_step rows; see `R2D1Options`."""

    @torch.no_grad()
    def read(self, items: Items) -> Sequences:
        """The sequences of a draw.

        Args:
            items: [L, N] rows, and the states kept at the first.
        """
        options, behind = self.options, slice(self.options.burn_in, None)  # [T + n, N, ...]
        last = items.last[behind]
        returns, discount, m = n_step(
            self.reward(items.reward[behind]),
            items.terminated[behind],
            last,
            options.gamma,
            options.n_step,
        )
        rows = torch.arange(options.train_rows, device=m.device)[:, None]
        state = items.state
        if options.zero_state:
            state = to_device(self.agent.model.initial_state(m.shape[1]), self.agent.device)
        return Sequences(
            inputs=self.agent.read(items.inputs),
            state=state,
            action=items.action[behind][: options.train_rows],
            returns=returns,
            discount=discount,
            bootstrap=m + rows,
            live=~last[: options.train_rows],
            weight=items.weight,
        )

    def loss(self, batch: Sequences, draws: Draws) -> tuple[Tensor, Tensor]:
        """The loss of N sequences, a mean over their live rows.

        Args:
            batch: as `read`.
            draws: noise and fractions [T + n, N, K] of this update.

        Returns:
            As `QLearning.loss`; of each sequence the priority is made of its rows' errors.
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
            return loss, torch.cat([live_means([losses, value, error], live), priority])

    def unrolled(self, items: Items) -> tuple[int, ...]:
        rows, count = items.reward.shape
        return rows - self.options.burn_in, count

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
