"""A ring that is read while it is written: what is kept is whole, whatever happens in between.

First by the reader's own code with a writer at work between its loads, then by a model of the
protocol under every interleaving, last by processes that are killed.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from interleavings import Stores, verdicts
from written_rings import Writer, compare, example, make, writers_of

from rlpyt import block as block_module
from rlpyt import ring as ring_module
from rlpyt.block import Block
from rlpyt.ring import Ring
from rlpyt.rows import Row
from rlpyt.storage import Memory


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
