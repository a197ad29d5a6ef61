"""An environment's own snapshot, where it offers one; and the snapshots of many, put together.

`snapshot()` and `restore(state)` of an environment save and restore it.

Time limits around it count steps, which are saved beside it; any other wrapper may have a state
that no snapshot holds, so that such an environment is brought back by its actions instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from rlpyt.envs.own_snapshots import has_snapshots
from rlpyt.errors import EnvironmentFault
from rlpyt.vector.action_log import ActionLog
from rlpyt.vector.lost import lost

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
    return has_snapshots(env)


def snapshot(env: gymnasium.Env[Any, Any]) -> dict[str, np.ndarray]:
    """An environment's own snapshot, with the step counts of time limits around it."""
    inner: Any = env.unwrapped
    own = inner.snapshot()
    if not isinstance(own, Mapping):
        raise EnvironmentFault(
            f"snapshot() returned {type(own).__name__}; it must return a dict of arrays, which "
            "restore(state) takes; a method that does something else needs another name"
        )
    return {**own, "__elapsed__": np.array(_elapsed(env))}


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


def merged(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The snapshot of all columns, of those of some each, in their order."""
    begins = np.cumsum([0, *(len(state["resets"]) for state in states)])
    pairs = zip(begins, states, strict=False)
    cut = [begin + state["cut"] for begin, state in pairs if "cut" in state]
    merged = {
        "resets": np.concatenate([state["resets"] for state in states]),
        "log": ActionLog.merged([state["log"] for state in states]),
        "own": {name: x for state in states for name, x in state["own"].items()},
    }
    return merged | ({"cut": np.concatenate(cut)} if cut else {})


def part_of(state: dict[str, Any], columns: slice) -> dict[str, Any]:
    """Of the snapshot of all columns that of some; also of one that a pool has made."""
    if "log" not in state:
        return lost(np.full(columns.stop - columns.start, int(state["starts"])))
    log = ActionLog.part_of(state["log"], columns)
    names = {str(b) for b in range(columns.start, columns.stop)}
    own = {name: x for name, x in state["own"].items() if name in names}
    part = {"resets": np.asarray(state["resets"])[columns], "log": log, "own": own}
    cut = [b - columns.start for b in state.get("cut", ()) if columns.start <= b < columns.stop]
    return part | ({"cut": np.array(cut)} if cut else {})
