"""Which family an environment belongs to, by its id alone: nothing is imported or made."""

from __future__ import annotations

import re
from typing import Any

# The first pattern that an id matches from its start gives the family; the most special ones lead.
_FAMILIES = {
    "atari": r"ALE/|\w+NoFrameskip-v\d",
    "minatar": r"MinAtar/",
    "memory": r"rlpyt/",  # the tasks of envs/memory.py; those without a memory do without it too
    "acrobot": r"Acrobot-",
    "mountain-car": r"MountainCar(Continuous)?-",
    "lunar-lander": r"LunarLander",
    "pendulum": r"Pendulum-",
    "bipedal-walker": r"BipedalWalker",
    "classic": r"CartPole-",
    "mujoco": r"(HalfCheetah|Hopper|Walker2d|Ant|Humanoid(Standup)?|Swimmer|Reacher|Pusher"
    r"|Inverted(Double)?Pendulum)-|dm_control/",
}

# Of families with tasks of either kind, those whose actions are one Discrete choice.
_DISCRETE = re.compile(r"LunarLander-|MountainCar-|rlpyt/(?!Pendulum)")


def family(env: Any) -> str:
    """The family of an environment's id; "default" for any other, and for a factory."""
    name = _name(env)
    return next((f for f, pattern in _FAMILIES.items() if re.match(pattern, name)), "default")


def discrete(env: Any) -> bool:
    """Whether an environment of a family of either kind has one Discrete choice, by its id."""
    return bool(_DISCRETE.match(_name(env)))


def _name(env: Any) -> str:
    return env.rpartition(":")[2] if isinstance(env, str) else ""
