"""Makes an environment from its options, and describes it."""

from __future__ import annotations

import copy
import importlib
import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as Registration
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import TimeLimit

from rlpyt.envs.exits import no_exit
from rlpyt.envs.masks import MASK, find_mask
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.registry import find, find_callable, import_for, import_user_module, missing
from rlpyt.envs.running_statistics import refuse_running_statistics
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import Box, EnvSpec, Spec, leaves
from rlpyt.errors import UsageError
from rlpyt.suggest import did_you_mean

Role = Literal["train", "evaluation"]
ATARI_FRAME_STACK = 4  # Mnih et al. (2015), and every protocol since


def make(
    options: EnvOptions, rank: int = 0, *, role: Role = "train", render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """One environment.

    Args:
        options: `env` may also be a callable that returns an environment.
        rank: number of this environment; no two of a job have the same. A factory whose signature
            has `rank` is given it (so too `role` and `render_mode`).
        role: in evaluation a game of Atari is played to its end, whatever the protocol.
        render_mode: passed on to whatever takes one.
    """
    offered = {"rank": rank, "role": role, "render_mode": render_mode}
    with no_exit(f"env={options.name}, while environment {rank} was made,"):
        env, limited = _create(options, offered)
        _require_env(env, options)
        for reference in options.wrapper:
            env = find_callable(reference, "wrapper")(env)
            if not isinstance(env, gymnasium.Env):
                raise UsageError(
                    f"wrapper={reference!r} returned {_type(env)}; return the wrapped gymnasium.Env"
                )
    if options.max_episode_steps is not None and not limited:
        env = TimeLimit(env, options.max_episode_steps)
    return env


def probe(options: EnvOptions) -> EnvSpec:
    """Describe an environment made for this alone and closed again."""
    env = make(options)
    with no_exit(f"env={options.name}, while its spaces were looked at,"):
        try:
            return describe(env, options)
        finally:
            env.close()


def describe(env: gymnasium.Env[Any, Any], options: EnvOptions) -> EnvSpec:
    """What agents and models need to know of an environment.

    Resets it where only an info can tell whether there is a mask of valid actions.
    """
    refuse_running_statistics(env, options.name)
    action = to_spec(env.action_space, "action")
    if not leaves(action):
        raise UsageError(f"the action space {env.action_space} of {options.name} is empty")
    atari = is_atari(options)
    mask, mask_size = (None, 0) if atari else find_mask(env, options, action)
    observation = observed(env, options, mask)
    if not leaves(observation):
        raise UsageError(
            f"the observation space {env.observation_space} of {options.name} has nothing to "
            "observe; give it a constant, such as Box(0, 1, (1,))"
        )
    protocol = env.get_wrapper_attr("protocol") if atari else None
    # Where a lost life ends an episode, returns are counted by whole games.
    whole = ("game_over",) if protocol and protocol.life_loss else ()
    return EnvSpec(
        id=options.name,
        observation=observation,
        action=action,
        mask=mask,
        mask_size=mask_size,
        env_info=tuple(dict.fromkeys((*options.info, *whole))),
        frame_stack=_frame_stack(observation, options, ATARI_FRAME_STACK if atari else 1),
        frames_per_step=protocol.frame_skip if protocol else 1,
    )


def observed(env: gymnasium.Env[Any, Any], options: EnvOptions, mask: str | None) -> Spec:
    """What is observed, without a mask of valid actions."""
    space = env.observation_space
    if mask == "observation" and isinstance(space, spaces.Dict):
        space = spaces.Dict([(key, part) for key, part in space.spaces.items() if key != MASK])
    return to_spec(space, "observation", float64_as=options.float64_as)


def is_atari(options: EnvOptions) -> bool:
    """Whether the environment is a game of ale-py, played under a protocol."""
    env = options.env
    return isinstance(env, str) and (env.startswith("ALE/") or "NoFrameskip-" in env)


def require_next_step(envs: VectorEnv[Any, Any, Any], name: str) -> None:
    """Refuse a vector environment that does not reset in the step after an episode's end."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        says = "does not declare its autoreset mode"
    elif AutoresetMode(mode) is AutoresetMode.NEXT_STEP:
        return
    else:
        says = f"resets in mode {AutoresetMode(mode).value}"
    raise UsageError(
        f"{name}: the vector environment {_type(envs)} {says}, and rows need an episode's final "
        "observation and the reset on steps of their own; make it with "
        'autoreset_mode=AutoresetMode.NEXT_STEP (metadata["autoreset_mode"] must say so), or give '
        "a factory of single environments"
    )


def _create(options: EnvOptions, offered: dict[str, Any]) -> tuple[Any, bool]:
    """The environment without the user's wrappers, and whether its time limit is on it."""
    env: Any = options.env
    if not isinstance(env, str):
        return _call(env, options, offered), False
    if options.protocol is not None and not is_atari(options):
        raise UsageError(
            f"protocol={options.protocol} is for Atari, and {env} is not; leave out --protocol, "
            "or the --preset that it comes with"
        )
    module, colon, name = env.partition(":")
    if colon:
        import_user_module(module, f"env={env!r}")
        if name not in gymnasium.registry:
            return _call(find_callable(env, "env"), options, offered), False
        return _registered(gymnasium.registry[name], options, offered), True
    if is_atari(options):
        return _atari(env, options, offered), True  # max_frames counts whole games
    return _registered(find(env), options, offered), True


def _atari(env_id: str, options: EnvOptions, offered: dict[str, Any]) -> Any:
    find(env_id)
    atari = import_for(env_id, "rlpyt.envs.atari")
    protocol = atari.protocol_for(env_id, options.protocol)
    if offered["role"] == "evaluation":
        protocol = protocol.whole_games()
    if options.max_episode_steps is not None:  # of a whole game, not of a life
        frames = options.max_episode_steps * protocol.frame_skip
        protocol = replace(protocol, max_frames=frames)
    return atari.make_atari(env_id, protocol, render_mode=offered["render_mode"], **options.kwargs)


def _registered(entry: Registration, options: EnvOptions, offered: dict[str, Any]) -> Any:
    # The order of calls is ours to keep, and `rlpyt check-env` checks more than the passive
    # checker: together they cost as much as a step of CartPole.
    entry = copy.copy(entry)
    entry.order_enforce = False
    point = entry.entry_point
    try:
        creator = load_env_creator(point) if isinstance(point, str) else point
        kwargs = _arguments(creator, options, offered, entry.kwargs)
        if ".mujoco." in str(point):
            _hear_mujoco()
        return gymnasium.make(
            entry,
            max_episode_steps=options.max_episode_steps,
            disable_env_checker=True,
            **kwargs,
        )
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise missing(entry.id, error) from error


def _hear_mujoco() -> None:
    """Have MuJoCo's warnings told as Python's, once each, instead of written to a file here.

    MuJoCo 3.17 deprecates an attribute that Gymnasium's models have, which is no user's business.
    """
    mujoco: Any = importlib.import_module("mujoco")

    def tell(text: str) -> None:
        if "settotalmass" not in text:
            warnings.warn(f"MuJoCo: {text.strip()}", stacklevel=2)

    mujoco.set_mju_user_warning(tell)


def _call(factory: Callable[..., Any], options: EnvOptions, offered: dict[str, Any]) -> Any:
    return factory(**_arguments(factory, options, offered, {}))


def _arguments(
    creator: Any, options: EnvOptions, offered: dict[str, Any], own: dict[str, Any]
) -> dict[str, Any]:
    """The user's arguments, and of those offered the ones that the signature names.

    Args:
        own: arguments that the creator is given in any case.
    """
    kwargs = options.kwargs
    try:
        signature = inspect.signature(creator)
    except (TypeError, ValueError):  # written in C: nothing is known of it
        return kwargs
    parameters = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in kwargs if not takes_any else ():
        if name not in parameters:
            raise UsageError(
                f"env_kwargs: {options.name} takes no argument "
                f"{name!r}{did_you_mean(name, parameters)}; it takes {', '.join(parameters)}"
            )
    given = {
        name: value for name, value in offered.items() if name in parameters and value is not None
    }
    try:
        signature.bind(**own | given | kwargs)
    except TypeError as error:
        raise UsageError(
            f"env={options.name}: {error}; give it with --env-kwargs name=value"
        ) from None
    return given | kwargs


def _require_env(env: Any, options: EnvOptions) -> None:
    name = options.name
    if isinstance(env, VectorEnv):
        require_next_step(env, name)
        raise UsageError(
            f"env={name} returned a vector environment ({_type(env)}, {env.num_envs} environments) "
            "where a single one is needed; return one, --num-envs makes as many as you want"
        )
    if isinstance(env, gymnasium.Env):
        return
    if any(base.__module__.partition(".")[0] == "gym" for base in type(env).__mro__):
        raise UsageError(
            f"env={name} is an environment ({_type(env)}) of the legacy package gym, not of "
            "gymnasium; import it through shimmy: pip install 'shimmy[gym-v26]', then a factory "
            "that returns gymnasium.make('GymV26Environment-v0', env=...)"
        )
    raise UsageError(f"env={name} returned {_type(env)}; return a gymnasium.Env")


def _frame_stack(observation: Spec, options: EnvOptions, default: int) -> int:
    images = any(isinstance(leaf, Box) and leaf.image for _, leaf in leaves(observation))
    stack = options.frame_stack or default
    if stack > 1 and not images:
        if options.frame_stack is None:
            return 1
        raise UsageError(
            f"frame_stack={stack} stacks images (uint8 of 2 or 3 dimensions), and "
            f"{options.name} observes none; use --memory lstm, or "
            "gymnasium.wrappers.FrameStackObservation in a wrapper of your own"
        )
    return stack


def _type(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"
