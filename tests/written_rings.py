"""Rings whose writers note what they wrote, and what every read of them is compared with."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from rlpyt.arrays import namedarraytuple, tree_leaves
from rlpyt.block import Block
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
