"""A sampler that writes into a ring's block leaves the same rows there as in windows."""

from typing import Any

import numpy as np
import pytest
import torch
from stepping import Scripted, coin, in_process
from toy_tasks import Frames

from rlpyt import noise
from rlpyt.arrays import tree_items, tree_map
from rlpyt.noise import Noise
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Row, Window, example_row
from rlpyt.samplers.sampler import Sampler

READS = frozenset({"observation", "reward", "first", "previous_action"})
NUM_ENVS = 3
STATE = torch.zeros(NUM_ENVS, 1)


class Seeing(Scripted):
    """Acts by the noise and by what it sees, so that wrong inputs give other rows."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, inputs: Any, drawn: Any) -> torch.Tensor:
        seen = inputs.observation.float().flatten(1).sum(1) + inputs.previous_action
        return (coin(inputs, drawn) + seen.long()) % 2


def sampler_into(window: Any, envs: Any) -> Sampler:
    drawn = Noise(0, noise.ACTION_NOISE, range(NUM_ENVS), 1, 0)
    return Sampler(envs, Seeing(), window, drawn)


def frames() -> Any:
    return in_process(lambda _: Frames(), NUM_ENVS)


def ring_of(spec: Any, capacity: int, horizon: int, k: int, interval: int) -> Ring:
    example = example_row(spec)
    given = {"reads": READS, "frame_stack": k, "state": STATE, "state_interval": interval}
    return Ring(example, capacity, NUM_ENVS, horizon, **given)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("horizons", [[4] * 8, [4, 1, 3, 4, 2, 4, 4, 1, 4]])
def test_rows_in_a_ring_equal_those_of_windows(k: int, horizons: list[int]) -> None:
    ring = ring_of(frames().spec, 9, 4, k, 3)  # wraps
    into_ring = sampler_into(RingWindow(ring.blocks[0], STATE), frames())
    into_ring.reset()
    of_ring: list[Row] = []
    for horizon in horizons:
        rows = into_ring.collect(horizon).rows
        of_ring += [tree_map(np.copy, rows[t]) for t in range(horizon)]
    spec = frames().spec
    window = Window(example_row(spec), 1, NUM_ENVS, reads=READS, frame_stack=k, state=STATE)
    linear = sampler_into(window, frames())
    linear.reset()
    for n, row in enumerate(of_ring):
        own = linear.collect().rows[0]
        for (name, x), (_, y) in zip(tree_items(row), tree_items(own), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=f"{name} of row {n}")


def test_the_state_is_kept_as_it_was_fed_at_every_kth_row() -> None:
    ring = ring_of(frames().spec, 12, 4, 1, 3)
    sampler = sampler_into(RingWindow(ring.blocks[0], STATE), frames())
    sampler.reset()
    for horizon in (4, 1, 3, 2):
        sampler.collect(horizon)
    kept = [float(ring.blocks[0].kept_state(n)[0, 0]) for n in (0, 3, 6, 9)]
    assert kept == [0, 3, 6, 9]  # the scripted agent's state counts rows


def test_a_window_is_no_longer_than_what_is_missing() -> None:
    ring = ring_of(frames().spec, 12, 4, 1, 1)
    window = RingWindow(ring.blocks[0], STATE)
    assert [window.rows_for(steps) for steps in (1, 3, 4, 12, 13, 1000)] == [1, 1, 2, 4, 4, 4]


@pytest.mark.parametrize("k", [1, 3])
def test_a_carry_goes_on_as_if_nothing_had_been_between(k: int) -> None:
    first = sampler_into(RingWindow(ring_of(frames().spec, 9, 4, k, 3).blocks[0], STATE), frames())
    first.reset()
    for _ in range(5):
        first.collect()
    carry = tree_map(np.copy, {"rows": first.window.carry()["rows"]})
    carry |= {"state": first.window.state, "start": first.window.carry()["start"]}
    saved = first.envs.snapshot()
    second = sampler_into(RingWindow(ring_of(frames().spec, 9, 4, k, 3).blocks[0], STATE), frames())
    second.window.restore(carry)
    second.envs.restore(saved, second.window.slots[-1].row)
    for _ in range(4):
        expected = tree_map(np.copy, first.collect().rows[:-1])  # the last is not answered yet
        found = second.collect().rows[:-1]
        for (name, x), (_, y) in zip(tree_items(expected), tree_items(found), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)


def test_after_a_carry_alone_only_new_rows_can_be_read() -> None:
    ring = ring_of(frames().spec, 9, 4, 1, 1)
    first = sampler_into(RingWindow(ring.blocks[0], STATE), frames())
    first.reset()
    for _ in range(5):
        first.collect()
    other = ring_of(frames().spec, 9, 4, 1, 1)
    second = sampler_into(RingWindow(other.blocks[0], STATE), frames())
    second.window.restore(first.window.carry())
    second.envs.restore(first.envs.snapshot(), second.window.slots[-1].row)
    assert other.starts(2)[1].tolist() == [0]
    second.collect()
    assert [x.tolist() for x in other.starts(2)] == [[20], [3]]


def test_starting_anew_forgets_all_rows() -> None:
    envs = frames()
    ring = ring_of(envs.spec, 9, 4, 1, 1)
    sampler = sampler_into(RingWindow(ring.blocks[0], STATE), envs)
    sampler.reset()
    first = [tree_map(np.copy, sampler.collect().rows[:-1]) for _ in range(4)]
    sampler.reset()
    assert ring.starts(2)[1].tolist() == [0]
    for rows in first:
        again = sampler.collect().rows[:-1]
        for (name, x), (_, y) in zip(tree_items(rows), tree_items(again), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)
