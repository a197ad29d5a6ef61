"""Where row n of a column lies, for processes that write rows without a window of their own.

Who steps environments is asked for rows by number alone, and needs neither torch nor the window:
the number says where a row is answered and where the next one arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlpyt.packed import PackedRows
from rlpyt.storage import zeros

if TYPE_CHECKING:
    from rlpyt.rows import Row
    from rlpyt.storage import Memory


@dataclass(frozen=True)
class Linear:
    """Rows of a `Window`: H of history, T that are answered, and the boundary row.

    The boundary row arrives last and is answered first, after it was moved to the front.
    """

    example: Row  # without leading dimensions
    history: int
    horizon: int
    num_envs: int

    def rows(self, memory: Memory | None) -> Row:
        """The storage [H + T + 1, B, ...], new or, on the same memory in a child, the same."""
        leading = self.history + self.horizon + 1, self.num_envs
        return zeros(self.example, leading, shared=memory)

    def arrives(self, n: int) -> int:
        """The slot into which row n is written."""
        return self.history + 1 + (n - 1) % self.horizon if n else self.history

    def answered(self, n: int) -> int:
        """The slot in which row n is answered."""
        return self.history + n % self.horizon


@dataclass(frozen=True)
class Cyclic:
    """Rows of a `Ring`, which stay where they arrive."""

    example: Row
    num_slots: int
    num_envs: int

    def packed(self, memory: Memory | None) -> PackedRows[Row]:
        """The storage [S, B, ...], new or, on the same memory in a child, the same."""
        return PackedRows(self.example, (self.num_slots, self.num_envs), shared=memory)

    def rows(self, memory: Memory | None) -> Row:
        """The same as a tree."""
        return self.packed(memory).tree

    def arrives(self, n: int) -> int:
        """The slot into which row n is written."""
        return n % self.num_slots

    answered = arrives


Places = Linear | Cyclic
