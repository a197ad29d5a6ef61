"""Translates Gymnasium's spaces into our own specification (spec.py)."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from rlpyt.arrays import is_field_name
from rlpyt.envs.spec import Box, Composite, Discrete, MultiBinary, MultiDiscrete, Spec
from rlpyt.errors import UsageError

# torch computes with neither the wide unsigned integers nor numpy's extended floats
_STORED_AS = {"uint16": "int32", "uint32": "int64", "uint64": "float32", "longdouble": "float32"}


def to_spec(
    space: spaces.Space,
    where: Literal["observation", "action"],
    *,
    float64_as: str = "float32",
) -> Spec:
    """The specification of a space.

    Args:
        space: any nesting of Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple.
        where: what the space describes; an action's Box is stored as float32 coordinates.
        float64_as: how float64 observations are stored.
    """
    return _to_spec(space, where, where == "action", float64_as)


def _to_spec(space: spaces.Space, path: str, action: bool, float64_as: str) -> Spec:
    match space:
        case spaces.Box():
            return _box(space, action, float64_as)
        case spaces.Discrete():
            return Discrete(int(space.n), int(space.start))
        case spaces.MultiDiscrete():
            return MultiDiscrete(
                tuple(map(int, space.nvec.ravel())), tuple(map(int, space.start.ravel()))
            )
        case spaces.MultiBinary():
            return MultiBinary(tuple(map(int, space.shape)))
        case spaces.Dict():
            keys, parts, kind = tuple(space.spaces), tuple(space.spaces.values()), "dict"
            names = _identifiers(keys)
        case spaces.Tuple():
            keys, parts, kind = tuple(range(len(space.spaces))), space.spaces, "tuple"
            names = tuple(f"item{i}" for i in keys)
        case _:
            raise UsageError(_refusal(space, path))
    translated = tuple(
        _to_spec(part, f"{path}.{name}", action, float64_as)
        for name, part in zip(names, parts, strict=True)
    )
    return Composite(names, keys, translated, kind)


def _box(space: spaces.Box, action: bool, float64_as: str) -> Box:
    shape = tuple(map(int, space.shape))
    # Some environments write "no bound" as the largest float instead of infinity.
    largest = np.finfo(np.float16 if space.dtype == np.float16 else np.float32).max
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    if space.dtype.kind == "f":
        low[low <= -largest], high[high >= largest] = -np.inf, np.inf
    low[~space.bounded_below], high[~space.bounded_above] = -np.inf, np.inf
    if action:
        return Box(shape, "float32", low, high)
    name = float64_as if space.dtype == np.float64 else space.dtype.name
    image = space.dtype == np.uint8 and len(shape) in (2, 3)
    return Box(shape, _STORED_AS.get(name, name), low, high, image)


def _identifiers(keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Unique field names for the keys of a Dict space: themselves where that is possible."""
    names: list[str] = []
    for key in keys:
        name = re.sub(r"\W", "_", str(key), flags=re.ASCII).strip("_")
        if not name or name[0].isdigit():
            name = f"key_{name}"
        if not is_field_name(name):  # a keyword, or a method of namedarraytuple
            name += "_"
        same = 2
        unique = name
        while unique in names or (unique != key and unique in keys):
            unique, same = f"{name}_{same}", same + 1
        names.append(unique)
    return tuple(names)


_REMEDIES = {
    "Text": "encode the text as a Box or MultiDiscrete of fixed shape in a wrapper",
    "Graph": "pad nodes and edges to a Dict of Boxes of fixed shape in a wrapper",
    "Sequence": "pad it to a Box of fixed shape, with its length beside it, in a wrapper",
    "OneOf": "make it a Dict of its choices and a Discrete that selects one, in a wrapper",
}


def _refusal(space: Any, path: str) -> str:
    kind = type(space)
    if kind.__module__.partition(".")[0] == "gym":
        return (
            f"the {path} space {space} comes from the legacy package gym, not from gymnasium; "
            "import the environment through shimmy (pip install 'shimmy[gym-v26]', then "
            "gymnasium.make('GymV26Environment-v0', env_id=...)), or replace `import gym` by "
            "`import gymnasium as gym` in it"
        )
    remedy = _REMEDIES.get(kind.__name__, "translate it to one of these in a wrapper")
    return (
        f"the {path} space {space} ({kind.__module__}.{kind.__name__}) has no fixed array form; "
        "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple are supported: "
        f"{remedy} and pass it with --wrapper module:function"
    )
