"""Where nothing is added, nothing changes (B113)."""

from __future__ import annotations

import numpy as np
import pytest
from random_rings import advance, make_ring, same

from rlpyt.arrays import tree_map
from rlpyt.replays.prioritized import Prioritized


@pytest.mark.parametrize("windows", [(), (2, 2, 1), (2,) * 9])
def test_a_window_of_no_rows_changes_no_row_no_bound_and_no_priority(windows):
    ring, rng = make_ring(state_interval=2), np.random.default_rng(0)
    advance(ring.blocks[0], rng, *windows)
    ring.rows.cut[:] = False  # a row in flight that is cut ends the one before it, sooner or later
    selector = Prioritized(ring, 2, range(1), 0.6)
    selector.sync()
    kept = (ring.rows, ring.states, ring.bounds(), selector.state())
    before = tree_map(np.copy, kept)
    ring.blocks[0].reserve(0)
    ring.blocks[0].answer(0)
    selector.sync()
    assert same((ring.rows, ring.states, ring.bounds(), selector.state()), before)


def test_a_ring_that_takes_up_an_empty_one_is_empty_and_goes_on():
    empty, other = make_ring(), make_ring()
    other.restore(empty.snapshot())
    assert other.blocks[0].answered == 0 and not other.starts(2)[1].any()
    advance(other.blocks[0], np.random.default_rng(0), 2, 2)
    assert other.blocks[0].answered == 4 and other.starts(2)[1].all()
