"""Tells the author of an environment what is wrong with it, before anything is trained on it."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from rlpyt.envs.exits import no_exit
from rlpyt.envs.make import describe, require_next_step
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.own_snapshots import has_snapshots
from rlpyt.envs.player import Finding, Findings, Player, Stop, short
from rlpyt.envs.spec import Box, EnvSpec, leaves
from rlpyt.errors import EnvironmentFault, UsageError


def check(
    env: gymnasium.Env[Any, Any], options: EnvOptions | None = None, *, steps: int = 1000
) -> list[Finding]:
    """Everything found in one environment, errors first; it is reset and stepped, not closed.

    Args:
        options: as it will be trained with.
        steps: environment steps to play with random valid actions.
    """
    found = Findings()
    try:
        _check_type(env, found)
        _check_reset(env, found)
        spec = describe(env, options or EnvOptions(type(env.unwrapped).__name__))
        _look_at_spaces(spec, found)
        player = Player(env, spec, found)
        player.play(steps)
        _check_seeding(player, found)
        _check_snapshot(player, found)
    except Stop:
        pass
    except (UsageError, EnvironmentFault) as error:
        found.error("fault", str(error))
    return found.worst_first()


def _check_type(env: Any, found: Findings) -> None:
    if isinstance(env, VectorEnv):
        require_next_step(env, type(env).__name__)
        found.note("vector", "a vector environment is not checked; check one that it consists of")
        raise Stop
    if not isinstance(env, gymnasium.Env):
        raise found.error("type", f"{short(env)} is no gymnasium.Env; derive its class from that")
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if space is None:
            raise found.error(
                "space", f"{name} is not set; set it in __init__ to a gymnasium space"
            )
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.Autoreset):
            found.error(
                "autoreset",
                "the wrapper Autoreset resets the environment by itself, so that episodes would be "
                "reset twice; leave it out",
            )
        layer = layer.env


def _check_reset(env: gymnasium.Env[Any, Any], found: Findings) -> None:
    parameters = inspect.signature(env.unwrapped.reset).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in ("seed", "options"):
        if name not in parameters and not takes_any:
            raise found.error(
                "signature",
                f"reset() takes no {name}; write reset(self, *, seed=None, options=None) and begin "
                "it with super().reset(seed=seed)",
            )
    try:
        with no_exit("reset(seed=0)"):
            result: Any = env.reset(seed=0)
    except Exception as error:
        message = f"reset(seed=0) raised {type(error).__name__}: {error}"
        raise found.error("raises", message) from error
    pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
    # A Tuple observation on its own may look like the pair: the space tells them apart.
    alone = isinstance(env.observation_space, spaces.Tuple) and env.observation_space.contains(
        result
    )
    if not pair or alone:
        raise found.error(
            "reset", f"reset() returned {short(result)}; return (observation, info), info a dict"
        )


def _look_at_spaces(spec: EnvSpec, found: Findings) -> None:
    for path, leaf in leaves(spec.action, "action"):
        if isinstance(leaf, Box) and not (np.isfinite(leaf.low) & np.isfinite(leaf.high)).all():
            found.note(
                f"bounds of {path}",
                f"{path} has dimensions without two finite bounds: there policies give the action "
                "itself, clipped at a bound that is finite; elsewhere they give u in [-1, 1], "
                "which spans low to high",
            )
    for path, leaf in leaves(spec.observation, "observation"):
        if isinstance(leaf, Box) and leaf.dtype != "uint8" and _looks_like_image(leaf.shape):
            found.warning(
                f"image {path}",
                f"{path} looks like an image, of {leaf.dtype} {leaf.shape}; declare uint8 from 0 "
                "to 255, which takes a quarter of the memory and is scaled and stacked as an image",
            )


def _looks_like_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape[0], shape[2]) in (1, 3, 4) and sorted(shape)[1] >= 16


def _check_seeding(player: Player, found: Findings) -> None:
    """Equal seeds and actions must give equal episodes: runs are resumed by that."""
    first, second = player.episode(7, 20), player.episode(7, 20)
    if first == second:
        return
    what = "first observations" if first[0] != second[0] else "episodes under the same actions"
    found.warning(
        "seed",
        f"reset(seed=7) twice gave two different {what}, so that runs cannot be repeated or "
        "resumed exactly; begin reset() with super().reset(seed=seed), set everything that steps "
        "depend on, and draw from self.np_random alone",
    )


def _check_snapshot(player: Player, found: Findings) -> None:
    """Where an environment offers snapshots, they must bring it back exactly."""
    env: Any = player.env.unwrapped
    if not has_snapshots(env):
        return
    action = player.draw(np.random.default_rng(2), player.reset(3))
    state = copy.deepcopy(env.snapshot())
    after = []
    for _ in range(2):
        after.append(player.stored(player.env.step(copy.deepcopy(action))[0]))
        env.restore(copy.deepcopy(state))
    if after[0] != after[1]:
        found.error(
            "snapshot",
            "after restore(snapshot()) the same action gave another observation; keep everything "
            "that steps depend on, the generator's state too",
        )
