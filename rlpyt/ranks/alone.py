"""What ranks exchange, as a process does that trains alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


class Ranks:
    """One process, which trains alone."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes, evaluates and shows."""
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """Put the sum over ranks in a tensor's place; it is the same in all of them, to the bit."""
        return tensor

    def begin_sum_(self, tensor: Tensor) -> Callable[[], object]:
        """The same, done meanwhile; returns what waits for it. All ranks begin in one order."""
        return lambda: None

    def totals(self, *numbers: float) -> list[float]:
        """Each number's sum over ranks, in float64."""
        return list(numbers)

    def greatest(self, *numbers: float) -> list[float]:
        """The greatest of what each number is on the ranks."""
        return list(numbers)

    def gather(self, thing: T) -> list[T]:
        """What each rank gives, by rank: of few bytes."""
        return [thing]

    def gather_at_first(self, thing: T) -> list[T]:
        """The same at the first rank; nothing at the others."""
        return [thing]

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes, however long it takes. What it raises is raised in all."""
        return make()

    def moments(self, count: int, mean: Any, squares: Any) -> tuple[int, Any, Any]:
        """Merge the ranks' statistics (Chan et al., 1979).

        Args:
            count: of values; where it is 0 the others mean nothing.
            mean, squares: their mean, and the sum of their squared differences from it: float64
                tensors of one shape.
        """
        return count, mean, squares

    def failed(self, error: BaseException) -> None:
        """Tell the others why this rank ends."""


def merge_moments(
    count: int, mean: Any, squares: Any, n: int, of_mean: Any, of_squares: Any
) -> tuple[int, Any, Any]:
    """Two sets' statistics as those of their union (Chan et al., 1979, eq. 2.1): see `moments`."""
    delta, total = of_mean - mean, count + n
    squares = squares + (of_squares + delta**2 * (count * n / total))
    return total, mean + delta * (n / total), squares
