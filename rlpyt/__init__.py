"""Deep reinforcement learning in PyTorch, on one infrastructure.

    from rlpyt import PPO
    agent = PPO("CartPole-v1", seed=1).learn(100_000)

Names are imported when they are asked for (PEP 562), so that `import rlpyt` and the command line's
help cost nothing of torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlpyt.api import A2C as A2C
    from rlpyt.api import APPO as APPO
    from rlpyt.api import D4PG as D4PG
    from rlpyt.api import DDPG as DDPG
    from rlpyt.api import DQN as DQN
    from rlpyt.api import IMPALA as IMPALA
    from rlpyt.api import PPO as PPO
    from rlpyt.api import R2D1 as R2D1
    from rlpyt.api import SAC as SAC
    from rlpyt.api import TD3 as TD3
    from rlpyt.api import load as load
    from rlpyt.arrays import NamedArrayTuple as NamedArrayTuple
    from rlpyt.arrays import namedarraytuple as namedarraytuple
    from rlpyt.cli.in_python import sweep as sweep
    from rlpyt.cli.in_python import tune as tune
    from rlpyt.errors import EnvironmentFault as EnvironmentFault
    from rlpyt.errors import UsageError as UsageError
    from rlpyt.run import Run as Run
    from rlpyt.runner import Hooks as Hooks
    from rlpyt.training import resume as resume
    from rlpyt.training import train as train

    __version__: str

_HOMES = {
    "A2C": "api",
    "APPO": "api",
    "D4PG": "api",
    "DDPG": "api",
    "DQN": "api",
    "IMPALA": "api",
    "PPO": "api",
    "R2D1": "api",
    "SAC": "api",
    "TD3": "api",
    "load": "api",
    "NamedArrayTuple": "arrays",
    "namedarraytuple": "arrays",
    "EnvironmentFault": "errors",
    "UsageError": "errors",
    "Run": "run",
    "Hooks": "runner",
    "resume": "training",
    "sweep": "cli.in_python",
    "train": "training",
    "tune": "cli.in_python",
}
__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        try:
            value: Any = metadata.version("rlpyt")
        except metadata.PackageNotFoundError:  # run from a folder of sources
            value = "0+unknown"
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"rlpyt.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
