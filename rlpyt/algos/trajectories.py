"""From a window of rows that older weights may have answered to what V-trace is a function of."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from rlpyt.agents.policy_gradient import Assessment, PolicyGradientAgent
from rlpyt.algos.options import PolicyGradientOptions
from rlpyt.algos.outcomes import OutcomeReader
from rlpyt.algos.windows import fold, silence
from rlpyt.arrays import NamedArrayTuple, tree_leaves, tree_map
from rlpyt.rows import Window
from rlpyt.storage import to_device


class Trajectory(NamedArrayTuple):
    """T rows and the boundary row, from which the last of them is bootstrapped."""

    inputs: Any  # [T+1, B, ...]
    action: Any  # [T, B, ...]
    log_prob: Any  # [T, B] of the action when it was taken, by the weights that acted
    reward: Any  # [T+1, B], clipped and scaled
    discount: Any  # [T+1, B]; gamma, or 0 where the episode terminated on arrival
    last: Any  # [T+1, B]; rows that end an episode: their action never happened
    live: Any  # [T, B]; rows with a transition: not last


@final
class TrajectoryReader:
    """Turns each window into a Trajectory, whatever weights collected it; writes nothing into it.

    Args:
        agent: keeps the log-probabilities of its actions (`behaviour`).
        options: discount, what is done to rewards.
        num_envs: B.
    """

    def __init__(
        self, agent: PolicyGradientAgent, options: PolicyGradientOptions, num_envs: int
    ) -> None:
        self.agent = agent
        self.outcomes = OutcomeReader(options, num_envs)

    @torch.no_grad()
    def read(self, window: Window) -> tuple[Trajectory, Any]:
        """The trajectory, and the states [C, B, ...] as fed at the first row of its C chunks."""
        self.outcomes.merge(window)
        rows, device = window.tensors, self.agent.device
        outcomes = self.outcomes.read(window, device)
        # Nothing reads a row at which an episode terminated; one that was truncated is valued.
        over = to_device(rows.terminated, device)
        action, kept, states = to_device((rows.action[:-1], rows.info[:-1], window.states), device)
        dead = outcomes.last[:-1]
        trajectory = Trajectory(
            silence(self.agent.read(window.inputs()), over),
            silence(action, dead),
            kept.log_prob,
            *outcomes,
            live=~dead,
        )
        return trajectory, states


def unroll(agent: PolicyGradientAgent, rows: Trajectory, states: Any) -> tuple[Assessment, Tensor]:
    """What the present weights think of a trajectory.

    Args:
        states: [C, B, ...] as fed at the first row of each of C chunks of equal length.

    Returns:
        The assessment [T, B] of the rows, without their distributions' parameters; and the values
        [T+1, B], the boundary row's without a gradient.
    """
    horizon, columns = rows.live.shape
    chunks = len(tree_leaves(states)[0]) if tree_leaves(states) else 1
    inputs, action = fold((rows.inputs[:-1], rows.action), horizon // chunks)
    begin = tree_map(lambda x: x.flatten(0, 1), states)
    now, end = agent.assess(inputs, begin, action)  # [L, C * B]
    with torch.no_grad():
        value = agent.value(rows.inputs[-1:], tree_map(lambda x: x[-columns:], end))
    log_prob, entropy, values = (
        x.unflatten(1, (chunks, columns)).transpose(0, 1).flatten(0, 1)
        for x in (now.log_prob, now.entropy, now.value)
    )
    return Assessment(log_prob, entropy, values, None), torch.cat([values, value])
