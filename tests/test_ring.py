"""The ring: exactly the last rows can be read, whoever writes, wherever it stops."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from overtaken import overtaken
from written_rings import check, compare, example, make, rings, usable, writers_of

from rlpyt import block as block_module
from rlpyt import tree_format
from rlpyt.arrays import tree_leaves
from rlpyt.block import fence
from rlpyt.errors import UsageError
from rlpyt.ring import Ring
from rlpyt.storage import Memory


@given(rings(), st.data())
def test_what_can_be_read_is_exactly_the_last_rows_answered_as_they_were_written(ring, data):
    assert all(block.reserved > block.answered for block in ring.blocks)
    writers = writers_of(ring, data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, 12))):
        writer = data.draw(st.sampled_from(writers))
        writer.run(data.draw(st.integers(1, ring.horizon)))
        assert all(block.reserved > block.answered for block in ring.blocks)
        lo, answered = ring.bounds()
        assert (lo == answered - ring.capacity).all()
        assert answered.tolist() == [len(w.log) - 1 for w in writers]
    needed = ring.capacity + 1 + (5 * ring.horizon if ring.margin else 0)
    assert needed <= ring.num_slots < needed + ring.state_interval
    assert ring.num_slots % ring.state_interval == 0
    check(ring, writers, data.draw(st.integers(2, 4)))


@given(rings(), st.integers(1, 5), st.data())
def test_the_starts_of_items_are_those_whose_rows_and_history_can_be_read(ring, length, data):
    writers = writers_of(ring)
    for _ in range(data.draw(st.integers(1, 9))):
        data.draw(st.sampled_from(writers)).run(data.draw(st.integers(1, ring.horizon)))
    first, counts = ring.starts(length)
    k, expected = ring.state_interval, usable(ring, length)
    assert expected == [
        (s, b)
        for i, block in enumerate(ring.blocks)
        for s in range(first[i], first[i] + k * counts[i], k)
        for b in range(block.columns.start, block.columns.stop)
    ]


class EachOnce:
    """In place of a generator: each number below `high` once, then from the first again."""

    def integers(self, high: int, size: int) -> np.ndarray:
        return np.arange(size) % high


def test_every_start_of_every_column_is_drawn_with_the_same_probability():
    ring = make(9, 5, 2, blocks=3)
    writers = writers_of(ring, ending=0)
    for writer, windows in zip(writers, (1, 3, 7), strict=True):
        writer.run(*[2] * windows)
    expected = usable(ring, 2)
    assert {b for _, b in expected} == set(range(5))
    starts, columns = ring.choose(len(expected), 2, EachOnce())
    assert sorted(zip(starts.tolist(), columns.tolist(), strict=True)) == sorted(expected)


def test_dead_rows_are_drawn_again_and_live_ones_are_all_drawn():
    ring = make(20, 3, 4, blocks=2)
    writers = writers_of(ring, ending=0.4)
    for writer in writers:
        writer.run(*[4] * 8)
    rng = np.random.default_rng(0)
    for trained in (range(1), range(1, 3)):
        starts, columns = ring.choose(3000, 4, rng, trained)
        last = ring.rows.last
        live = {
            (s, b)
            for s, b in usable(ring, 4)
            if not all(last[(s + i) % ring.num_slots, b] for i in trained)
        }
        assert set(zip(starts.tolist(), columns.tolist(), strict=True)) == live


def test_choosing_ends_where_nothing_can_be_chosen():
    ring = make()
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="collect more"):
        ring.choose(1, 2, rng)
    (writer,) = writers_of(ring)
    writer.run(2, 2, 2)
    ring.rows.truncated[:] = True
    with pytest.raises(RuntimeError, match="live"):
        ring.choose(1, 2, rng)


def test_items_that_were_overtaken_are_drawn_again_and_the_others_kept(monkeypatch):
    ring = make(20, 3, 2, blocks=2, state_interval=2, asynchronous=True)
    writers = writers_of(ring)
    for writer in writers:
        writer.run(*[2] * 8)
    given = overtaken(ring, monkeypatch, lambda: writers[0].run(2))
    window = ring.window(32, 3)
    starts, columns = ring.draw(window, np.random.default_rng(0))
    assert given == [32, 16, 8, 4]
    compare(ring, window, starts, columns, writers)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_item_is_given_up_when_a_row_in_the_slot_of_its_oldest_one_is_announced(asynchronous):
    ring = make(8, 1, 2, asynchronous=asynchronous)
    (writer,) = writers_of(ring)
    writer.run(*[2] * 20)
    window, (block,) = ring.window(1, 2), ring.blocks
    seen = set()
    for start, column in usable(ring, 2):
        oldest = start - 2  # two rows of history
        for reserved in range(block.reserved, block.reserved + 2 * ring.num_slots):
            ring._counters[block_module.RESERVED] = reserved
            announced = [
                n for n in range(oldest + 1, reserved) if (n - oldest) % ring.num_slots == 0
            ]
            whole = ring.gather(window, np.array([start]), np.array([column]))
            assert whole.tolist() == [not announced]
            seen.add(bool(announced))
        ring._counters[block_module.RESERVED] = block.answered + 1
    assert seen == {False, True}


@pytest.mark.parametrize("shared", [None, Memory()])
def test_memory_is_taken_as_rows_are_written_and_cleared_where_they_were(shared):
    """It took the whole of a large replay, and some seconds, before the first step."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("resident memory is read from /proc/self/statm, which Linux alone has")
    pages, capacity = 4096, 2_000_000  # 30 MB of rewards, answers and flags
    ring = make(capacity, 1, 2, shared=shared)
    before = int(statm.read_text().split()[1])
    ring.blocks[0].clear()
    assert (int(statm.read_text().split()[1]) - before) * pages < 5e6
    (writer,) = writers_of(ring)
    writer.run(2, 2)
    assert ring.rows.reward.any()
    ring.blocks[0].clear()
    assert not any(leaf.any() for leaf in tree_leaves(ring.rows))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("windows", [1, 3, 9])
def test_a_writer_killed_at_any_point_costs_readers_a_window_at_most(asynchronous, windows):
    horizon, point = 2, 0
    for point in itertools.count():
        ring = make(6, 2, horizon, state_interval=2, asynchronous=asynchronous)
        (writer,) = writers_of(ring)
        writer.run(*[horizon] * windows)
        steps = writer.window(horizon)
        if sum(1 for _ in itertools.islice(steps, point)) < point:
            break
        lo, answered = ring.bounds()
        assert lo[0] <= answered[0] - ring.capacity + (0 if asynchronous else horizon + 1)
        check(ring, [writer], 2)
        for again in range(3):  # one that begins and dies, one that answers, one that goes on
            writer.begin()
            check(ring, [writer], 2)
            writer.run(*[1] * again)
            check(ring, [writer], 2)
        cut = [entry["cut"].any() for entry in writer.log]
        assert cut[: windows * horizon].count(True) == 0
        last = ring.rows.last
        for n in range(max(ring.bounds()[0][0], 0), ring.bounds()[1][0] - 1):
            at, after = n % ring.num_slots, (n + 1) % ring.num_slots
            assert np.array_equal(last[at], ring.rows.first[after])
            assert not (ring.rows.cut[after] & ~ring.rows.truncated[at]).any()
    assert point > 10


def test_a_cut_is_kept_by_a_writer_that_dies_before_it_answers():
    ring = make()
    (writer,) = writers_of(ring, ending=0)
    writer.run(2)
    for _ in range(3):  # environments that fail again and again
        writer.begin()
        next(writer.window(2))
    assert ring.blocks[0].at(2).row.cut.all() and not ring.blocks[0].at(1).row.last.any()
    writer.run(2)
    assert ring.blocks[0].at(1).row.truncated.all()


def test_a_short_window_after_a_killed_one_does_not_take_its_announcement_back():
    ring = make(8, 1, 4)
    (writer,) = writers_of(ring)
    writer.run(4, 4, 4)
    for _ in writer.window(4):
        if len(writer.log) == 17:
            break
    writer.begin()
    writer.run(1)
    assert ring.blocks[0].reserved == 17  # rows 13 .. 16 overwrote 4 .. 7
    check(ring, [writer], 2)


def test_rows_that_were_not_reserved_cannot_be_published():
    ring = make()
    (writer,) = writers_of(ring)
    with pytest.raises(RuntimeError, match="not reserved"):
        writer.block.answer(1)
    with pytest.raises(ValueError, match="window of 3"):
        writer.block.reserve(3)


@given(rings(), st.data())
def test_a_restored_ring_goes_on_like_the_one_that_was_saved(ring, data):
    writers = writers_of(ring)
    for _ in range(data.draw(st.integers(1, 12))):
        data.draw(st.sampled_from(writers)).run(data.draw(st.integers(1, ring.horizon)))
    if data.draw(st.booleans()):
        for _ in itertools.islice(writers[0].window(1), data.draw(st.integers(1, 5))):
            pass
        del writers[0].log[ring.blocks[0].answered + 1 :]
    saved = tree_format.decode(*tree_format.encode(ring.snapshot()))
    other = like(ring, ring.capacity)
    other.restore(saved)
    assert [x.tolist() for x in other.bounds()] == [x.tolist() for x in ring.bounds()]
    for block, twin in zip(ring.blocks, other.blocks, strict=True):
        flight, restored = block.at(block.answered).row, twin.at(block.answered).row
        assert np.array_equal(flight.observation.image, restored.observation.image)
    check(other, writers, 2)
    if usable(ring, 2):
        drawn = []
        for each in (ring, other):
            window = each.window(5, 2)
            drawn.append((each.draw(window, np.random.default_rng(1), range(2)), window))
        (chosen, window), (again, twin) = drawn
        assert np.array_equal(chosen, again)
        pairs = zip(tree_leaves(window.rows), tree_leaves(twin.rows), strict=True)
        assert all(np.array_equal(x, y) for x, y in pairs)
    for writer, block in zip(writers, other.blocks, strict=True):
        writer.block = block
        writer.run(ring.horizon)
    check(other, writers, 2)


def like(ring: Ring, capacity: int) -> Ring:
    return make(
        capacity,
        ring.num_envs,
        ring.horizon,
        frame_stack=ring.frame_stack,
        state_interval=ring.state_interval,
        blocks=len(ring.blocks),
        asynchronous=ring.margin > 0,
    )


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("capacity", [5, 12, 30])
@pytest.mark.parametrize("windows", [1, 4, 20])
def test_a_ring_of_another_capacity_takes_up_what_it_can_hold(capacity, windows, asynchronous):
    ring = make(12, 2, 2, state_interval=3, asynchronous=asynchronous)
    (writer,) = writers_of(ring)
    writer.run(*[2] * windows)
    other = like(ring, capacity)
    other.restore(ring.snapshot())
    writer.block = other.blocks[0]
    for more in range(20):
        answered = 2 * (windows + more)
        there = min(answered, capacity, 12 + 2 * more)  # rows
        assert max(other.bounds()[0][0], 0) == answered - there
        check(other, [writer], 2)
        writer.run(2)


def test_a_ring_of_other_blocks_is_refused_by_name():
    with pytest.raises(UsageError, match=r"blocks of \[3\] environments, this one of \[1, 2\]"):
        make(blocks=2).restore(make().snapshot())


def test_a_capacity_without_room_for_a_window_or_a_stack_is_refused():
    with pytest.raises(UsageError, match="at least 12 rows"):
        make(3, 3, 4)
    with pytest.raises(UsageError, match="at least 15 rows"):
        make(4, 3, 4, frame_stack=5)
    with pytest.raises(UsageError, match="choose 1 to 3"):
        make(blocks=4)


def test_what_is_looked_at_for_nan_is_the_answer_where_it_lies():
    """Several numbers of several columns, flattened, would be a copy made before the answer."""
    ring = Ring(example().replace(action=np.zeros(2, np.float32)), 8, 3, 2)
    row, floats = ring.blocks[0].at(1)
    row.action[:] = 7.0
    assert [leaf.tolist() for leaf in floats] == [[[7.0, 7.0]] * 3]


def test_counters_lie_on_cache_lines_of_their_own():
    ring = make(num_envs=3, blocks=3, shared=Memory())
    for block, name in itertools.product(ring.blocks, (0, 1)):
        assert block._counters[name : name + 1].ctypes.data % 64 == 0
    (stride, across) = ring._counters.strides
    assert across == 64 and stride == 64 * 3


def test_a_fence_of_locks_ends(monkeypatch):
    monkeypatch.setattr(block_module, "_STORES_IN_ORDER", False)
    fence()
