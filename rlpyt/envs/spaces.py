"""Translates Gymnasium's spaces: their form, observations into storage, actions out of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from operator import gt, index, lt
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from rlpyt.arrays import NamedArrayTuple, is_field_name
from rlpyt.envs.spec import (
    Box,
    Composite,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Spec,
    leaves,
)
from rlpyt.errors import EnvironmentFault, UsageError

Writer = Callable[[Any, int, Any], None]  # (storage [B, ...] tree, column, value)
Reader = Callable[[Any], list[Any]]  # action [B, ...] tree -> B actions of the environment

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


# Observations -------------------------------------------------------------------------------------


def observation_writer(space: spaces.Space, spec: Spec, path: str = "observation") -> Writer:
    """A function `write(storage, b, value)` that copies an observation into storage[b].

    Values are cast, never reinterpreted; one that does not fit raises EnvironmentFault with the
    leaf's path. Keys of a Dict observation that the specification does not have are left out.
    """
    match space, spec:
        case spaces.Box(), Box():
            return _box_writer(space, spec, path)
        case spaces.Discrete(), Discrete(n, start):
            return _discrete_writer(n, start, path)
        case spaces.MultiDiscrete(), MultiDiscrete():
            return _multi_discrete_writer(space, spec, path)
        case spaces.MultiBinary(), MultiBinary():
            return _box_writer(space, spec, path)
        case ((spaces.Dict() | spaces.Tuple()), Composite()):
            return _composite_writer(space, spec, path)
    raise UsageError(f"{path}: the space {space} does not have the form {spec}")


def _box_writer(
    space: spaces.Box | spaces.MultiBinary, leaf: Box | MultiBinary, path: str
) -> Writer:
    shape, declared = leaf.shape, space.dtype
    if isinstance(leaf, MultiBinary):
        declared = np.dtype(bool)  # int8 may hold something else than 0 and 1: always looked at

    def write(storage: np.ndarray, b: int, value: Any) -> None:
        # numpy's own dtypes are singletons: `is` spares most of what a comparison costs
        if type(value) is np.ndarray and value.dtype is declared and value.shape == shape:
            storage[b] = value
        else:
            storage[b] = fitting(value, shape, storage.dtype, path)

    return write


def fitting(value: Any, shape: tuple[int, ...], dtype: np.dtype, path: str) -> np.ndarray:
    """The value as an array of this shape that `dtype` can hold, or an EnvironmentFault."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise EnvironmentFault(f"{path}: expected an array of shape {shape}; {error}") from None
    if array.dtype.kind not in "biuf":
        raise EnvironmentFault(
            f"{path}: expected numbers of shape {shape}, got {_short(value)}; return an array "
            "with the shape and dtype of the space"
        )
    if array.shape != shape:
        raise EnvironmentFault(
            f"{path}: expected shape {shape}, got {array.shape}; return what the space declares, "
            "or declare what is returned"
        )
    if dtype.kind != "f" and not np.can_cast(array.dtype, dtype):
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        wrong = ~((array >= low) & (array <= high))
        if array.dtype.kind == "f":
            wrong |= array != np.trunc(array)
        if wrong.any():
            raise EnvironmentFault(
                f"{path}: the space declares integers from {low} to {high} ({dtype}), got "
                f"{array[wrong].flat[0]} ({array.dtype}); declare a float Box, or convert in the "
                "environment"
            )
    return array


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _discrete_writer(n: int, start: int, path: str) -> Writer:
    integer = np.dtype(np.int64)

    def write(storage: np.ndarray, b: int, value: Any) -> None:
        try:
            choice = index(value) - start
        except TypeError:
            choice = int(fitting(value, (), integer, path)) - start
        if not 0 <= choice < n:
            raise EnvironmentFault(
                f"{path}: expected an integer from {start} to {start + n - 1}, got {value}; "
                "declare a Discrete space that contains it"
            )
        storage[b] = choice

    return write


def _multi_discrete_writer(space: spaces.MultiDiscrete, spec: MultiDiscrete, path: str) -> Writer:
    shape = space.nvec.shape
    integer = np.dtype(np.int64)
    start, nvec = np.array(spec.start, integer), np.array(spec.nvec, integer)  # [len(nvec)]

    def write(storage: np.ndarray, b: int, value: Any) -> None:
        array = fitting(value, shape, integer, path)
        choices = array.astype(integer).ravel() - start
        # negative numbers are huge as unsigned ones: one comparison for both ends
        if (choices.view(np.uint64) >= nvec.view(np.uint64)).any():
            raise EnvironmentFault(
                f"{path}: expected integers from {space.start.tolist()} to "
                f"{(start + nvec - 1).reshape(shape).tolist()}, got {array.tolist()}; declare a "
                "MultiDiscrete space that contains them"
            )
        storage[b] = choices

    return write


def _composite_writer(space: spaces.Dict | spaces.Tuple, spec: Composite, path: str) -> Writer:
    parts = [
        (name, key, observation_writer(space[key], part, f"{path}.{name}"))
        for name, key, part in zip(spec.names, spec.keys, spec.parts, strict=True)
        if leaves(part)
    ]
    form = Mapping if spec.kind == "dict" else (tuple, list)
    length = None if spec.kind == "dict" else len(spec.keys)

    def write(storage: Any, b: int, value: Any) -> None:
        if not isinstance(value, form) or length not in (None, len(value)):
            raise EnvironmentFault(
                f"{path}: expected a {spec.kind} of {len(spec.keys)} ({', '.join(spec.names)}), "
                f"got {_short(value)}; return what the space declares"
            )
        for name, key, write_part in parts:
            try:
                part = value[key]
            except KeyError:
                raise EnvironmentFault(
                    f"{path}: the key {key!r} of the space is missing, got {list(value)}; return "
                    "every key of the space in every observation"
                ) from None
            write_part(getattr(storage, name), b, part)

    return write


# Actions ------------------------------------------------------------------------------------------


def action_reader(space: spaces.Space, spec: Spec) -> Reader:
    """A function that turns stored actions [B, ...] into B actions of the environment.

    They are contained in the space, have its dtypes, and share no memory with what is stored.
    """
    read = _reader(space, spec)
    return lambda action: list(read(action))


def _reader(space: spaces.Space, spec: Spec) -> Callable[[Any], Iterable[Any]]:
    match space, spec:
        case spaces.Box(), Box():
            return _box_reader(space, spec)
        case spaces.Discrete(), Discrete():
            return _discrete_reader(space)
        case spaces.MultiDiscrete(), MultiDiscrete():
            return _integer_reader(space.start.ravel(), space.dtype, space.nvec.shape)
        case spaces.MultiBinary(), MultiBinary(shape):
            return _integer_reader(0, space.dtype, shape)
        case ((spaces.Dict() | spaces.Tuple()), Composite()):
            return _composite_reader(space, spec)
    raise UsageError(f"action: the space {space} does not have the form {spec}")


def _discrete_reader(space: spaces.Discrete[Any]) -> Reader:
    start, dtype = int(space.start), space.dtype

    def read(action: np.ndarray) -> list[np.integer]:
        # NumPy scalars: Discrete.contains takes them faster than int
        return list((action + start).astype(dtype, copy=False))

    return list if start == 0 and dtype == np.int64 else read


def _integer_reader(start: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Reader:
    def read(action: np.ndarray) -> list[Any]:
        # (int64 before adding: a bool or a narrow dtype could not hold the sum)
        moved = np.add(action, start, dtype=np.int64).astype(dtype)
        return _split(moved.reshape(len(moved), *shape))

    return read


def _split(array: np.ndarray) -> list[np.ndarray]:
    """The B entries of a fresh array; those of [B] as arrays, which list() makes scalars of."""
    return list(array) if array.ndim > 1 else [array[b, ...] for b in range(len(array))]


def _box_reader(space: spaces.Box, spec: Box) -> Reader:
    low, high = spec.low, spec.high  # [*shape] float64
    dtype = space.dtype
    finite = np.isfinite(low) & np.isfinite(high)
    if dtype.kind == "f" and finite.all() and np.array_equal(low, -high):
        scale = high.astype(dtype)

        def read_symmetric(action: np.ndarray) -> list[np.ndarray]:
            return _split((np.minimum(np.maximum(action, -1), 1) * scale).astype(dtype, copy=False))

        return read_symmetric

    bottom, top = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
    half = top / 2 - bottom / 2
    least, most = _representable(space)

    def read(action: np.ndarray) -> list[np.ndarray]:
        u = np.minimum(np.maximum(action, -1), 1)
        spanned = np.where(u >= 0, top - (1 - u) * half, bottom + (1 + u) * half)
        moved = np.minimum(np.maximum(np.where(finite, spanned, action), least), most)
        return _split((np.rint(moved) if dtype.kind != "f" else moved).astype(dtype))

    return read


def _representable(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """The space's bounds as float64, moved inwards where rounding or infinity would leave it."""
    least, most = space.low.astype(np.float64), space.high.astype(np.float64)
    if space.dtype.kind == "f":
        largest = np.finfo(space.low.dtype.name).max
        return np.clip(least, -largest, largest), np.clip(most, -largest, largest)

    def inward(
        rounded: float, bound: Any, toward: float, past: Callable[[int, int], bool]
    ) -> float:
        return np.nextafter(rounded, toward) if past(int(rounded), int(bound)) else rounded

    inwards = np.vectorize(inward, otypes=[np.float64])
    return inwards(least, space.low, np.inf, lt), inwards(most, space.high, -np.inf, gt)


def _composite_reader(
    space: spaces.Dict | spaces.Tuple, spec: Composite
) -> Callable[[Any], Iterable[Any]]:
    named, keys = spec.kind == "dict", spec.keys
    if not keys:
        return lambda _: iter(dict, None) if named else repeat(())
    readers = [_reader(space[key], part) for key, part in zip(keys, spec.parts, strict=True)]

    def read(action: NamedArrayTuple) -> Iterable[Any]:
        # not strict: a part without leaves repeats for ever
        columns = zip(*(read(x) for read, x in zip(readers, action, strict=True)), strict=False)
        return (dict(zip(keys, parts, strict=True)) for parts in columns) if named else columns

    return read
