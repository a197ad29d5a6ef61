"""Some columns of a window, seen as a window; and where rows lie, known without one."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import in_process
from test_ring_window import READS, Seeing
from toy_tasks import Frames

from rlpyt import noise
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.noise import Noise
from rlpyt.places import Cyclic, Linear
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Window, example_row
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import Memory, zeros

B = 5


def window_of(kind: str, k: int, memory: Memory | None = None) -> Any:
    state, given = torch.zeros(B, 2), {"reads": READS, "frame_stack": k}
    example = example_row(in_process(lambda _: Frames(), 1).spec)
    if kind == "linear":
        return Window(
            example,
            6,
            B,
            state=state,
            state_interval=3,
            memory=memory,
            state_memory=memory,
            **given,
        )
    ring = Ring(example, 12, B, 6, state=state, state_interval=3, shared=memory, **given)
    return RingWindow(ring.blocks[0], state, memory)


def filled(window: Any, windows: int) -> Any:
    envs = in_process(lambda _: Frames(), B)
    sampler = Sampler(envs, Seeing(), window, Noise(0, noise.ACTION_NOISE, range(B), 1, 0))
    sampler.reset()
    for _ in range(windows):
        sampler.collect()
    return sampler


def equal(x: Any, y: Any) -> bool:
    pairs = zip(tree_leaves(x), tree_leaves(y), strict=True)
    return all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kind", ["linear", "ring"])
@pytest.mark.parametrize("columns", [slice(0, 5), slice(0, 2), slice(2, 5), slice(3, 4)])
def test_a_part_sees_what_its_window_holds(columns, kind, k, shared):
    window = window_of(kind, k, Memory() if shared else None)
    filled(window, 3)
    part = window.part(columns)
    part.follow(window.start, window.horizon)
    assert (part.num_envs, part.total_envs) == (columns.stop - columns.start, B)
    assert equal(part.rows, window.rows[:, columns])
    assert equal(part.state, window.state[columns])
    for t in range(window.horizon + 1):
        whole = tree_map(torch.clone, window.acting_inputs(t))
        assert equal(part.acting_inputs(t), whole[columns])
        assert equal(part.whole_inputs(t), whole)
        assert equal(part.slots[t].row, window.slots[t].row[columns])


@pytest.mark.parametrize("kind", ["linear", "ring"])
def test_what_is_written_through_parts_is_in_the_window(kind):
    window = window_of(kind, 1, Memory())
    sampler = filled(window, 2)
    window.begin()
    expected = torch.zeros(B, 2)
    for columns in (slice(0, 2), slice(2, 5)):
        part = window.part(columns)
        part.follow(window.start, window.horizon)
        for t in range(part.horizon):
            part.slots[t].row.action[:] = 1 + columns.start
            part.keep(t, torch.full((part.num_envs, 2), float(10 * t + columns.start)))
        part.finish(torch.full((part.num_envs, 2), 7.0 + columns.start))
        expected[columns] = 7.0 + columns.start
    assert (
        np.unique(window.rows.action[:-1, :2]) == 1 and np.unique(window.rows.action[:-1, 2:]) == 3
    )
    assert torch.equal(window.state, expected)
    at = 3 if kind == "linear" else next(n for n in range(1, 9) if (window.start + n) % 3 == 0)
    kept = window.kept_state(1) if kind == "linear" else window.block.kept_state(window.start + at)
    assert kept[:, 0].tolist() == [10 * at] * 2 + [10 * at + 2] * 3
    assert sampler.window is window


def test_a_part_begins_no_other_window_than_is_there():
    for kind in ("linear", "ring"):
        part = window_of(kind, 1).part(slice(0, 2))
        part.begin(6)
        with pytest.raises(ValueError, match="4 rows"):
            part.begin(4)


@settings(max_examples=60, deadline=None)
@given(horizon=st.integers(1, 7), stack=st.integers(1, 9), windows=st.integers(1, 6))
def test_a_number_says_where_a_row_of_a_window_lies(horizon, stack, windows):
    """Who writes rows by number alone writes where the window looks for them."""
    example = example_row(in_process(lambda _: Frames(), 1).spec)
    window = Window(example, horizon, 2, frame_stack=stack)
    places = window.places
    assert isinstance(places, Linear)
    assert places.rows(None).reward.shape == window.storage.reward.shape
    window.storage[places.arrives(0)].reward[:] = 0
    for _ in range(windows):
        for t in range(horizon):
            n = window.start + t
            assert (window.slots[t].row.reward == n).all()
            assert np.shares_memory(
                window.slots[t].row.reward, window.storage.reward[places.answered(n)]
            )
            window.storage[places.arrives(n + 1)].reward[:] = n + 1
        assert window.slots[horizon].row.reward[0] == window.start + horizon
        window.answered = horizon
        assert window.boundary == window.start + horizon
        window.advance()


@settings(max_examples=20, deadline=None)
@given(capacity=st.integers(8, 30), n=st.integers(0, 100))
def test_a_number_says_where_a_row_of_a_ring_lies(capacity, n):
    example = example_row(in_process(lambda _: Frames(), 1).spec)
    ring = Ring(example, capacity, 2, 3, frame_stack=2)
    places = ring.places
    assert isinstance(places, Cyclic)
    places.rows(None)  # of the same form
    row = ring.rows[places.arrives(n)]
    assert places.answered(n) == places.arrives(n)
    assert np.shares_memory(row.reward, ring.blocks[0].at(n).row.reward)


def test_rows_made_from_places_are_those_of_the_window_on_the_same_memory():
    for kind in ("linear", "ring"):
        memory = Memory()
        window = window_of(kind, 2, memory)
        again = Memory.__new__(Memory)
        again._file, again._end, again.created = memory._file, 0, False  # as in another process
        rows = window.places.rows(again)
        rows.reward[3] = 5
        storage = window.storage if kind == "linear" else window.block.rows
        assert (storage.reward[3] == 5).all()


def test_a_window_made_again_on_received_memory_leaves_what_is_there():
    memory = Memory()
    window = window_of("linear", 1, memory)
    filled(window, 1)
    state, rows = window.state.clone(), tree_map(np.copy, window.rows)
    again = Memory.__new__(Memory)
    again._file, again._end, again.created = memory._file, 0, False
    other = window_of("linear", 1, again)
    assert torch.equal(other.state, state) and state.any()
    assert equal(other.rows, rows) and equal(window.rows, rows)
    assert zeros((), (3,), shared=again) == ()
