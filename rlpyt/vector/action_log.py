"""The actions of open episodes: with the episode's seed, what brings an environment back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map

LOG_LIMIT = 200_000  # rows of actions kept to restore episodes; a longer one is restarted


class ActionLog:
    """The actions of every column's current episode, kept as whole rows.

    One copy a row for all columns; rows older than every current episode are forgotten.
    """

    def __init__(self, num_envs: int) -> None:
        self._rows: list[Any] = []
        self._begins = [0] * num_envs  # index into rows + forgotten, -1: not kept
        self._forgotten = 0

    def append(self, action: Any) -> None:
        # An array alone, as most actions are, in a tenth of the time that a tree takes.
        row = action.copy() if type(action) is np.ndarray else tree_map(np.copy, action)
        self._rows.append(row)
        if len(self._rows) >= LOG_LIMIT:
            self._forget()

    def begin(self, column: int) -> None:
        self._begins[column] = self._forgotten + len(self._rows)
        if len(self._rows) >= 1024 and column == 0:
            self._forget()

    def episode(self, column: int) -> list[Any] | None:
        """Rows of actions since the column's reset; None where they were too many to keep."""
        begin = self._begins[column] - self._forgotten
        return None if begin < 0 else self._rows[begin:]

    def steps(self, column: int) -> int:
        """How many there are since the column's reset; more than none where none were kept."""
        return self._forgotten + len(self._rows) - self._begins[column]

    def snapshot(self) -> dict[str, Any]:
        """In the same form for the same episodes, whoever steps them: what is older is zero."""
        self._forget()
        count, begins = len(self._rows), np.maximum(np.array(self._begins) - self._forgotten, -1)
        rows: Any = ()
        if count:
            rows = tree_map(lambda *xs: np.stack(xs), *self._rows)
            old = np.arange(count)[:, None] < np.where(begins < 0, count, begins)  # [count, B]
            for leaf in tree_leaves(rows):
                leaf[old] = 0
        return {"rows": rows, "begins": begins, "count": count}

    @classmethod
    def restored(cls, state: dict[str, Any], example: Any) -> ActionLog:
        """The log of a snapshot; `example` is a row of actions, in whose form its rows are."""
        begins = np.asarray(state["begins"]).tolist()
        log, rows = cls(len(begins)), state["rows"]
        log._begins = begins
        for i in range(state["count"]):
            log._rows.append(tree_map(lambda _, x, i=i: x[i], example, rows))
        return log

    @staticmethod
    def merged(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The snapshot of all columns, of those of some each; all end with the same row."""
        counts = [state["count"] for state in states]
        begins = [
            np.where(state["begins"] < 0, -1, state["begins"] + max(counts) - n)
            for state, n in zip(states, counts, strict=True)
        ]
        rows: Any = ()
        if max(counts):
            some = states[counts.index(max(counts))]["rows"]
            parts = [_lengthened(state, max(counts), some) for state in states]
            rows = tree_map(lambda *xs: np.concatenate(xs, axis=1), *parts)
        return {"rows": rows, "begins": np.concatenate(begins), "count": max(counts)}

    @staticmethod
    def part_of(state: dict[str, Any], columns: slice) -> dict[str, Any]:
        """Of the snapshot of all columns that of some."""
        rows = tree_map(lambda x: x[:, columns], state["rows"])
        return {"rows": rows, "begins": state["begins"][columns], "count": state["count"]}

    def _forget(self) -> None:
        """Drop the rows before the oldest episode, and at most LOG_LIMIT // 2 stay."""
        oldest = min(self._begins) - self._forgotten
        excess = max(oldest, len(self._rows) - LOG_LIMIT // 2, 0)
        del self._rows[:excess]
        self._forgotten += excess


def _lengthened(state: dict[str, Any], count: int, some: Any) -> Any:
    """The rows [count, b, ...] of a snapshot that may hold fewer; zeros before the first.

    Args:
        some: rows of other columns, for their structure.
    """
    own, b = state["rows"] if state["count"] else some, len(state["begins"])

    def lengthen(x: np.ndarray) -> np.ndarray:
        kept = x[: state["count"], :b]
        missing = np.zeros((count - len(kept), b, *x.shape[2:]), x.dtype)
        return np.concatenate([missing, kept]) if len(kept) else missing

    return tree_map(lengthen, own)
