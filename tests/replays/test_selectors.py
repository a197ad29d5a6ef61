"""What every selector promises; `test_oracle.py` has the rules in any order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from episodes import ONE, TRUNCATED, check, filled, items_of, usable, write

from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.uniform import Uniform

SELECTORS = pytest.mark.parametrize(
    "make", [Uniform, lambda *where: Prioritized(*where, alpha=0.6)], ids=["uniform", "prioritized"]
)
Maker = Callable[..., Any]


@SELECTORS
def test_before_an_item_is_there_none_is_ready_and_a_draw_says_so(make: Maker):
    ring, (environments,) = filled(0, capacity=40)
    selector, rng = make(ring, 6, range(2, 4)), np.random.default_rng(0)
    window = ring.window(4, 6)
    for rows in (0, 4, 5):
        write(environments, rows - environments.answered)
        assert not selector.ready
        with pytest.raises(RuntimeError, match="collect more"):
            selector.draw(window, rng)
    write(environments, 1)
    assert selector.ready
    assert {s for s, _ in items_of(selector.draw(window, rng))} == {0}


@SELECTORS
def test_items_whose_trained_rows_are_all_dead_are_not_ready(make: Maker):
    ring, (environments,) = filled(0, num_envs=1)
    environments.die(np.zeros((0, 1), np.int64))  # row 0, and then a reset
    selector = make(ring, 2, ONE)
    environments.run(np.array([[TRUNCATED], [0]]))  # row 1 is last, row 2 a reset
    write(environments, 1)
    live = {s for s, _ in usable([environments], 2, ONE)}
    assert live == {0}
    ring.rows.truncated[0] = True
    assert not selector.ready


@SELECTORS
def test_every_live_item_is_drawn_and_no_other(make: Maker):
    ring, blocks = filled(100, ending=0.4, blocks=2)
    for length, trained in ((2, ONE), (5, range(1, 4)), (6, range(3, 4))):
        selector, rng = make(ring, length, trained), np.random.default_rng(0)
        window = ring.window(64, length)
        drawn = [item for _ in range(60) for item in items_of(selector.draw(window, rng))]
        assert set(drawn) == set(usable(blocks, length, trained))


@pytest.mark.parametrize("interval", [1, 4, 5, 9])
@SELECTORS
def test_the_state_interval_may_be_shorter_than_an_item_equal_or_longer(make: Maker, interval: int):
    ring, blocks = filled(100, state_interval=interval)
    selector, window = make(ring, 5, range(1, 4)), ring.window(40, 5)
    drawn = selector.draw(window, np.random.default_rng(0))
    assert {s % interval for s, _ in items_of(drawn)} == {0}
    check(window, ring, blocks, drawn.starts, drawn.columns)


def test_priorities_do_nothing_to_a_uniform_selector():
    ring, _ = filled(30)
    selector = Uniform(ring, 2, ONE)
    drawn = selector.draw(ring.window(8, 2), np.random.default_rng(0), beta=0.5)
    assert drawn.weights is None
    selector.update(drawn, np.full(8, np.nan))
    selector.sync()
    assert selector.state() == {}
    selector.load({})
    again = selector.draw(ring.window(8, 2), np.random.default_rng(0))
    assert items_of(drawn) == items_of(again)
