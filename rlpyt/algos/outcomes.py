"""What came of a window's actions, as the learner is to see it."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.normalizers import RewardScale
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.options import PolicyGradientOptions
from rlpyt.arrays import NamedArrayTuple, tree_map
from rlpyt.rows import Row, Window
from rlpyt.storage import to_device


class Outcomes(NamedArrayTuple):
    """What arrived at T rows and at the boundary row; what advantages are functions of."""

    reward: Any  # [T+1, B], clipped and scaled
    discount: Any  # [T+1, B]; gamma, or 0 where the episode terminated on arrival
    last: Any  # [T+1, B]; rows that end an episode: their action never happened


@final
class OutcomeReader:
    """Clips and scales rewards, and keeps the running statistics that this needs.

    Args:
        options: discount, what is done to rewards.
        num_envs: B.
    """

    def __init__(self, options: PolicyGradientOptions, num_envs: int) -> None:
        self.options = options
        self.reward_scale = (
            RewardScale(num_envs, options.gamma) if options.normalize_reward else None
        )

    def merge(self, window: Window) -> None:
        """Take the window's rewards into the statistics; once, before the window is read."""
        if self.reward_scale is not None:
            reward = self._clipped(window.tensors.reward[1:])
            self.reward_scale.update(reward.numpy(), window.rows.first[1:])

    def read(self, window: Window, device: torch.device) -> Outcomes:
        """The window's outcomes, on the device."""
        rows = window.tensors
        reward = self._clipped(rows.reward)
        if self.reward_scale is not None:
            reward = self.reward_scale(reward)
        discount = self.options.gamma * ~rows.terminated
        return to_device(Outcomes(reward, discount, rows.last), device)

    def state(self) -> dict[str, Any]:
        return {} if self.reward_scale is None else dict(self.reward_scale.state_dict())

    def load(self, state: dict[str, Any]) -> None:
        if self.reward_scale is not None:
            self.reward_scale.load_state_dict(state)

    def _clipped(self, reward: Tensor) -> Tensor:
        return reward.sign() if self.options.reward_clip == "sign" else reward


def observe(agent: PolicyGradientAgent, window: Window) -> None:
    """Merge the window's observations into the agent's normalizer, after the update."""
    if agent.normalizer is not None:
        observation = tree_map(lambda x: x[:-1], window.inputs().observation)
        seen = observation, kept_rows(window.rows)
        agent.normalizer.update(*to_device(seen, agent.device))


def kept_rows(rows: Row) -> Tensor | None:
    """[T, B] which of rows 0 .. T-1 statistics are made of; None: all.

    Left out are those that belong to no episode, of environments that were given up: only there
    is a row the first and the last at once.
    """
    void = rows.first[:-1] & rows.last[:-1]
    return torch.from_numpy(~void) if np.count_nonzero(void) else None
