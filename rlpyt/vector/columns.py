"""How columns are shared out: to groups, and each group to workers."""

from __future__ import annotations

from itertools import pairwise


def cut(columns: range, parts: int) -> list[range]:
    """Parts of consecutive columns, whose sizes differ by at most one."""
    ends = [columns.start + i * len(columns) // parts for i in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(ends)]
