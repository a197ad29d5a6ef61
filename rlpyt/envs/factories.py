"""What environments are made from."""

from __future__ import annotations

from typing import Any

from rlpyt.errors import UsageError


def factory(env: Any) -> Any:
    """What an environment is made from; one that is made already cannot be copied."""
    if isinstance(env, str) or callable(env):
        return env
    if not hasattr(env, "step"):
        raise UsageError(
            f"env is a {type(env).__name__}; it must be an id, module:Id, module:function, or a "
            "function that makes one environment, of which num_envs says how many there are"
        )
    spec = getattr(env, "spec", None)
    name = repr(spec.id) if spec is not None else f"{type(env).__name__} itself"
    raise UsageError(
        f"env is one {type(env).__name__} that was made already, and a run needs several, its own "
        f"to train in and others to evaluate in; pass {name}, or a function that makes one "
        "(with num_envs=1, if no two can train side by side)"
    )
