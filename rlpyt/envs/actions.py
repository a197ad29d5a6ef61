"""Reads stored actions as the environment's own: in its space, its dtypes, its coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from operator import gt, lt
from typing import Any

import numpy as np
from gymnasium import spaces

from rlpyt.arrays import NamedArrayTuple
from rlpyt.envs.spec import Box, Composite, Discrete, MultiBinary, MultiDiscrete, Spec
from rlpyt.errors import UsageError

Reader = Callable[[Any], list[Any]]  # action [B, ...] tree -> B actions of the environment


def action_reader(space: spaces.Space, spec: Spec) -> Reader:
    """A function that turns stored actions [B, ...] into B actions of the environment.

    They are contained in the space, have its dtypes, and share no memory with what is stored.
    """
    read = _reader(space, spec)
    return (lambda action: list(read(action))) if isinstance(spec, Composite) else read


def _reader(space: spaces.Space, spec: Spec) -> Any:  # a Reader, or for a Composite of iterables
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
