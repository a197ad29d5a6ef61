"""What Q-learning bootstraps from: the values of the next actions, by whichever variant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.options import QLearningOptions
from rlpyt.arrays import NamedArrayTuple
from rlpyt.functional.q_values import masked_q, munchausen, soft_values
from rlpyt.storage import to_device


class Draws(NamedArrayTuple):
    """What is random in one update; None where the variant needs none of it."""

    online: Any = None  # [normals] of the trained network's noisy layers
    chooser: Any = None  # the same, where it chooses the next action
    target: Any = None  # of the target network's
    fractions: Any = None  # [..., K] of the predicted implicit quantiles
    target_fractions: Any = None  # [..., K] of the targets'


NOTHING = Draws()


def draw(agent: QLearningAgent, generator: torch.Generator, *leading: int) -> Draws:
    """Fresh noise for each network's pass (Fortunato et al., 2018, section 3), fresh fractions.

    Args:
        generator: of the CPU, so that a run is the same on every device.
        leading: dimensions of the rows that fractions are drawn for, (N,) or (L, N).
    """
    if not agent.normals and not agent.returns.fractions_learn:
        return NOTHING
    draws = Draws()
    if agent.normals:
        online, chooser, target = torch.randn((3, agent.normals), generator=generator).unbind()
        draws = draws.replace(online=online, chooser=chooser, target=target)
    if count := agent.returns.fractions_learn:
        fractions = torch.rand((2, *leading, count), generator=generator).unbind()
        draws = draws.replace(fractions=fractions[0], target_fractions=fractions[1])
    return to_device(draws, agent.device)


def taken_of(z: Tensor, action: Tensor) -> Tensor:
    """z [..., A, N] of the actions [...]: [..., N]."""
    index = action[..., None, None].expand(*action.shape, 1, z.shape[-1])
    return z.gather(-2, index).squeeze(-2)


def next_values(
    agent: QLearningAgent, options: QLearningOptions, inputs: Any, draws: Draws
) -> Tensor:
    """Returns of the next action at rows that are bootstrapped from, without memory.

    The target network values it; with `double` the trained network chooses it (van Hasselt et al.,
    2016, eq. 4), with `munchausen` it is every action in proportion to the target's policy.
    Implicit quantiles choose at evenly spaced fractions, not at those that are drawn: what is large
    at these by chance would be chosen for it.

    Args:
        inputs: [N, ...], already read().

    Returns:
        z [N, M].
    """
    returns = agent.returns
    z, _ = agent.target_z(inputs, (), draws.target, draws.target_fractions)
    if options.double and not options.munchausen:  # without fractions these are evenly spaced
        compared, _ = agent.z(inputs, (), draws.chooser)
    elif returns.fractions_learn:
        compared, _ = agent.target_z(inputs, (), draws.target)
    else:
        compared = z
    value = returns.value(compared)
    if options.munchausen:
        return soft_values(z, value, options.munchausen_temperature, inputs.mask)
    return taken_of(z, masked_q(value, inputs.mask).argmax(-1))


def bonus(
    agent: QLearningAgent, options: QLearningOptions, inputs: Any, action: Tensor, draws: Draws
) -> Tensor:
    """What Munchausen adds to rewards [N]: the scaled log-policy of the target network."""
    z, _ = agent.target_z(inputs, (), draws.target)
    return munchausen(
        agent.returns.value(z),
        action,
        options.munchausen_temperature,
        options.munchausen_alpha,
        options.munchausen_floor,
        inputs.mask,
    )
