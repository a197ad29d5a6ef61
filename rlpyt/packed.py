"""Rows in memory with their small fields side by side.

Reading a random row of a large replay costs as many cache misses as its fields lie in places: a
dozen for a vector observation, its flags and its action, each in an array of its own. Side by side
they are one, and one copy. Large fields, such as images, stay arrays of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.storage import zeros

if TYPE_CHECKING:
    from rlpyt.storage import Memory

T = TypeVar("T")
SMALL = 256  # bytes of a field; a larger one gains nothing and would be copied twice


class Place(NamedTuple):
    """Where a field lies: in one of the arrays, from a byte of an entry on."""

    array: int
    begin: int
    dtype: np.dtype
    shape: tuple[int, ...]


class PackedRows(Generic[T]):
    """Zeros [S, B, ...] of the fields of an example.

    Args:
        example: tree of arrays without leading dimensions.
        leading: S and B.
        shared: memory that other processes see too; None: of this process alone.
    """

    def __init__(
        self, example: T, leading: tuple[int, int], *, shared: Memory | None = None
    ) -> None:
        fields = {str(i): np.asarray(x) for i, x in enumerate(tree_leaves(example))}
        small = [name for name, x in fields.items() if 0 < x.nbytes <= SMALL]
        small.sort(key=lambda name: -fields[name].itemsize)  # aligned without gaps
        record = np.dtype([(x, fields[x].dtype, fields[x].shape) for x in small], align=True)
        large = {name: x for name, x in fields.items() if name not in small}
        self._records: np.ndarray = zeros(np.zeros((), record), leading, shared=shared)
        self._large: dict[str, np.ndarray] = zeros(large, leading, shared=shared)
        self.arrays: list[np.ndarray] = [self._records, *self._large.values()]  # hold all fields
        names, again = iter(fields), iter(fields)
        self.tree: T = tree_map(lambda _: self._field(next(names)), example)  # views
        self.places: T = tree_map(lambda _: self._place(next(again)), example)  # a Place each

    def _field(self, name: str) -> np.ndarray:
        return self._large[name] if name in self._large else self._records[name]

    def _place(self, name: str) -> Place:
        field, large = self._field(name), [*self._large]
        if name in large:
            return Place(1 + large.index(name), 0, field.dtype, field.shape[2:])
        offsets: Any = self._records.dtype.fields
        return Place(0, offsets[name][1], field.dtype, field.shape[2:])

    def copies_into(self, other: PackedRows[T]) -> list[tuple[np.ndarray, np.ndarray]]:
        """What is read of these rows, [S * B, ...], and where in others of the same fields it goes.

        Entries that are chosen of each of the first are copied to the second, [n, N, ...].
        """
        return [(_flat(x), y) for x, y in zip(self.arrays, other.arrays, strict=True)]


def _flat(storage: np.ndarray) -> np.ndarray:
    """[S * B, ...], a view."""
    return storage.reshape(storage.shape[0] * storage.shape[1], *storage.shape[2:])
