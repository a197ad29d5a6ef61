"""Rings of random shape, filled with random bytes (NaN of every payload among them)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from written_rings import example

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.block import Block
from rlpyt.ring import Ring
from rlpyt.rows import Row

EXAMPLE = example().replace(info={"best": np.zeros((), np.float16)}, mask=np.zeros(0, np.bool_))


def make_ring(
    capacity: int = 8, num_envs: int = 3, horizon: int = 2, example: Row = EXAMPLE, **options: Any
) -> Ring:
    """A ring with the state of a memory if there is a `state_interval`."""
    memory = torch.zeros(num_envs, 2), torch.zeros(num_envs, dtype=torch.float64)
    state = memory if "state_interval" in options else ()
    options = {"frame_stack": 3, **options}
    return Ring(example, capacity, num_envs, horizon, state=state, **options)


def advance(block: Block, rng: np.random.Generator, *horizons: int) -> None:
    """Write windows as a sampler does: rows are answered, and the next ones arrive."""
    for horizon in horizons:
        a = block.reserve(horizon)
        if not a:
            _scramble(block.at(0).row, rng)
        for n in range(a, a + horizon):
            row = block.at(n).row
            _scramble((row.action, row.info), rng)
            if n % block.ring.state_interval == 0:
                _scramble(tree_map(lambda x: x.numpy(), block.kept_state(n)), rng)
            _scramble(block.at(n + 1).row, rng)
        block.answer(horizon)


def copy_in_flight(ring: Ring, other: Ring) -> None:
    """What `load` leaves to others: the rows in flight, and the history that they are read with."""
    for block, twin in zip(ring.blocks, other.blocks, strict=True):
        a = block.answered
        for n in range(a - ring.history, a + 1):
            twin.at(n).row[:] = block.at(n).row


def same(a: Any, b: Any) -> bool:
    """Whether two trees of arrays and numbers are equal by bytes."""
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return all(
        np.shape(x) == np.shape(y) and np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in pairs
    )


@st.composite
def rings(draw: st.DrawFn) -> dict[str, Any]:
    """What `make_ring` takes."""
    horizon, frame_stack = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    num_envs = draw(st.integers(1, 4))
    options = {
        "capacity": draw(st.integers(max(horizon, frame_stack, 2), 14)),
        "num_envs": num_envs,
        "horizon": horizon,
        "frame_stack": frame_stack,
        "blocks": draw(st.integers(1, num_envs)),
        "asynchronous": draw(st.booleans()),
    }
    keeps = draw(st.booleans())
    return options | ({"state_interval": draw(st.integers(1, 5))} if keeps else {})


def _scramble(tree: Any, rng: np.random.Generator) -> None:
    for leaf in tree_leaves(tree):
        if leaf.dtype == np.bool_:
            leaf[...] = rng.random(leaf.shape) < 0.3
        else:
            leaf[...] = np.frombuffer(rng.bytes(leaf.nbytes), leaf.dtype).reshape(leaf.shape)
