"""Refuses wrappers that normalize by running statistics of their own."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from rlpyt.errors import UsageError

_REMEDIES: Final = {
    NormalizeObservation: "--normalize-observation",
    NormalizeReward: "--normalize-reward (a2c, ppo, impala, appo), --reward-scale (ddpg, td3, sac, "
    "d4pg) or --value-rescale (dqn, r2d1)",
}


def refuse_running_statistics(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Refuse an environment whose observations or rewards depend on all that it saw before.

    What it says of one state changes as it is stepped; another environment, an evaluation's or a
    resumed run's, says something else.

    Args:
        name: of the environment, for the message.
    """
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        normalizing: Any = layer
        for kind, remedy in _REMEDIES.items():
            if isinstance(layer, kind) and normalizing.update_running_mean:
                raise UsageError(
                    f"{name}: the wrapper {kind.__name__} normalizes by running statistics of its "
                    "own: every environment has others, those of evaluations too, and checkpoints "
                    f"hold none; leave it out and choose {remedy}, whose statistics are the "
                    "agent's, or hold them fixed (update_running_mean = False)"
                )
        layer = layer.env
