"""What the losses of actors and critics read of a draw, of transitions and of sequences alike.

A transition is an item with one trained row. A sequence, for networks with a memory, has burn_in +
train_rows + n_step rows: all networks begin with the state that acting had at its first row and
read the burn-in rows without gradient, each with its own weights; wherever an episode begins, the
states are reset (`models/memory.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.calls import call
from rlpyt.agents.q_value import QValueAgent
from rlpyt.algos.options import QValueOptions
from rlpyt.algos.replay_learning import Items
from rlpyt.arrays import NamedArrayTuple, tree_leaves, tree_map
from rlpyt.functional.n_step import n_step
from rlpyt.storage import to_device


class States(NamedArrayTuple):
    """What each network is fed at the first trained row, [N, ...]; () without memory."""

    actor: Any = ()
    critics: Any = ()
    target_actor: Any = ()
    target_critics: Any = ()


class Batch(NamedArrayTuple):
    """What the losses read of N items.

    R = T rows are bootstrapped from, one for each trained row; with memory R = T + n_step, all rows
    from the first trained one on, because the networks have to pass through them.
    """

    inputs: Any  # [T, N, ...] of the trained rows
    action: Any  # [T, N, *shape]
    returns: Any  # [T, N] n-step sums of rewards
    discount: Any  # [T, N] gamma^m, 0 where the episode terminated
    live: Any  # [T, N] rows with a transition
    following: Any  # [R, N, ...] inputs of rows that are bootstrapped from
    bootstrap: Any = None  # [T, N] int64 which of the R rows; None: each its own
    states: Any = States()  # at the first trained row
    weight: Any = None  # [N] importance weights


@torch.no_grad()
def read(agent: QValueAgent, options: QValueOptions, items: Items, reward: Tensor) -> Batch:
    """What the losses read of a draw.

    Args:
        items: [L, N] rows, L = burn_in + train_rows + n_step, and the states kept at the first.
        reward: [L, N] as the learner reads it.
    """
    rows, behind = options.train_rows, slice(options.burn_in, None)  # [T + n, N, ...]
    last = items.last[behind]
    returns, discount, m = n_step(
        reward[behind], items.terminated[behind], last, options.gamma, options.n_step
    )
    at = m + torch.arange(rows, device=m.device)[:, None]  # [T, N]
    if tree_leaves(agent.states(items.state)):
        inputs = agent.read(items.inputs)
        states, following, bootstrap = burn_in(agent, options, items, inputs), inputs[behind], at
        inputs = following[:rows]
    else:
        states, later, bootstrap = States(), items.inputs[behind], None
        inputs = agent.read(later[:rows])
        if options.n_step == 1:
            following = agent.read(later[1:])
        else:
            columns = torch.arange(m.shape[1], device=m.device)
            following = agent.read(tree_map(lambda x: x[at, columns], later))
    action, live = items.action[behind][:rows], ~last[:rows]
    found = Batch(inputs, action, returns, discount, live, following, bootstrap, states)
    return found.replace(weight=items.weight)


def burn_in(agent: QValueAgent, options: QValueOptions, items: Items, inputs: Any) -> States:
    """The states at the first trained row, each network's by its own weights.

    Args:
        inputs: [L, N, ...], already read().
    """
    state = items.state
    if options.zero_state:
        state = agent.model.initial_state(items.reward.shape[1])
        state = to_device(state, agent.device)
    actor, critics = agent.states(state)

    def after(network: Any, state: Any) -> Any:
        if not (options.burn_in and tree_leaves(state)):
            return state
        rows = inputs[: options.burn_in]
        return call(network, agent.precision, agent.device, rows, state)[1]

    target_critics = after(agent.target_critics.features, critics)
    if agent.shares_trunk:
        critics = after(agent.critics.features, critics)
        return States(critics, critics, target_critics, target_critics)
    return States(
        actor=after(agent.actor, actor),
        critics=after(agent.critics.features, critics),
        target_actor=() if agent.target_actor is None else after(agent.target_actor, actor),
        target_critics=target_critics,
    )
