"""An environment's own snapshot, where it offers one: `snapshot()` and `restore(state)`.

Time limits around it count steps, which are saved beside it; any other wrapper may have a state
that no snapshot holds, so that such an environment is brought back by its actions instead.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

_TRANSPARENT = (
    gymnasium.wrappers.TimeLimit,  # its count is saved
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
)


def offers(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment can save and restore itself, and no wrapper around it has a state."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, _TRANSPARENT):
            return False
        env = env.env
    return hasattr(env, "snapshot") and hasattr(env, "restore")


def snapshot(env: gymnasium.Env[Any, Any]) -> dict[str, np.ndarray]:
    """An environment's own snapshot, with the step counts of time limits around it."""
    inner: Any = env.unwrapped
    return {**inner.snapshot(), "__elapsed__": np.array(_elapsed(env))}


def restore(env: gymnasium.Env[Any, Any], state: dict[str, np.ndarray]) -> None:
    """Take up a `snapshot`."""
    own = dict(state)
    elapsed = np.asarray(own.pop("__elapsed__")).tolist()
    inner: Any = env.unwrapped
    inner.restore(own)
    for limit, steps in zip(_limits(env), elapsed, strict=True):
        limit._elapsed_steps = steps


def _limits(env: gymnasium.Env[Any, Any]) -> list[gymnasium.wrappers.TimeLimit[Any, Any]]:
    found = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            found.append(env)
        env = env.env
    return found


def _elapsed(env: gymnasium.Env[Any, Any]) -> list[int]:
    return [limit._elapsed_steps or 0 for limit in _limits(env)]
