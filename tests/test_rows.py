"""Windows: every transition of a long stream is in exactly one, stacks and carries are exact."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.arrays import tree_items
from rlpyt.rows import Row, Window, stack_frames


def example(shape: tuple[int, ...] = (), dtype: type = np.float32) -> Row:
    flag = np.zeros((), np.bool_)
    return Row(
        observation=np.zeros(shape, dtype),
        reward=np.zeros((), np.float32),
        terminated=flag,
        truncated=flag,
        first=flag,
        cut=flag,
        action=np.zeros((), np.int64),
    )


def fill(window: Window, begin: int, first: np.ndarray) -> None:
    """Let rows arrive and be answered; row n of the stream observes n and is answered by -n."""
    if window.answered:
        window.advance()
    else:
        arrive(window, 0, first)
    for t in range(window.horizon):
        window.slots[t].row.action[:] = -(window.start + t)
        arrive(window, t + 1, first)
    window.answered = window.horizon


def arrive(window: Window, t: int, first: np.ndarray) -> None:
    row, n = window.slots[t].row, window.start + t
    row.observation[...] = n % 251
    row.reward[:] = n
    row.first[:] = first[n]


@settings(max_examples=40, deadline=None)
@given(horizon=st.integers(1, 9), stack=st.integers(1, 5), windows=st.integers(1, 6))
def test_every_transition_of_a_stream_is_in_exactly_one_window(horizon, stack, windows):
    window = Window(example(), horizon, 2, frame_stack=stack)
    first = np.zeros(windows * horizon + 1, bool)
    seen = []
    for _ in range(windows):
        fill(window, 0, first)
        rows = window.rows
        assert np.array_equal(rows.action[:-1, 0], -rows.reward[:-1, 0])  # answered where it lies
        seen += zip(rows.reward[:-1, 0].tolist(), rows.reward[1:, 0].tolist(), strict=True)
    total = windows * horizon
    assert seen == [(n, n + 1) for n in range(total)]


def test_without_the_boundary_row_a_transition_is_lost():
    window = Window(example(), 4, 1)
    first = np.zeros(9, bool)
    seen = []
    for _ in range(2):
        fill(window, 0, first)
        rows = window.rows.reward[:-1, 0].tolist()
        seen += pairwise(rows)
    assert (3, 4) not in seen  # the control: what storage of T rows would serve


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_stacks_hold_the_last_frames_of_their_episode_only(data):
    horizon, k = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    windows = data.draw(st.integers(1, 4))
    total = windows * horizon + 1
    first = np.array(data.draw(st.lists(st.booleans(), min_size=total, max_size=total)))
    first[0] = True
    window = Window(example((2, 2), np.uint8), horizon, 1, frame_stack=k)
    for _ in range(windows):
        fill(window, 0, first)
        read = window.inputs().observation
        assert read.shape == ((horizon + 1, 1, k, 2, 2) if k > 1 else (horizon + 1, 1, 2, 2))
        for t in range(horizon + 1):
            expected = wanted_stack(first, window.start + t, k)
            assert read[t, 0].reshape(k, -1)[:, 0].tolist() == expected
            acting = window.acting_inputs(t).observation
            assert torch.equal(acting[0].reshape(k, -1), read[t, 0].reshape(k, -1))


def wanted_stack(first: np.ndarray, n: int, k: int) -> list[int]:
    """Frames n-k+1 .. n that lie in row n's episode, zero before it, oldest first."""
    start = max(m for m in range(n + 1) if first[m])
    return [m % 251 if m >= start else 0 for m in range(n - k + 1, n + 1)]


def test_the_stack_across_an_episode_start_is_not_the_plain_slice():
    frames = np.arange(1, 7, dtype=np.uint8).reshape(6, 1, 1, 1)
    first = np.array([[True], [False], [False], [True], [False], [False]])
    out = np.zeros((1, 1, 3, 1, 1), np.uint8)
    stack_frames(frames[2:5], first[2:5], 3, out)
    assert out.ravel().tolist() == [0, 4, 5]


def test_previous_action_is_the_answer_of_the_row_before_also_at_row_0():
    reads = frozenset({"observation", "previous_action", "reward", "first"})
    window = Window(example(), 3, 2, reads=reads)
    first = np.zeros(10, bool)
    for _ in range(3):
        fill(window, 0, first)
        inputs = window.inputs()
        begin = window.start
        expected = [-(n - 1) if n else 0 for n in range(begin, begin + 4)]
        assert inputs.previous_action[:, 1].tolist() == expected
        for t in range(4):
            assert window.acting_inputs(t).previous_action.tolist() == [expected[t]] * 2


def test_what_a_model_does_not_read_is_none():
    window = Window(example(), 3, 2)
    assert window.inputs().reward is None and window.inputs().previous_action is None


@pytest.mark.parametrize("stack", [1, 4])
def test_a_restored_window_goes_on_like_the_one_that_was_saved(stack):
    first = np.zeros(13, bool)
    first[[0, 3, 7]] = True
    kept = Window(example((2, 2), np.uint8), 4, 2, frame_stack=stack, state=torch.zeros(2, 3))
    fill(kept, 0, first)
    kept.state = torch.ones(2, 3)
    other = Window(example((2, 2), np.uint8), 4, 2, frame_stack=stack, state=torch.zeros(2, 3))
    other.restore(kept.carry())
    for window in (kept, other):
        fill(window, 0, first)
    for (path, x), (_, y) in zip(tree_items(kept.rows), tree_items(other.rows), strict=True):
        assert np.array_equal(x, y), path
    assert torch.equal(kept.inputs().observation, other.inputs().observation)
    assert torch.equal(kept.state, other.state) and kept.start == other.start


def test_a_window_is_not_saved_before_its_rows_are_answered():
    with pytest.raises(RuntimeError, match="between collections"):
        Window(example(), 3, 2).carry()
