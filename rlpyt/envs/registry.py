"""Finds environments by name: Gymnasium's registry, the suites beside it, modules of the user."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from rlpyt.errors import UsageError
from rlpyt.suggest import did_you_mean

# prefix of the ids -> the module that registers them
SUITES = {
    "ALE/": "ale_py",
    "MinAtar/": "rlpyt.envs.minatar",
    "rlpyt/": "rlpyt.envs.memory",
    "dm_control/": "shimmy",
}
# package that is missing -> what installs it
_INSTALL = {
    "ale_py": "rlpyt[atari]",
    "cv2": "rlpyt[atari]",
    "mujoco": "rlpyt[mujoco]",
    "imageio": "rlpyt[mujoco]",
    "Box2D": "rlpyt[box2d]",
    "minatar": "rlpyt[minatar]",
    "envpool": "rlpyt[envpool]",
    "shimmy": "shimmy[dm-control]",
    "dm_control": "shimmy[dm-control]",
    "pygame": "rlpyt[video]",
    "jax": "gymnasium[jax]",
}
# part of gymnasium.envs -> the package that its environments need
_NEEDS = {"box2d": "Box2D", "mujoco": "mujoco", "phys2d": "jax", "tabular": "jax"}


def registered() -> list[str]:
    """Every id, in the order of the registry, without suites that are not installed."""
    for module in SUITES.values():
        try:
            importlib.import_module(module)
        except ImportError:
            continue
    return [name for name, entry in gymnasium.registry.items() if not _is_retired(entry)]


def lacks(env_id: str) -> str:
    """What to install before a registered environment can be made; "" where nothing is missing."""
    point = gymnasium.registry[env_id].entry_point
    module = point if isinstance(point, str) else getattr(point, "__module__", "")
    family = module.removeprefix("gymnasium.envs.").partition(".")[0]
    package = _NEEDS.get(family) if module.startswith("gymnasium.envs.") else None
    if package is None or importlib.util.find_spec(package) is not None:
        return ""
    return _install(package)


def find(env_id: str) -> Registration:
    """The registration of an id, or a UsageError with the nearest ones."""
    if "<" in env_id:
        raise UsageError(
            f"env={env_id!r} is the name of a callable that was given in Python, and a run records "
            "no more of it; go on in Python with the class that trained the run, such as "
            "PPO.load(folder, env=callable), or begin with module:function"
        )
    for prefix, module in SUITES.items():
        if env_id.startswith(prefix) or (module == "ale_py" and "NoFrameskip-" in env_id):
            import_for(env_id, module)
    entry = gymnasium.registry.get(env_id)
    if entry is None or _is_retired(entry):
        raise UsageError(
            f"env={env_id!r} is not registered{did_you_mean(env_id, registered()) or '.'} "
            "`rlpyt envs` lists what is; an environment of your own is module:Id or "
            "module:function"
        )
    return entry


def import_for(env_id: str, module: str) -> Any:
    """Import a module that an environment needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(env_id, error) from error


def missing(env_id: str, error: Exception) -> UsageError:
    """What to install, where an environment failed because something is not."""
    cause: BaseException | None = error
    while cause is not None:
        package = (getattr(cause, "name", None) or "").partition(".")[0]
        if package in _INSTALL:
            return UsageError(f"{env_id} {_install(package)}")
        cause = cause.__cause__ or cause.__context__
    return UsageError(f"{env_id} cannot be made: {error}")


def find_callable(reference: str, option: str) -> Callable[..., Any]:
    """What `module:name` refers to; modules in the working directory are found too."""
    module_name, _, name = reference.partition(":")
    module = import_user_module(module_name, f"{option}={reference!r}")
    target = getattr(module, name, None)
    if callable(target):
        return target
    names = [n for n, x in vars(module).items() if callable(x) and not n.startswith("_")]
    raise UsageError(
        f"{option}={reference!r}: the module {module_name} has no function or class "
        f"{name!r}{did_you_mean(name, names)}"
    )


def import_user_module(module_name: str, where: str) -> Any:
    """Import a module of the user; an error inside it is left as it is."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(
            f"{where}: there is no module {error.name!r}; give the name by which Python imports "
            "it (from the working directory or installed), such as my_package.my_envs:make"
        ) from None


def _install(package: str) -> str:
    return f"needs {package}, which is not installed: pip install '{_INSTALL[package]}'"


def _is_retired(entry: Registration) -> bool:
    """Whether an id is no more than the older name of another.

    Gymnasium keeps some only to say where their environment went; ale-py registers its games
    several times, with settings that no protocol has.
    """
    if str(entry.entry_point).startswith("ale_py."):
        return not (entry.id.startswith("ALE/") or "NoFrameskip-" in entry.id)
    return getattr(entry.entry_point, "__name__", "").startswith("_raise_")
