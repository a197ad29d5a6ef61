"""Masks of valid actions: where an environment offers them, and how one is read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from rlpyt.envs.observations import short
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import Box, Discrete, MultiDiscrete, Spec, leaves
from rlpyt.errors import EnvironmentFault, UsageError

MASK = "action_mask"


def find_mask(
    env: gymnasium.Env[Any, Any], options: EnvOptions, action: Spec
) -> tuple[Literal["observation", "info"] | None, int]:
    """Where the mask of valid actions comes from, and its size.

    Resets the environment where only an info can tell whether there is one.
    """
    if not options.action_mask:
        return None, 0
    where: Literal["observation", "info"] = "observation"
    shape, space, choices = None, env.observation_space, _choices(action)
    if isinstance(space, spaces.Dict) and MASK in space.spaces:
        shape = space[MASK].shape
    else:
        numbers = all(isinstance(leaf, Box) for _, leaf in leaves(action))
        info = {} if numbers else _info_of(env.reset(seed=0), options)
        if info.get(MASK) is None:
            return None, 0
        where = "info"
        with contextlib.suppress(ValueError):  # ragged
            shape = np.asarray(info[MASK], np.bool_).shape
    if not choices:
        raise UsageError(
            f"{options.name}: there is an {MASK} in the {where}, and the action space is "
            f"{env.action_space}; masks are of a Discrete or a MultiDiscrete: make it one in a "
            "wrapper, or pass --no-action-mask to treat the mask as any other value"
        )
    if shape is None or math.prod(shape) != choices:
        raise UsageError(
            f"{options.name}: {MASK} in the {where} has shape {shape}, and the action space "
            f"{env.action_space} has {choices} choices; give one flat array with a value for each "
            "of them, or pass --no-action-mask to treat it as any other value"
        )
    return where, choices


def valid_actions(mask: Any, size: int) -> np.ndarray:
    """A mask of valid actions as bool [size], or an EnvironmentFault.

    What is neither 0 nor 1 is no mask: one that is added to logits (0 and -inf) would be read as
    its opposite.
    """
    try:
        given = np.asarray(mask).ravel()
        read = given.astype(np.bool_, copy=False)
    except (TypeError, ValueError):  # of no numbers, or ragged
        given = read = np.zeros(0, np.bool_)
    if len(read) != size or (given.dtype != np.bool_ and not (given == read).all()):
        raise EnvironmentFault(
            f"action_mask is {short(mask)}; give an array of {size}, 1 (True) for each choice "
            "that is allowed and 0 for the others"
        )
    return read


def _info_of(returned: Any, options: EnvOptions) -> Mapping[str, Any]:
    """The info of what a reset returned."""
    pair = isinstance(returned, tuple) and len(returned) == 2
    if not (pair and isinstance(returned[1], Mapping)):
        kind = f"{type(returned).__module__}.{type(returned).__qualname__}"
        raise EnvironmentFault(
            f"{options.name}: reset() returned {kind}; it must return (observation, "
            "info: dict); wrap an environment of the older form (shimmy's GymV21CompatibilityV0)"
        )
    return returned[1]


def _choices(action: Spec) -> int:
    match action:
        case Discrete(n):
            return n
        case MultiDiscrete(nvec):
            return sum(nvec)
    return 0
