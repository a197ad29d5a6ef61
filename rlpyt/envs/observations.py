"""Writes observations of any Gymnasium space into storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces

from rlpyt.envs.spec import Box, Composite, Discrete, MultiBinary, MultiDiscrete, Spec, leaves
from rlpyt.errors import EnvironmentFault, UsageError

Writer = Callable[[Any, int, Any], None]  # (storage [B, ...] tree, column, value)


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
            f"{path}: expected numbers of shape {shape}, got {short(value)}; return an array "
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


def short(value: Any) -> str:
    """A value as text, in at most 60 characters, and its type."""
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
                f"got {short(value)}; return what the space declares"
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
