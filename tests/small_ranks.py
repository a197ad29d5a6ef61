"""Rows and columns of a rank, for tests that give each rank a part of the same window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlpyt.arrays import tree_map
from rlpyt.ranks import Ranks, meeting, world
from rlpyt.rows import Window

COLUMNS = 8


def own_columns() -> slice:
    """Of this rank: together they are all; alone all of them."""
    share = COLUMNS // world().size
    return slice(world().rank * share, (world().rank + 1) * share)


def part_of(whole: Window) -> Window:
    """A window of this rank's columns."""
    columns = own_columns()
    part = Window(
        whole.places.example,
        whole.horizon,
        columns.stop - columns.start,
        reads=whole.reads,
        frame_stack=whole.frame_stack,
        state=tree_map(lambda x: x[columns].clone(), whole.state),
        state_interval=whole.state_interval,
        storage=tree_map(lambda x: x[:, columns].copy(), whole.storage),
    )
    tree_map(lambda own, x: own.copy_(x[:, columns]), part.states, whole.states)
    part.answered = whole.answered
    return part


@contextmanager
def alone() -> Iterator[None]:
    """What is made here is made as by one process."""
    together, meeting._world = meeting._world, Ranks()
    try:
        yield
    finally:
        meeting._world = together
