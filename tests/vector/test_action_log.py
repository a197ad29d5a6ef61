"""The log of actions is saved in one form, however its columns are spread over processes."""

import numpy as np
import pytest

from rlpyt.arrays import tree_items
from rlpyt.vector import action_log
from rlpyt.vector.action_log import ActionLog

B = 5


def logs(resets: dict[int, list[int]]) -> tuple[ActionLog, list[ActionLog]]:
    """The log of all columns, and one of each, of 30 rows.

    Args:
        resets: rows in which columns are reset, each after its action.
    """
    whole, parts = ActionLog(B), [ActionLog(1) for _ in range(B)]
    for t in range(30):
        actions = 1 + t * B + np.arange(B)
        whole.append(actions)
        for b, part in enumerate(parts):
            part.append(actions[b : b + 1])
            if t in resets.get(b, ()):
                whole.begin(b)
                part.begin(0)
    return whole, parts


@pytest.mark.parametrize(
    "resets",
    [{}, {0: [3, 20], 1: [29], 3: [0, 28]}, {b: [b, 10 + b] for b in range(B)}],
)
def test_parts_make_the_snapshot_of_the_whole(resets):
    whole, parts = logs(resets)
    merged = ActionLog.merged([part.snapshot() for part in parts])
    saved = whole.snapshot()
    for (path, x), (_, y) in zip(tree_items(saved), tree_items(merged), strict=True):
        assert np.array_equal(x, y), path
    again = ActionLog.restored(saved, np.zeros(B, int))
    for b, part in enumerate(parts):
        one = [row[b] for row in again.episode(b)]
        assert one == [row[0] for row in part.episode(0)]


def test_what_is_not_kept_is_zero_and_stays_unknown(monkeypatch):
    monkeypatch.setattr(action_log, "LOG_LIMIT", 20)
    whole, _ = logs({1: [29]})
    saved = whole.snapshot()
    assert saved["begins"].tolist() == [-1, saved["count"], -1, -1, -1]
    assert not saved["rows"].any() and saved["count"] > 0
    assert ActionLog.restored(saved, np.zeros(B, int)).episode(0) is None
