"""The log of actions keeps the rows of every open episode, and no others."""

import numpy as np
from stepping import saved

from rlpyt.vector import action_log
from rlpyt.vector.action_log import ActionLog


def test_actions_of_every_current_episode_are_kept_and_no_others(monkeypatch):
    """Columns end at different times; a log shorter than an episode gives it up, and it alone."""
    monkeypatch.setattr(action_log, "LOG_LIMIT", 40)
    lengths = [7, 1000, 11]
    log = ActionLog(3)
    begun, given, row = [0, 0, 0], [], np.zeros(3, np.int64)
    for t in range(500):
        row[:] = t, t + 1, t + 2  # the storage of a window, which is written again
        log.append(row)
        given.append(row.copy())
        for b, n in enumerate(lengths):
            if t - begun[b] + 1 >= n:
                begun[b] = t + 1
                log.begin(b)
        if t % 17 == 0:
            kept = saved(log.snapshot())
            log = ActionLog.restored(kept, given[-1]) if t % 2 else log
        for b in range(3):
            episode = log.episode(b)
            if episode is None:
                assert t - begun[b] + 1 > 20  # LOG_LIMIT // 2
            else:
                assert [x.tolist() for x in episode] == [x.tolist() for x in given[begun[b] :]]
        assert len(log._rows) <= 40
