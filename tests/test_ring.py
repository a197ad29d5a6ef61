"""The ring: exactly the last rows can be read, whoever writes, wherever it stops."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from interleavings import Stores, verdicts

from rlpyt import block as block_module
from rlpyt import ring as ring_module
from rlpyt import tree_format
from rlpyt.arrays import namedarraytuple, tree_leaves
from rlpyt.block import Block, fence
from rlpyt.errors import UsageError
from rlpyt.ring import Ring
from rlpyt.rows import Row
from rlpyt.storage import Memory

Observation = namedarraytuple("Observation", ["image", "count"])
READS = frozenset({"observation", "reward", "first", "previous_action"})
FLAG = np.zeros((), np.bool_)


def example() -> Row:
    return Row(
        observation=Observation(np.zeros((2, 3), np.uint8), np.zeros(2, np.float32)),
        reward=np.zeros((), np.float32),
        terminated=FLAG,
        truncated=FLAG,
        first=FLAG,
        cut=FLAG,
        action=np.zeros((), np.int64),
        info=np.zeros((), np.float32),
    )


def make(capacity: int = 8, num_envs: int = 3, horizon: int = 2, **options: Any) -> Ring:
    keeps = "state_interval" in options
    state = (torch.zeros(num_envs, 2), torch.zeros(num_envs, dtype=torch.int64)) if keeps else ()
    options = {"frame_stack": 3, **options}
    return Ring(example(), capacity, num_envs, horizon, reads=READS, state=state, **options)


class Writer:
    """Fills a block, one store at a time, with rows that have never been seen before.

    `log[n]` holds what row n should hold in each of the block's columns.
    """

    def __init__(self, block: Block, rng: np.random.Generator, ending: float = 0.3) -> None:
        self.block, self.rng, self.ending = block, rng, ending
        self.log: list[dict[str, np.ndarray]] = []
        self.width = block.columns.stop - block.columns.start
        self.arrived = 0

    def begin(self) -> None:
        """As the first writer, or in place of one that was killed."""
        a = self.block.answered
        del self.log[a:]
        first = np.ones(self.width, bool)
        self.block.begin(lambda row: [None for _ in self._arrive(row, first)])
        if a:
            last = self.log[a - 1]["terminated"] | self.log[a - 1]["truncated"]
            self.log[a]["cut"] = ~last

    def window(self, horizon: int) -> Iterator[None]:
        block, k = self.block, self.block.ring.state_interval
        a = block.reserve(horizon)
        yield
        for n in range(a, a + horizon):
            row = block.at(n).row
            entry = self.log[n]
            inputs = block.acting_inputs(n)
            columns = range(self.width)
            assert inputs.observation.image[:, :, 0, 0].tolist() == [
                stack(self.log, n, b, block.ring.frame_stack) for b in columns
            ]
            before = self.log[n - 1]["action"] if n else np.zeros(self.width, int)
            assert inputs.previous_action.tolist() == before.tolist()
            assert inputs.observation.count[:, 0].tolist() == entry["id"].tolist()
            if n % k == 0:
                for kept in tree_leaves(block.kept_state(n)):
                    kept.copy_(torch.from_numpy(entry["id"]).reshape(-1, *[1] * (kept.ndim - 1)))
                    yield
            entry["action"] = -entry["id"]
            row.action[:] = entry["action"]
            yield
            row.info[:] = entry["action"]
            yield from self._arrive(block.at(n + 1).row, entry["terminated"] | entry["truncated"])
        block.answer(horizon)
        if a:
            self.log[a - 1]["truncated"] |= self.log[a]["cut"]

    def run(self, *horizons: int) -> None:
        for horizon in horizons:
            for _ in self.window(horizon):
                pass

    def _arrive(self, row: Row, first: np.ndarray) -> Iterator[None]:
        self.arrived += 1
        ids = self.arrived * 16 + np.arange(self.width) + self.block.columns.start
        ends = ~first & (self.rng.random((2, self.width)) < self.ending)
        zero = np.zeros(self.width, bool)
        entry = {"id": ids, "terminated": ends[0], "truncated": ends[1], "first": first}
        self.log.append(entry | {"cut": zero, "action": np.zeros(self.width, int)})
        row.observation.image[:] = frame(ids)[:, None, None]
        yield
        row.observation.count[:] = ids[:, None]
        yield
        row.reward[:] = ids
        row.first[:], row.cut[:] = first, False
        yield
        row.terminated[:], row.truncated[:] = ends
        yield


def frame(ids: Any) -> Any:
    return ids % 251 + 1  # never the 0 of padding


def stack(log: list[dict[str, np.ndarray]], n: int, b: int, k: int) -> list[int]:
    """The last k frames of row n's episode, zeros before its first."""
    episode: list[int] = []
    for entry in log[n::-1]:
        episode.insert(0, int(frame(entry["id"][b])))
        if entry["first"][b]:
            break
    return ([0] * k + episode)[-k:]


def usable(ring: Ring, length: int) -> list[tuple[int, int]]:
    """(start, column) of every item that may be read, by the rules and one by one."""
    lo, answered = ring.bounds()
    return [
        (s, b)
        for i, block in enumerate(ring.blocks)
        for s in range(0, int(answered[i]) - length + 1, ring.state_interval)
        for b in range(block.columns.start, block.columns.stop)
        if s - ring.history >= lo[i]
    ]


def check(ring: Ring, writers: list[Writer], length: int) -> None:
    """Every item that may be read is what was written."""
    items = usable(ring, length)
    if not items:
        return
    starts, columns = np.array(items).T
    window = ring.window(len(items), length)
    assert ring.gather(window, starts, columns).all()
    compare(ring, window, starts, columns, writers)


def compare(ring: Ring, window: Any, starts: Any, columns: Any, writers: list[Writer]) -> None:
    rows, inputs = window.rows, window.inputs()
    owners = [(w, b) for w in writers for b in range(w.width)]
    for i, (s, column) in enumerate(zip(starts.tolist(), columns.tolist(), strict=True)):
        writer, b = owners[column]
        for t in range(len(rows.reward)):
            n = s + t
            entry = {name: values[b] for name, values in writer.log[n].items()}
            assert rows.observation.count[t, i].tolist() == [entry["id"]] * 2
            assert (rows.observation.image[t, i] == frame(entry["id"])).all()
            assert rows.info[t, i] == entry["action"] == rows.action[t, i]
            assert rows.reward[t, i] == entry["id"] == inputs.reward[t, i]
            for name in ("first", "cut", "terminated", "truncated"):
                assert getattr(rows, name)[t, i] == entry[name], (name, n)
            seen = inputs.observation.image[t, i].reshape(ring.frame_stack, -1)
            assert seen[:, 0].tolist() == stack(writer.log, n, b, ring.frame_stack)
            if n and not entry["first"]:
                assert inputs.previous_action[t, i] == writer.log[n - 1]["action"][b]
        for state in tree_leaves(window.kept_state(0)):
            assert (state[i] == writer.log[s]["id"][b]).all()


@st.composite
def rings(draw: Any) -> Ring:
    horizon, stack = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    capacity = max(horizon, stack) + draw(st.integers(0, 6))
    num_envs = draw(st.integers(1, 4))
    return make(
        capacity,
        num_envs,
        horizon,
        frame_stack=stack,
        state_interval=draw(st.integers(1, 4)),
        blocks=draw(st.integers(1, num_envs)),
        asynchronous=draw(st.booleans()),
        shared=draw(st.sampled_from([None, Memory()])),
    )


def writers_of(ring: Ring, seed: int = 0, ending: float = 0.3) -> list[Writer]:
    rng = np.random.default_rng(seed)
    writers = [Writer(block, rng, ending) for block in ring.blocks]
    for writer in writers:
        writer.begin()
    return writers


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
    gather, given = ring.gather, []

    def overtaken(window: Any, starts: Any, columns: Any, items: Any = None) -> Any:
        whole = gather(window, starts, columns, items)
        given.append(len(starts))
        if len(given) < 4:
            whole[::2] = False
            writers[0].run(2)
        return whole

    monkeypatch.setattr(ring, "gather", overtaken)
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


# The protocol: the reader's own code, with a writer at work between any two of its loads.


class Watched:
    """A ring's counters, as a reader that may be flawed loads them."""

    def __init__(self, counters: np.ndarray, before: Callable[[], None], flaw: str) -> None:
        self.counters, self.before, self.flaw = counters, before, flaw
        self.seen: np.ndarray | None = None

    def __getitem__(self, which: int) -> np.ndarray:
        self.before()
        loaded = self.counters[which].copy()
        if which == block_module.ANSWERED:
            self.seen = None
        elif self.flaw == "one counter":
            loaded = self.counters[block_module.ANSWERED].copy()
        elif self.flaw == "the row in flight not reserved":
            loaded -= 1
        elif self.flaw == "check before the gather":
            loaded = self.seen = loaded if self.seen is None else self.seen
        return loaded


FLAWS = ("the row in flight not reserved", "one counter", "check before the gather")


def read_while_writing(patch: pytest.MonkeyPatch, seed: int, flaw: str) -> tuple[int, int, int]:
    """How many items were kept, of these torn, and how many were given up."""
    rng = np.random.default_rng(seed)
    horizon = int(rng.integers(1, 3))
    options = {"frame_stack": 2, "state_interval": 1, "blocks": 2, "asynchronous": seed % 3 == 0}
    ring = make(3, 2, horizon, **options)
    writers = writers_of(ring, seed, 0.1)

    def forever(writer: Writer) -> Iterator[None]:
        while True:
            yield from writer.window(horizon)

    stores = [forever(writer) for writer in writers]
    kept = torn = given_up = 0

    def before() -> None:
        if rng.random() < 0.1:  # now and then a few stores, or many, between two loads
            for _ in range(rng.geometric(rng.choice([0.05, 0.4]))):
                next(stores[rng.integers(2)])

    for _ in range(100):
        before()
    copy = ring_module._copy

    def copy_row_by_row(at: np.ndarray, items: Any) -> Callable[[np.ndarray, Any], None]:
        def run(storage: np.ndarray, out: Any) -> None:
            for t in range(len(at)):
                for name in storage.dtype.names or (...,):  # fields that lie side by side
                    before()
                    copy(at[t : t + 1], items)(storage[name], out[t : t + 1][name])

        return run

    ring._counters = Watched(ring._counters, before, flaw)
    window = ring.window(1, 2)
    with patch.context() as patched:
        patched.setattr(ring_module, "_copy", copy_row_by_row)
        for _ in range(20):
            if not ring.starts(2)[1].any():
                continue
            try:
                starts, columns = ring.choose(1, 2, rng)
            except RuntimeError:  # the few rows there are were dead, or out of reach by now
                continue
            if not ring.gather(window, starts, columns).all():
                given_up += 1
                continue
            kept += 1
            try:
                compare(ring, window, starts, columns, writers)
            except AssertionError:
                torn += 1
    return kept, torn, given_up


def test_items_that_are_kept_are_whole_whatever_is_written_between_two_loads(monkeypatch):
    results = [read_while_writing(monkeypatch, seed, "") for seed in range(30)]
    kept, torn, given_up = np.array(results).sum(0)
    assert torn == 0 and kept > 100 and given_up > 10


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flawed_reader_keeps_torn_items(monkeypatch, flaw):
    assert any(read_while_writing(monkeypatch, seed, flaw)[1] for seed in range(30))


# The protocol as a model, under every interleaving.

WORDS = ("arrived", "arrived too", "answered")  # a row in the model
BEGIN: dict[Any, Any] = {"reserved": 1, "answered": 0}
VERDICTS = {"kept", "torn", "overtaken", "nothing there"}


def writers_stores(
    horizon: int, num_slots: int, windows: int, late: int, killed: int | None, ahead: int
) -> Stores:
    """Stores in order, as place and value; a row's words are (row, writer).

    Args:
        late: how many stores of the row in flight come after its window was published.
        killed: the store at which another writer takes over.
        ahead: rows in flight that are reserved.
    """
    stores: Stores = []
    memory: dict[Any, Any] = dict(BEGIN)

    def arrive(n: int, writer: int) -> Stores:
        return [((word, n % num_slots), (n, writer)) for word in WORDS[:2]]

    def write(writer: int) -> None:
        stores.extend(arrive(memory["answered"], writer))
        while memory["answered"] < windows * horizon:
            a = memory["answered"]
            new: Stores = [("reserved", max(memory["reserved"], a + horizon + ahead))]
            for n in range(a, a + horizon):
                new += [((WORDS[2], n % num_slots), (n, writer)), *arrive(n + 1, writer)]
            new.insert(len(new) - late, ("answered", a + horizon))
            stores.extend(new)
            memory.update(new)

    write(0)
    if killed is not None:
        del stores[killed:]
        memory = BEGIN | dict(stores)
        write(1)
    return stores


def reader(
    num_slots: int, capacity: int, margin: int, rows_up: tuple[int, ...], flaw: str
) -> Callable[[tuple[Any, ...]], Any]:
    """A reader of the rows lo + i, i in `rows_up`, in this order."""
    reserved = "answered" if flaw == "one counter" else "reserved"

    def read(loaded: tuple[Any, ...]) -> Any:
        if len(loaded) < 2:
            return ("answered", reserved)[len(loaded)]
        answered, announced, *values = loaded
        lo = max(announced - num_slots + margin, answered - capacity, 0)
        rows = [lo + i for i in rows_up]
        if max(rows) >= answered:
            return "nothing there"
        words = [(word, n % num_slots) for n in rows for word in WORDS]
        check_at = 0 if flaw == "check before the gather" else len(words)
        loads = [*words[:check_at], reserved, *words[check_at:]]
        if len(values) < len(loads):
            return loads[len(values)]
        if min(rows) < values.pop(check_at) - num_slots:
            return "overtaken"
        found = [set(values[i : i + len(WORDS)]) for i in range(0, len(values), len(WORDS))]
        whole = all(row in ({(n, 0)}, {(n, 1)}) for n, row in zip(rows, found, strict=True))
        return "kept" if whole else "torn"

    return read


def explore(flaw: str = "", kills: bool = False) -> set[str]:
    found: set[str] = set()
    for horizon, margin, late in itertools.product((1, 2), (0,) if kills else (0, 1), (0, 1, 2)):
        num_slots = 2 + 1 + (horizon + margin if margin else 0)
        ahead = 0 if flaw == FLAWS[0] else 1
        setting = horizon, num_slots, 2 * num_slots // horizon + 1, late
        stores = writers_stores(*setting, None, ahead)
        for killed in [None, *range(3, len(stores), 2)] if kills else [None]:
            stores = writers_stores(*setting, killed, ahead)
            for rows_up in ((0, 1), (1, 0)):
                read = reader(num_slots, 2, margin, rows_up, flaw)
                found |= verdicts(stores, read, VERDICTS, BEGIN.get)
    return found


@pytest.mark.parametrize("kills", [False, True])
def test_no_interleaving_of_writers_and_reader_keeps_a_torn_item(kills):
    assert explore(kills=kills) == VERDICTS - {"torn"}


@pytest.mark.parametrize("flaw", FLAWS)
def test_some_interleaving_of_a_flawed_protocol_keeps_a_torn_item(flaw):
    assert "torn" in explore(flaw)


# The protocol between processes.

FACTORS = np.arange(1, 17, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15 % 2**59)


def sums(n: Any, column: Any) -> Any:
    """What a row of a column observes: [..., 8], of which no other row has any."""
    return np.asarray(n * 64 + column, np.uint64)[..., None] * FACTORS


def write_forever(block: Block, horizon: int, seed: int) -> None:
    """The life of a writer process; killed from outside."""
    rng = np.random.default_rng(seed)
    columns = np.arange(block.columns.start, block.columns.stop)

    def arrive(row: Row, n: int, first: Any) -> None:
        row.observation[:] = sums(n, columns)
        row.reward[:] = n % 1000
        row.first[:] = first
        row.truncated[:] = ~row.first & (rng.random(len(columns)) < 0.05)
        row.cut[:] = False

    block.begin(lambda row: arrive(row, block.answered, True))
    while True:
        for n in range(a := block.reserve(horizon), a + horizon):
            row = block.at(n).row
            row.action[:] = n * 64 + columns
            arrive(block.at(n + 1).row, n + 1, row.last)
        block.answer(horizon)


def start_writer(block: Block, horizon: int, seed: int) -> int:
    pid = os.fork()
    if not pid:
        try:
            os.nice(5)
            write_forever(block, horizon, seed)
        finally:
            os._exit(1)
    return pid


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL  # no error of its own


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_writes_and_is_killed_leaves_no_torn_row_to_another_that_reads():
    row = example().replace(observation=np.zeros(8, np.uint64), info=())
    ring = Ring(row, 40, 4, 3, blocks=2, asynchronous=True, shared=Memory())
    window, rng = ring.window(16, 4), np.random.default_rng(0)
    writers = [start_writer(block, 3, i) for i, block in enumerate(ring.blocks)]
    deadline, reads, kills = time.monotonic() + 1, 0, 0
    try:
        while not ring.starts(4)[1].all():
            assert time.monotonic() < deadline + 20
            time.sleep(0.001)
        while time.monotonic() < deadline or reads < 100:
            starts, columns = ring.draw(window, rng)
            n = starts + np.arange(4)[:, None]
            rows = window.rows
            assert np.array_equal(rows.observation, sums(n, columns))
            assert np.array_equal(rows.reward, n % 1000)
            assert np.array_equal(rows.action, n * 64 + columns)
            assert np.array_equal(rows.first[1:], rows.last[:-1])
            assert not (rows.cut[1:] & ~rows.truncated[:-1]).any()
            reads += 1
            if reads % 100 == 0 and kills < 10:
                i, kills = kills % 2, kills + 1
                stop(writers.pop(i))
                writers.insert(i, start_writer(ring.blocks[i], 3, kills))
        assert kills
        starts, columns = ring.choose(16, 4, rng)
        passed = [block.answered + 2 * ring.num_slots for block in ring.blocks]
        while any(b.answered < n for b, n in zip(ring.blocks, passed, strict=True)):
            assert time.monotonic() < deadline + 60
            time.sleep(0.001)
        assert not ring.gather(window, starts, columns).any()  # and rightly so:
        assert not np.array_equal(window.rows.action[0], starts * 64 + columns)
    finally:
        for pid in writers:
            stop(pid)
