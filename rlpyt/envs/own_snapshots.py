"""Whether an environment saves and restores itself: by `snapshot()` and `restore(state)`."""

from __future__ import annotations

import inspect
from typing import Any


def has_snapshots(env: Any) -> bool:
    """Whether the class of an environment, wrappers aside, has both, to be called like this.

    Methods of these names may be for something else, and a proxy has an attribute of every name.
    """
    return _takes(env, "snapshot") and _takes(env, "restore", "state")


def _takes(env: Any, name: str, *given: str) -> bool:
    method: Any = getattr(type(env), name, None)
    try:
        inspect.signature(method).bind(env, *given)
    except TypeError:
        return False
    except ValueError:  # written in C: nothing is known of it
        pass
    return True
