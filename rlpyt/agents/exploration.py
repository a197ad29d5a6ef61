"""How often each environment is answered at random: epsilon, a function of environment steps."""

from __future__ import annotations

from typing import final

import numpy as np

from rlpyt.algos.options import QLearningOptions


@final
class Epsilon:
    """Linear from `epsilon_start`, once learning starts, to an end of each environment's own.

    Nothing of it is saved: a resumed run asks with its environment steps and goes on where it was.

    Args:
        options: epsilon_start, epsilon_end, epsilon_steps, learning_starts, the ladder.
        num_envs: B, the environments of all processes together.
    """

    def __init__(self, options: QLearningOptions, num_envs: int) -> None:
        self._options = options
        self.end = _ends(options, num_envs)  # [B] float64

    def __call__(self, env_steps: int) -> np.ndarray:
        """[B] float32, at so many environment steps over all environments."""
        options = self._options
        fallen = (env_steps - options.learning_starts) / max(1, options.epsilon_steps)
        fallen = min(1.0, max(0.0, fallen))
        start = options.epsilon_start
        return ((1 - fallen) * start + fallen * self.end).astype(np.float32)


def _ends(options: QLearningOptions, num_envs: int) -> np.ndarray:
    """[B] float64, what epsilon falls to."""
    match options.epsilon_ladder:
        case "none":
            return np.full(num_envs, options.epsilon_end)
        case "log":  # the original rlpyt's
            return np.geomspace(options.epsilon_end_min, options.epsilon_end, num_envs)
        case "apex":  # Horgan et al. (2018), section 4.1, with their epsilon = 0.4, alpha = 7
            return 0.4 ** (1 + 7 * np.arange(num_envs) / max(1, num_envs - 1))
