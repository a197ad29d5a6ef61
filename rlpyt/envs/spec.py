"""What observations and actions look like inside rlpyt: shapes, storage dtypes, bounds.

Gymnasium's spaces are translated into these once (spaces.py); everything else reads only this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rlpyt.arrays import namedarraytuple


@dataclass(frozen=True, eq=False)
class Box:
    """An array of numbers, stored as `dtype`.

    As an action it is stored as float32 coordinates u: where both bounds of a dimension are finite,
    u in [-1, 1] spans [low, high]; elsewhere u is the action itself, clipped at the finite bound.
    """

    shape: tuple[int, ...]
    dtype: str
    low: np.ndarray = field(repr=False)  # [*shape] float64, -inf where there is no bound
    high: np.ndarray = field(repr=False)  # [*shape] float64, inf where there is no bound
    image: bool = False  # an observation of uint8 with 2 or 3 dimensions

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return (
            (self.shape, self.dtype, self.image) == (other.shape, other.dtype, other.image)
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.image, self.low.tobytes(), self.high.tobytes()))


@dataclass(frozen=True)
class Discrete:
    """One of n choices, stored as a 0-based int64 scalar; the environment's begin at `start`."""

    n: int
    start: int = 0


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices, stored 0-based as int64 [len(nvec)], whatever shape the space has."""

    nvec: tuple[int, ...]
    start: tuple[int, ...]


@dataclass(frozen=True)
class MultiBinary:
    """An array of bits, stored as bool [*shape]."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Composite:
    """A Dict or Tuple space, stored as namedarraytuple("Composite", names) of its parts.

    `names` are identifiers, one for each of the space's own `keys` (positions, for a Tuple).
    Without parts it is stored as ().
    """

    names: tuple[str, ...]
    keys: tuple[Any, ...]
    parts: tuple[Spec, ...]
    kind: Literal["dict", "tuple"]


Leaf = Box | Discrete | MultiDiscrete | MultiBinary
Spec = Leaf | Composite


@dataclass(frozen=True)
class EnvSpec:
    """What agents, models and samplers know of an environment.

    `frame_stack` = k > 1: image leaves are stored as single frames and read as
    [..., k, *frame_shape].
    """

    id: str
    observation: Spec
    action: Spec
    mask: Literal["observation", "info"] | None = None  # where the mask of valid actions comes from
    mask_size: int = 0
    env_info: tuple[str, ...] = ()  # info values recorded as float32 scalars, absent = NaN
    frame_stack: int = 1
    frames_per_step: int = 1  # emulator frames an action lasts


def leaves(spec: Spec, path: str = "") -> list[tuple[str, Leaf]]:
    """The leaves in storage order with their dotted paths ("" for a spec that is a leaf)."""
    return list(_walk(spec, path))


def _walk(spec: Spec, path: str) -> Iterator[tuple[str, Leaf]]:
    if not isinstance(spec, Composite):
        yield path, spec
        return
    for name, part in zip(spec.names, spec.parts, strict=True):
        yield from _walk(part, f"{path}.{name}" if path else name)


def leaf_form(spec: Leaf) -> tuple[tuple[int, ...], str]:
    """Shape and dtype in which a leaf is stored."""
    match spec:
        case Box(shape, dtype):
            return shape, dtype
        case Discrete():
            return (), "int64"
        case MultiDiscrete(nvec):
            return (len(nvec),), "int64"
        case MultiBinary(shape):
            return shape, "bool"


def example(spec: Spec) -> Any:
    """A tree of zeros in storage form, without leading dimensions."""
    if not isinstance(spec, Composite):
        return np.zeros(*leaf_form(spec))
    if not spec.parts:
        return ()
    return namedarraytuple("Composite", spec.names)(*map(example, spec.parts))


def outside(spec: Spec, tree: Any, path: str = "") -> list[str]:
    """Paths of the Box leaves with a value below `low` or above `high`.

    Args:
        tree: observations of any leading dimensions, numpy.
        path: of the tree itself.
    """
    return [name for name, leaf, array in _arrays(spec, tree, path) if _leaves_bounds(leaf, array)]


def not_finite(spec: Spec, tree: Any, path: str = "") -> list[str]:
    """Paths of the leaves that hold a NaN or an infinity.

    Args:
        tree: observations of any leading dimensions, numpy.
        path: of the tree itself.
    """
    return [
        name
        for name, _, array in _arrays(spec, tree, path)
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]


def _arrays(spec: Spec, tree: Any, path: str) -> Iterator[tuple[str, Leaf, np.ndarray]]:
    if not isinstance(spec, Composite):
        yield path, spec, tree
        return
    for name, part, array in zip(spec.names, spec.parts, tree, strict=True):
        yield from _arrays(part, array, f"{path}.{name}" if path else name)


def _leaves_bounds(leaf: Leaf, array: np.ndarray) -> bool:
    if not isinstance(leaf, Box) or leaf.dtype == "bool":
        return False
    low, high = leaf.low, leaf.high
    if array.dtype.kind == "f":
        # Stored values were rounded to float32; so must be what they are compared with.
        low, high = low.astype(array.dtype), high.astype(array.dtype)
    else:
        limits = np.iinfo(array.dtype)
        if (low <= limits.min).all() and (high >= limits.max).all():
            return False
    # A NaN is neither below nor above: it is not_finite's to report.
    return bool((array < low).any() or (array > high).any())
