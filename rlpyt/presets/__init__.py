"""Complete runs by algorithm and family of environment, each number with its source.

A preset is a function from an environment to a `Run`. Neither torch nor numpy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.presets import a2c, ppo
from rlpyt.presets.families import family
from rlpyt.run import ALGORITHMS, Run
from rlpyt.suggest import did_you_mean

Preset = Callable[[Any], Run]

_FAMILIES = (
    *("default", "classic", "acrobot", "mountain-car", "lunar-lander", "pendulum"),
    *("atari", "mujoco", "minatar", "memory"),
)
PRESETS: dict[str, Preset] = {
    f"{algo}/{name}": getattr(module, name.replace("-", "_"))
    for algo, module in (("ppo", ppo), ("a2c", a2c))
    for name in _FAMILIES
}


def names(algo: str | None = None) -> list[str]:
    """Names of the presets, such as ppo/atari; of one algorithm, or all."""
    return [name for name in PRESETS if algo is None or name.startswith(f"{algo}/")]


def choose(algo: str, env: Any, name: str | None = None) -> Run:
    """The run of a preset.

    Args:
        algo: ppo or a2c.
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
