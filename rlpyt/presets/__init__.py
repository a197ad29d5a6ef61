"""Complete runs by algorithm and family of environment, each number with its source.

A preset is a function from an environment to a `Run`. Neither torch nor numpy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.presets import a2c, appo, d4pg, ddpg, dqn, files, impala, ppo, r2d1, sac, td3
from rlpyt.presets.families import discrete, family
from rlpyt.run import ALGORITHMS, Run
from rlpyt.suggest import did_you_mean

Preset = Callable[[Any], Run]

# Families by what their actions are. In the first lie tasks of either kind.
_ANY = ("default", "mountain-car", "lunar-lander", "memory")
_DISCRETE = ("classic", "acrobot", "atari", "minatar")
_CONTINUOUS = ("pendulum", "mujoco", "bipedal-walker")
_Q_LEARNING = (*_ANY, *_DISCRETE)
_Q_VALUE = (*_ANY, *_CONTINUOUS)
_POLICY_GRADIENT = (*_ANY, *_DISCRETE, "pendulum", "mujoco")
_IMPALA = ("default", "classic", "atari", "minatar", "memory")
_NAMED = (  # chosen by name alone
    *("dopamine", "dopamine-c51", "dopamine-qr", "dopamine-iqn", "dopamine-rainbow"),
    *("rainbow", "atari-dqn", "ernbw", "minatar-rainbow", "minatar-iqn"),
)
_BENCHMARKS = ("spinning-up", "tianshou")
_SAC = (
    *(*_Q_VALUE, *_DISCRETE, *_BENCHMARKS, "redq", "tqc", "droq", "crossq"),
    *("discrete-mountain-car", "discrete-lunar-lander", "discrete-memory"),
)
_MODULES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ppo": (ppo, _POLICY_GRADIENT),
    "a2c": (a2c, _POLICY_GRADIENT),
    "impala": (impala, _IMPALA),
    "appo": (appo, (*_IMPALA, "mujoco")),
    "dqn": (dqn, (*_Q_LEARNING, *_NAMED)),
    "r2d1": (r2d1, _Q_LEARNING),
    "ddpg": (ddpg, (*_Q_VALUE, *_BENCHMARKS)),
    "td3": (td3, (*_Q_VALUE, *_BENCHMARKS)),
    "sac": (sac, _SAC),
    "d4pg": (d4pg, (*_Q_VALUE, "control-suite")),
}
_REFUSED = {  # families whose actions an algorithm cannot give
    **dict.fromkeys(("dqn", "r2d1"), ("discrete", "continuous", _CONTINUOUS)),
    **dict.fromkeys(("ddpg", "td3", "d4pg"), ("continuous", "discrete", _DISCRETE)),
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
        name: such as atari or ppo/atari; a file that `files.write` wrote; "none" is the options'
            own defaults.
    """
    if algo not in ALGORITHMS:
        raise UsageError(
            f"algorithm {algo!r} is unknown{did_you_mean(algo, ALGORITHMS)}; "
            f"choose one of {', '.join(ALGORITHMS)}"
        )
    if name == "none":
        from rlpyt.envs.options import EnvOptions

        return Run(env=EnvOptions(env), algo=ALGORITHMS[algo]())
    if name is not None and files.is_file(name):
        return files.read(Path(name), algo, env, choose)
    wanted = _by_family(algo, env) if name is None else name
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


def _by_family(algo: str, env: Any) -> str:
    """The preset of an environment's family; where there is none of its own, the default."""
    kind = family(env)
    needs, has, refused = _REFUSED.get(algo, ("", "", ()))
    if kind in refused:
        others = [other for other in ALGORITHMS if f"{other}/{kind}" in PRESETS]
        raise UsageError(
            f"{algo} needs a {needs} action space, and actions of {env} are {has}; choose "
            f"{' or '.join(others)}, or, where a wrapper makes them {needs}, a preset by name such "
            "as --preset default"
        )
    if discrete(env) and f"{algo}/discrete-{kind}" in PRESETS:
        return f"discrete-{kind}"
    return kind if f"{algo}/{kind}" in PRESETS else "default"
