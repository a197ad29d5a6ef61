"""Whether all environments of a run act and observe alike."""

from __future__ import annotations

from typing import Any

import gymnasium

from rlpyt.envs.make import observed
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import Box, EnvSpec, Spec, leaf_form, leaves
from rlpyt.errors import UsageError


def require_spaces(
    env: gymnasium.Env[Any, Any], options: EnvOptions, spec: EnvSpec, name: str
) -> None:
    """Refuse one of a run's environments that does not act and observe as the first one did.

    Bounds of what is observed may be its own; those of actions are what the agent's are scaled to.

    Args:
        name: of the environment, for the message.
    """
    action = to_spec(env.action_space, "action")
    if action != spec.action:
        raise UsageError(
            f"{name}: its action space {env.action_space} is not that of the environment which "
            f"was looked at first, {_bounded(spec.action)}; give all environments of a run one "
            "action space, and let those that differ translate what they are given"
        )
    if _forms(observed(env, options, spec.mask)) != _forms(spec.observation):
        raise UsageError(
            f"{name}: its observation space {env.observation_space} is not that of the environment "
            f"which was looked at first, {spec.observation!r}; give all environments of a run one "
            "observation space (pad what is smaller)"
        )


def _forms(spec: Spec) -> list[Any]:
    """The leaves with all that decides how they are stored."""
    return [(path, leaf_form(x) if isinstance(x, Box) else x) for path, x in leaves(spec)]


def _bounded(spec: Spec) -> str:
    """A specification as text, a Box's bounds with it."""
    bounds = f" from {spec.low} to {spec.high}" if isinstance(spec, Box) else ""
    return f"{spec!r}{bounds}"
