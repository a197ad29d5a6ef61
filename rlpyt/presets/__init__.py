"""Complete runs by algorithm and family of environment, each number with its source.

A preset is a function from an environment to a `Run`. Neither torch nor numpy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.presets import a2c, dqn, ppo, r2d1
from rlpyt.presets.families import family
from rlpyt.run import ALGORITHMS, Run
from rlpyt.suggest import did_you_mean

Preset = Callable[[Any], Run]

_DISCRETE = ("default", "classic", "acrobot", "mountain-car", "lunar-lander")
_CONTINUOUS = ("pendulum", "mujoco")  # families whose actions are continuous
_FAMILIES = (*_DISCRETE, *_CONTINUOUS, "atari", "minatar", "memory")
_NAMED = (  # chosen by name alone
    *("dopamine", "dopamine-c51", "dopamine-qr", "dopamine-iqn", "dopamine-rainbow"),
    *("rainbow", "atari-dqn", "ernbw", "minatar-rainbow", "minatar-iqn"),
)
_MODULES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ppo": (ppo, _FAMILIES),
    "a2c": (a2c, _FAMILIES),
    "dqn": (dqn, (*_DISCRETE, "atari", "minatar", "memory", *_NAMED)),
    "r2d1": (r2d1, (*_DISCRETE, "atari", "minatar", "memory")),
}
PRESETS: dict[str, Preset] = {
    f"{algo}/{name}": getattr(module, name.replace("-", "_"))
    for algo, (module, found) in _MODULES.items()
    for name in found
}


def names(algo: str | None = None) -> list[str]:
    """Names of the presets, such as ppo/atari; of one algorithm, or all."""
    return [name for name in PRESETS if algo is None or name.startswith(f"{algo}/")]


def choose(algo: str, env: Any, name: str | None = None) -> Run:
    """The run of a preset.

    Args:
        algo: one of `run.ALGORITHMS`.
        env: an id or a factory; its family decides where `name` does not.
        name: such as atari or ppo/atari; "none" is the options' own defaults.
    """
    if algo not in ALGORITHMS:
        raise UsageError(
            f"algorithm {algo!r} is unknown{did_you_mean(algo, ALGORITHMS)}; "
            f"choose one of {', '.join(ALGORITHMS)}"
        )
    if name == "none":
        from rlpyt.envs.options import EnvOptions

        return Run(env=EnvOptions(env), algo=ALGORITHMS[algo]())
    if name is None and f"{algo}/{family(env)}" not in PRESETS:
        raise _needs_discrete_actions(algo, env)
    wanted = f"{algo}/{family(env)}" if name is None else name
    full = wanted if "/" in wanted else f"{algo}/{wanted}"
    if full in PRESETS and not full.startswith(f"{algo}/"):
        raise UsageError(
            f"preset={name} is of {full.partition('/')[0]}; for {algo} choose one of "
            f"{', '.join(names(algo))}"
        )
    if full not in PRESETS:
        known = names(algo)
        short = [x.partition("/")[2] for x in known]
        nearest = did_you_mean(full.partition("/")[2], short)
        raise UsageError(
            f"preset={name} is unknown{nearest}; for {algo} there are {', '.join(short)}, and none"
        )
    return PRESETS[full](env)


def _needs_discrete_actions(algo: str, env: Any) -> UsageError:
    kind = family(env)
    others = [other for other in ALGORITHMS if f"{other}/{kind}" in PRESETS]
    return UsageError(
        f"{algo} needs a discrete action space, and actions of {env} are continuous; choose "
        f"{' or '.join(others)}, or, where a wrapper makes them discrete, a preset by name such as "
        "--preset default"
    )
