"""Windows that take turns: the same rows as one window, and the one that is read stays as it is."""

from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.arrays import tree_leaves
from rlpyt.rotation import Rotation
from rlpyt.rows import Row, Window
from rlpyt.storage import Memory

FLAG = np.zeros((), np.bool_)
READS = frozenset({"observation", "reward", "first", "previous_action"})
T, B, STACK = 4, 3, 3


def example() -> Row:
    image = np.zeros((2, 2), np.uint8)
    return Row(image, np.zeros((), np.float32), FLAG, FLAG, FLAG, FLAG, np.zeros((), np.int64))


def options() -> dict[str, Any]:
    return {
        "reads": READS,
        "frame_stack": STACK,
        "state": (torch.zeros(B, 2),),
        "state_interval": 2,
    }


def arrive(row: Row, n: int, b: Any = slice(0, B)) -> None:
    columns = np.arange(B)[b]
    row.observation[:] = (7 * n + columns + 1)[:, None, None] % 251
    row.reward[:] = n
    row.terminated[:] = (n + columns) % 5 == 4
    row.first[:] = (n + columns) % 5 == 0


def collect(window: Any, n: int, parts: Any = None) -> int:
    """Write a window as a sampler does, from row n on; returns the next n."""
    window.begin()
    assert window.start == n
    for part, columns in parts or [(window, slice(0, B))]:
        if parts:
            part.follow(window.start, T)
        state = part.state
        for t in range(T):
            part.keep(t, state)
            inputs = part.acting_inputs(t)
            row = part.slots[t].row
            row.action[:] = 10 * (n + t) + inputs.observation.numpy().sum((1, 2, 3)) % 10
            seen = inputs.reward + inputs.previous_action % 3
            state = (state[0] + seen[:, None],)
            arrive(part.slots[t + 1].row, n + t + 1, columns)
        part.finish(state)
    if parts:
        window.finish(window.state)
    return n + T


def content(window: Window) -> list[np.ndarray]:
    inputs = window.inputs()
    read = [inputs.observation, inputs.reward, inputs.first, inputs.previous_action]
    leaves = tree_leaves((read, window.states, window.state, window.tensors))
    return [x.numpy().copy() for x in leaves]


@pytest.mark.parametrize("windows", [2, 3])
@pytest.mark.parametrize("in_parts", [False, True])
def test_every_window_is_what_one_window_alone_would_hold(windows, in_parts):
    one = Window(example(), T, B, **options())
    memory = Memory() if in_parts else None
    shared: Any = {"memory": memory, "state_memory": memory}
    several = Rotation(example(), T, B, windows, **options(), **shared)
    parts = None
    if in_parts:
        parts = [(several.part(at), at) for at in (slice(0, 1), slice(1, 3))]
    for window in (one, several):
        arrive(window.restart((torch.zeros(B, 2),)), 0)
    n, kept = 0, []
    for _ in range(2 * windows + 1):
        collect(one, n)
        n = collect(several, n, parts)
        kept.append((several.start, content(one)))
        for start, expected in kept[-windows + 1 :]:  # those that nothing was written over
            found = several.at(start)
            assert found.start == start
            assert all(map(np.array_equal, content(found), expected))


def test_a_carry_fits_one_window_and_several():
    one = Window(example(), T, B, **options())
    several = Rotation(example(), T, B, 2, **options())
    for window in (one, several):
        arrive(window.restart((torch.zeros(B, 2),)), 0)
    n = 0
    for _ in range(3):
        collect(one, n)
        n = collect(several, n)
    again, alone = Rotation(example(), T, B, 2, **options()), Window(example(), T, B, **options())
    again.restore(one.carry())
    alone.restore(several.carry())
    for window in (one, several, again, alone):
        collect(window, n)
    expected = content(one)
    for window in (several.at(n), again.at(n), alone):
        assert all(map(np.array_equal, content(window), expected))


def test_a_row_lies_where_its_number_says():
    several = Rotation(example(), T, B, 3, **options())
    places, storage = several.places, several.places.rows(None)
    length = places.length
    assert len(storage.reward) == 3 * length
    arrive(several.restart((torch.zeros(B, 2),)), 0)
    n = 0
    for _ in range(7):
        n = collect(several, n)
        begin = several.start // T % 3 * length + places.history
        for t in range(T):
            assert places.answered(several.start + t) == begin + t
            assert places.arrives(several.start + t + 1) == begin + t + 1
    assert places.arrives(0) == places.history
