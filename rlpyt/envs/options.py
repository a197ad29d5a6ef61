"""Options of the environments. Nothing heavy is imported here: the command line's help reads it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro.conf import arg

from rlpyt.errors import UsageError

Protocol = Literal["machado2018", "mnih2015", "dopamine"]


@dataclass(frozen=True)
class EnvOptions:
    """Which environments, how many, and what is done to them before the agent sees them."""

    env: Annotated[str, arg(name="env-id", aliases=["--env"])]
    """A Gymnasium id, module:Id, or module:function that returns a gymnasium.Env."""

    num_envs: Annotated[int, arg(name="n-envs", aliases=["--num-envs"])] = 8
    """Environments stepped side by side, B."""

    env_kwargs: tuple[str, ...] = ()
    """key=value arguments of the environment; values are Python literals, anything else is text."""

    wrapper: tuple[str, ...] = ()
    """module:function wrappers, the first one innermost."""

    protocol: Annotated[Protocol | None, arg(metavar="machado2018|mnih2015|dopamine")] = None
    """Atari settings; unset: machado2018 for ALE/...-v5, mnih2015 for ...NoFrameskip-v4."""

    frame_stack: Annotated[int | None, arg(metavar="INT")] = None
    """Images the agent sees at once, newest last; unset: what the Atari protocol says, else 1."""

    max_episode_steps: Annotated[int | None, arg(metavar="INT")] = None
    """Truncate episodes after so many steps; unset: as the environment is registered."""

    decorrelate: int = 0
    """Before training begins each environment takes 1 to so many random steps, so that episodes do
    not end together: they are no steps of the run, and the episode open then is not reported."""

    info: tuple[str, ...] = ()
    """Numbers of the environment's info kept as columns of the rows (absent: NaN)."""

    action_mask: bool = True
    """Read valid actions from `action_mask` in a Dict observation or in the info."""

    strict_bounds: bool = False
    """Stop when an observation leaves the bounds of its space, instead of warning once."""

    float64_as: Literal["float32", "float16", "float64"] = "float32"
    """How float64 observations are stored; float64 tells values that float32 would not, such as
    seconds since 1970, which networks see if they are normalized too."""

    vectorization: Literal["auto", "in-process", "native"] = "auto"
    """Step environments one by one here, or by their own vector environment; auto: the faster."""

    def __post_init__(self) -> None:
        if isinstance(self.env, str):  # tyro's MISSING and callables are left alone
            # Games of Atari have protocols and presets, which go by the id.
            object.__setattr__(self, "env", self.env.removeprefix("ale_py:"))
        if isinstance(self.env_kwargs, Mapping):
            object.__setattr__(self, "env_kwargs", _as_text(self.env_kwargs))
        for name in ("num_envs", "frame_stack", "max_episode_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name}={value} must be at least 1")
        if self.decorrelate < 0:
            raise UsageError(f"decorrelate={self.decorrelate} must not be negative; 0 takes none")
        _ = self.kwargs  # a malformed one is told of now

    @property
    def name(self) -> str:
        """The environment's id, or the name of the user's callable."""
        env: Any = self.env
        return env if isinstance(env, str) else getattr(env, "__qualname__", type(env).__name__)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The environment's arguments by name."""
        return dict(map(_parse, self.env_kwargs))


def _parse(item: str) -> tuple[str, Any]:
    key, equals, text = item.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"env_kwargs={item!r} must be key=value, such as gravity=9.81")
    if text in ("true", "false"):
        return key, text == "true"
    try:
        return key, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return key, text


def _as_text(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Arguments in the form in which a run records them."""
    items = tuple(f"{key}={value!r}" for key, value in kwargs.items())
    for item, (key, value) in zip(items, kwargs.items(), strict=True):
        if _parse(item) != (key, value):
            raise UsageError(
                f"env_kwargs: {key}={value!r} cannot be recorded in run.json, which holds "
                "literals; make it inside a factory and pass the factory as module:function"
            )
    return items
