"""Several environments behind one `send` and `recv`, as groups that take turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpyt.rows import Row
from rlpyt.vector.in_process import Ended


class Grouped:
    """Groups of columns that are stepped apart from each other: pools with threads of their own.

    Args:
        parts: environments of one kind, in the order of their columns.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)
        self.spec, self.num_envs = parts[0].spec, sum(part.num_envs for part in parts)
        groups, begin = [], 0
        for part in parts:
            groups.append(slice(begin, begin + part.num_envs))
            begin += part.num_envs
        self.groups = tuple(groups)

    def reset(self, row: Row) -> None:
        """Write the first observation of every column into `row`."""
        for part, columns in zip(self._parts, self.groups, strict=True):
            part.reset(row[columns])

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Have the actions of a group's row executed."""
        self._parts[group].send(row, next_row)

    def recv(self, row: Row, group: int = 0) -> Ended:
        """Wait for a group's row; the columns of it whose episodes ended there."""
        return self._parts[group].recv(row)

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on, in the form that one for all columns has."""
        return type(self._parts[0]).merged([part.snapshot() for part in self._parts])

    def restore(self, state: dict[str, Any], row: Row) -> list[int]:
        """Bring every environment to where `row` arrived; returns the columns that were cut."""
        lost = []
        for part, columns in zip(self._parts, self.groups, strict=True):
            own = part.part_of(state, columns)
            lost += [columns.start + b for b in part.restore(own, row[columns])]
        return lost

    def metrics(self) -> dict[str, float]:
        """Nothing: what the groups take shows in the time of the loop."""
        return {}

    def close(self) -> None:
        for part in self._parts:
            part.close()
