"""A look at the ring: what is drawn depends on when the learner looked, not on the writer since."""

from typing import Any

import numpy as np
import pytest

from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.replay import Replay
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring
from rlpyt.rows import Row

FLAG = np.zeros((), np.bool_)
CAPACITY, ENVS, HORIZON, LAG = 20, 2, 3, 4


def example() -> Row:
    number = np.zeros((), np.int64)
    return Row(number, np.zeros((), np.float32), FLAG, FLAG, FLAG, FLAG, number)


def make(lag: int = LAG) -> Ring:
    return Ring(example(), CAPACITY, ENVS, HORIZON, asynchronous=True, lag=lag)


def write(ring: Ring, windows: int, horizon: int = HORIZON) -> None:
    """Row n of column b observes 10 n + b; every seventh is an episode's last."""
    block = ring.blocks[0]
    for _ in range(windows):
        a = block.reserve(horizon)
        for n in range(a, a + horizon + 1):
            row = block.at(n).row
            row.observation[:] = 10 * n + np.arange(ENVS)
            row.terminated[:] = n % 7 == 6
            row.first[:] = n % 7 == 0
        block.answer(horizon)


def replay(ring: Ring, prioritized: bool) -> Replay:
    selector: Any = Uniform(ring, 2, range(1))
    if prioritized:
        selector = Prioritized(ring, 2, range(1), 0.6)
    return Replay(ring, selector, 8, 2, np.random.default_rng(0))


def drawn(prioritized: bool, ahead: list[int], look: bool = True) -> list[np.ndarray]:
    """What is drawn after 3 windows more each time, while others follow at once.

    Args:
        ahead: windows that the writer has advanced at each look since the last one was there.
    """
    ring = make()
    source = replay(ring, prioritized)
    written, found = 0, []
    if look:
        ring.look()
    for i, more in enumerate(ahead, 1):
        write(ring, 3 * i + more - written)
        written = 3 * i + more
        if look:
            ring.look(3 * i * HORIZON)
        for _ in range(3):
            if not source.ready:
                continue
            items = source.draw()
            rows = source.window.rows.observation.copy()  # [2, N]
            assert np.array_equal(rows, 10 * (items.starts + np.array([[0], [1]])) + items.columns)
            source.update(items, np.abs(np.sin(items.starts + 1.0)))
            found.append(rows)
    assert ring.overtaken == 0
    return found


@pytest.mark.parametrize("prioritized", [False, True])
def test_draws_depend_on_the_looks_alone(prioritized):
    behind = drawn(prioritized, [0] * 8)
    ahead = drawn(prioritized, [0, 1, 1, 1, 0, 1, 1, 0])
    assert len(behind) == 24
    assert all(np.array_equal(x, y) for x, y in zip(behind, ahead, strict=True))


@pytest.mark.parametrize("prioritized", [False, True])
def test_without_a_look_they_depend_on_the_writer(prioritized):
    behind = drawn(prioritized, [0] * 8, look=False)
    ahead = drawn(prioritized, [0, 1, 1, 1, 0, 1, 1, 0], look=False)
    assert not all(np.array_equal(x, y) for x, y in zip(behind, ahead, strict=True))


def overtaken(lag: int, state_interval: int = 1) -> int:
    """Items lost of all that can be read at a look, after the writer has gone LAG windows on."""
    ring = make(lag)
    ring.look()
    write(ring, 30)
    ring.look(30 * HORIZON)
    write(ring, LAG)
    ring.blocks[0].reserve(HORIZON)
    lo, answered = (int(x[0]) for x in ring.bounds())
    assert (lo, answered) == (30 * HORIZON - CAPACITY, 30 * HORIZON)
    starts = np.repeat(np.arange(lo + ring.history, answered - 1), ENVS)
    columns = np.tile(np.arange(ENVS), len(starts) // ENVS)
    ring.gather(ring.window(len(starts), 2), starts, columns)
    return ring.overtaken


def test_a_writer_that_is_ahead_by_the_lag_overtakes_nothing():
    assert overtaken(LAG) == 0
    assert overtaken(LAG - 3) > 0


def test_a_look_after_a_restore_finds_what_was_restored():
    ring = make()
    ring.look()
    ring.blocks[0].go_on_at(50, 45)
    ring.look()
    assert [x.tolist() for x in ring.bounds()] == [[45], [50]]
    write(ring, 4)
    ring.look(50 + 2 * HORIZON)
    assert [x.tolist() for x in ring.bounds()] == [[45], [56]]
    write(ring, 5)
    ring.look(50 + 9 * HORIZON)
    assert [x.tolist() for x in ring.bounds()] == [[77 - CAPACITY], [77]]


def test_progress_differs_at_each_look_that_finds_something_new():
    ring = make()
    ring.look()
    seen = [ring.progress]
    write(ring, 2)
    assert ring.progress == seen[0]
    ring.look(HORIZON)
    seen.append(ring.progress)
    ring.look(2 * HORIZON)
    seen.append(ring.progress)
    ring.look(2 * HORIZON)
    assert ring.progress == seen[-1]
    assert len(set(seen)) == 3
