"""A draw on a device is the draw in host memory, whatever was written, cut, restored or overtaken.

The device is the CPU here: its tensors go the same ways as a GPU's. `benchmarks/gpu/` has the GPU.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from episodes import READS, Environments, example_row
from hypothesis import given
from hypothesis import strategies as st
from random_rings import EXAMPLE, advance, copy_in_flight, rings, same

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.replays import mirrored, on_device, pinned
from rlpyt.replays.mirrored import MirroredRing
from rlpyt.replays.pinned import PinnedRing
from rlpyt.replays.prioritized import Prioritized
from rlpyt.replays.segments import Segments
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring
from rlpyt.rows import stack_frames
from rlpyt.storage import as_arrays

CPU = torch.device("cpu")
KINDS: dict[str, Any] = {
    "pinned": partial(PinnedRing, device=CPU),
    "device": partial(MirroredRing, device=CPU),
}
EACH = pytest.mark.parametrize("kind", KINDS)


def random_ring(kind: str, options: dict[str, Any]) -> Ring:
    """As `random_rings.make_ring`, with every field of inputs read."""
    where = {name: options[name] for name in ("capacity", "num_envs", "horizon")}
    rest = {name: x for name, x in options.items() if name not in where}
    memory = torch.zeros(where["num_envs"], 2), torch.zeros(where["num_envs"], dtype=torch.float64)
    state = memory if "state_interval" in rest else ()
    make = KINDS.get(kind, Ring)
    return make(EXAMPLE, *where.values(), reads=READS, state=state, **rest)


def episode_ring(kind: str, capacity: int = 20, num_envs: int = 3, **options: Any) -> Ring:
    state = torch.zeros(num_envs, 2), torch.zeros(num_envs, dtype=torch.int64)
    options = {"frame_stack": 3, "reads": READS, "state": state, **options}
    return KINDS.get(kind, Ring)(example_row(), capacity, num_envs, 4, **options)


def write(environments: Environments, rng: np.random.Generator, windows: int = 1) -> None:
    for _ in range(windows):
        shape = int(rng.integers(1, 5)), len(environments.columns)
        environments.run(np.where(rng.random(shape) < 0.3, rng.integers(1, 4, shape), 0))


def all_items(ring: Ring, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and columns of whatever can be read."""
    first, counts = ring.starts(length)
    grids = [
        np.meshgrid(f + ring.state_interval * np.arange(n), columns)
        for f, n, columns in zip(first, counts, ring.columns, strict=True)
    ]
    return tuple(np.concatenate([grid[i].reshape(-1) for grid in grids]) for i in (0, 1))


def content(window: Any) -> Any:
    """Copies of all that algorithms read of a window."""
    read = window.tensors, window.inputs(), window.kept_state(0)
    return tree_map(np.copy, as_arrays(read))


def assert_same_in_host_memory(ring: Ring, length: int) -> int:
    """Whatever can be read is the same on the device; returns how many items that were."""
    starts, columns = all_items(ring, length)
    if not len(starts):
        return 0
    there, here = ring.window(len(starts), length), Ring.window(ring, len(starts), length)
    assert ring.gather(there, starts, columns).all()
    assert Ring.gather(ring, here, starts, columns).all()
    assert same(content(there), content(here))
    return len(starts)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_stacks_of_tensors_are_those_of_arrays(k: int, n: int, seed: int):
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 256, (k - 1 + n, 3, 2, 2), np.uint8)
    first, out = rng.random((k - 1 + n, 3)) < 0.3, np.zeros((n, 3, k, 2, 2), np.uint8)
    stack_frames(frames, first, k, out)
    found = torch.full(out.shape, 7, dtype=torch.uint8)
    on_device.stack_frames(torch.from_numpy(frames), torch.from_numpy(first), found)
    assert np.array_equal(found.numpy(), out)


@EACH
@given(options=rings(), data=st.data())
def test_every_item_is_the_same_as_in_host_memory(kind: str, options: Any, data: st.DataObject):
    """Bytes of any rows, also across the seam, also where the device lags behind."""
    ring, rng = random_ring(kind, options), np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.integers(0, 6))):
            block = data.draw(st.sampled_from(ring.blocks))
            advance(block, rng, data.draw(st.integers(1, ring.horizon)))
        assert_same_in_host_memory(ring, data.draw(st.integers(2, 5)))


@EACH
@pytest.mark.parametrize("frame_stack", [1, 3])
@pytest.mark.parametrize("blocks", [1, 2])
def test_an_episode_that_is_cut_ends_on_the_device_too(kind: str, blocks: int, frame_stack: int):
    """Its last row is on the device already when a new writer says that it ended."""
    ring, rng = episode_ring(kind, blocks=blocks, frame_stack=frame_stack), np.random.default_rng(0)
    writers, cut = [Environments(block) for block in ring.blocks], 0
    for _ in range(40):
        writer = writers[rng.integers(blocks)]
        assert_same_in_host_memory(ring, 2)
        if rng.random() < 0.5:
            before, a = ring.rows.truncated.copy(), writer.answered
            writer.die(np.zeros((rng.integers(4), len(writer.columns)), np.int64))
            write(writer, rng)
            at = (a - 1) % ring.num_slots
            cut += int((ring.rows.truncated[at] & ~before[at]).sum())
        else:
            write(writer, rng)
        assert_same_in_host_memory(ring, 2)
    assert cut > 10


@EACH
@given(options=rings(), data=st.data())
def test_after_rows_are_restored_draws_are_of_them(
    kind: str, options: Any, data: st.DataObject, tmp_path_factory: Any
):
    """Also where as many rows were there before, of which the device had a copy."""
    saved, ring = random_ring("host", options), random_ring(kind, options)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for i, block in enumerate(saved.blocks):
        windows = [int(rng.integers(1, ring.horizon + 1)) for _ in range(rng.integers(1, 12))]
        advance(block, rng, *windows)
        advance(ring.blocks[i], rng, *windows)
    assert_same_in_host_memory(ring, 2)
    if data.draw(st.booleans()):
        folder = tmp_path_factory.mktemp("replay")
        Segments(folder, ring).load(Segments(folder, saved).save())
    else:
        ring.restore(saved.snapshot())
    copy_in_flight(saved, ring)
    starts, columns = all_items(saved, 2)
    if len(starts):
        there, here = ring.window(len(starts), 2), saved.window(len(starts), 2)
        assert ring.gather(there, starts, columns).all()
        saved.gather(here, starts, columns)
        first = starts > 0  # what is read before row 0 is nobody's
        pick = partial(tree_map, lambda x: x[:, first])
        assert same(pick(content(there)[:1]), pick(content(here)[:1]))
    assert_same_in_host_memory(ring, 2)
    for block in ring.blocks:
        advance(block, rng, ring.horizon)
    assert_same_in_host_memory(ring, 2)


@EACH
def test_a_ring_that_begins_anew_does_so_on_the_device(kind: str):
    ring, rng = episode_ring(kind), np.random.default_rng(0)
    (block,) = ring.blocks
    write(Environments(block), rng, 9)
    assert assert_same_in_host_memory(ring, 2)
    block.clear()
    writer = Environments(block)
    assert assert_same_in_host_memory(ring, 2) == 0
    while not assert_same_in_host_memory(ring, 2):
        write(writer, rng)


@EACH
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize(("length", "trained", "interval"), [(2, range(1), 1), (7, range(2, 5), 2)])
def test_equal_generators_draw_equal_batches(
    kind: str, prioritized: bool, length: int, trained: range, interval: int
):
    rings = [episode_ring(x, state_interval=interval) for x in ("host", kind)]
    writers = [Environments(ring.blocks[0]) for ring in rings]
    make: Any = partial(Prioritized, alpha=0.7) if prioritized else Uniform
    selectors = [make(ring, length, trained) for ring in rings]
    windows = [ring.window(16, length) for ring in rings]
    for seed in range(40):
        drawn, found = [], []
        for writer, selector, window in zip(writers, selectors, windows, strict=True):
            write(writer, np.random.default_rng(seed))
            if selector.ready:
                rng = np.random.default_rng(seed)
                drawn.append(selector.draw(window, rng, beta=0.5))
                selector.update(drawn[-1], rng.random(16))
                found.append(content(window))
        assert len(drawn) in (0, 2)
        if drawn:
            assert same(*[[x for x in each if x is not None] for each in drawn])
            assert same(*found)
    assert drawn


@EACH
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows_that_are_overwritten_while_they_are_copied_are_given_up(
    kind: str, blocks: int, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
):
    """A writer goes on after its counters were loaded, by up to more than the ring."""
    rng, kept, lost = np.random.default_rng(0), 0, 0
    for far, late in product((0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 30), (False, True)):
        options = {"blocks": blocks, "asynchronous": asynchronous, "frame_stack": 2}
        ring = episode_ring(kind, 8, **options)
        writers = [Environments(block) for block in ring.blocks]
        for writer in writers:
            write(writer, rng, 7)
        if far % 2:
            assert_same_in_host_memory(ring, 2)  # the device has a part of them by then
            for writer in writers:
                write(writer, rng, 2)
        starts, columns = all_items(ring, 2)
        there = ring.window(len(starts), 2)
        here = Ring.window(ring, len(starts), 2)
        Ring.gather(ring, here, starts, columns)
        wanted = content(here)
        work = iter([partial(write, writers[0], rng, far)])
        work_between(monkeypatch, ring, lambda work=work: next(work, lambda: None)(), late)
        whole = ring.gather(there, starts, columns)
        monkeypatch.undo()
        pick = partial(tree_map, lambda x, at=whole: x[:, at])
        assert same(pick(content(there)[:2]), pick(wanted[:2]))
        assert whole[ring.block_of[columns] > 0].all()
        kept, lost = kept + int(whole.sum()), lost + int((~whole).sum())
        assert ring.overtaken >= (~whole).sum()
    assert kept > 20 and lost > 20


def work_between(monkeypatch: Any, ring: Ring, work: Any, late: bool) -> None:
    """Have a writer work after a reader has loaded a counter, or (late) all that it loads."""
    if isinstance(ring, MirroredRing):
        ring._progress_there = b""  # look at the counters again
    place = (MirroredRing, "_copy") if late else (mirrored, "fence")
    if isinstance(ring, PinnedRing):
        place = pinned, "_take"
    original = getattr(*place)

    def after_work(*args: Any) -> Any:
        work()
        return original(*args)

    monkeypatch.setattr(*place, after_work)


@EACH
@pytest.mark.parametrize("prioritized", [False, True])
def test_items_that_were_overtaken_are_drawn_again(
    kind: str, prioritized: bool, monkeypatch: pytest.MonkeyPatch
):
    ring, rng = episode_ring(kind, asynchronous=True, blocks=2), np.random.default_rng(0)
    writers = [Environments(block) for block in ring.blocks]
    for writer in writers:
        write(writer, rng, 8)
    make: Any = partial(Prioritized, alpha=0.7) if prioritized else Uniform
    selector, window, gather, given = make(ring, 3, range(1)), ring.window(32, 3), ring.gather, []

    def overtaken(window: Any, starts: Any, columns: Any, items: Any = None) -> Any:
        whole = gather(window, starts, columns, items)
        given.append(len(starts))
        if len(given) < 4:
            whole[::2] = False
            write(writers[0], rng)
        return whole

    monkeypatch.setattr(ring, "gather", overtaken)
    drawn = selector.draw(window, rng)
    monkeypatch.undo()
    assert given == [32, 16, 8, 4]
    here = Ring.window(ring, 32, 3)
    assert Ring.gather(ring, here, drawn.starts, drawn.columns).all()
    assert same(content(window), content(here))


def test_what_was_copied_once_is_copied_no_more(monkeypatch: pytest.MonkeyPatch):
    ring, rng = episode_ring("device"), np.random.default_rng(0)
    assert isinstance(ring, MirroredRing)
    (block,) = ring.blocks
    writer, copied = Environments(block), []
    copy = MirroredRing._copy

    def counted(self: Any, columns: slice, begin: int, end: int) -> None:
        copied.append((begin, end))
        copy(self, columns, begin, end)

    monkeypatch.setattr(MirroredRing, "_copy", counted)
    ends = [0]
    for _ in range(30):
        write(writer, rng)
        for _ in range(3):
            ring.bring_up_to_date()
        ends.append(writer.answered)
    expected = [(-2, ends[1]), *((a - 1, b) for a, b in pairwise(ends[1:]))]
    assert copied == expected


def test_memory_that_is_not_to_be_had_is_told_with_its_size(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(mirrored, "like", refuse)
    with pytest.raises(Exception, match=r"takes [0-9,]+ bytes of cpu.*--replay-memory pinned"):
        episode_ring("device")


def test_control_the_rows_of_these_tests_have_leaves_of_every_width():
    assert {x.nbytes for x in tree_leaves(EXAMPLE)} >= {0, 1, 2, 4, 6, 8}
