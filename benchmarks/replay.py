"""Prioritized replay of a million transitions, ours and theirs; prints one JSON object.

    sample   a draw of 32, 256 or 512 with its rows and weights, and the update of its priorities
    tree     the search and the update in the sum tree alone

Each library is a process of its own. The rows are CartPole's: 4 numbers and an action. A time is
the least over many short runs, so that another process on the same core does not count. Peers live
in an environment of their own: --peers PYTHON is its interpreter (tianshou and torchrl installed
there, with PyTorch).

usage: replay.py [tianshou torchrl] --peers ~/peers/bin/python
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

ROWS, ENVS, HORIZON = 1_000_000, 8, 4
BATCHES = (32, 256, 512)
ALPHA, BETA = 0.6, 0.4
Operations = Iterator[tuple[str, int, Callable[[np.ndarray], object]]]


def ours() -> Operations:
    from rlpyt.replays.prioritized import Prioritized
    from rlpyt.replays.sum_tree import SumTree
    from rlpyt.ring import Ring
    from rlpyt.rows import Row

    rng, flag = np.random.default_rng(0), np.zeros((), np.bool_)
    number, state = np.zeros((), np.float32), np.zeros(4, np.float32)
    row = Row(state, number, flag, flag, flag, flag, np.zeros((), np.int64))
    ring = Ring(row, ROWS // ENVS, ENVS, HORIZON)
    ring.rows.observation[:] = rng.random(ring.rows.observation.shape)
    ring.rows.reward[:], ring.rows.action[:] = 1, 1
    for leaf in (ring.rows.terminated, ring.rows.truncated, ring.rows.first, ring.rows.cut):
        leaf[:] = False  # touched, so that it is memory
    (block,) = ring.blocks
    while block.answered < ring.capacity:
        block.reserve(HORIZON)
        block.answer(HORIZON)
    selector = Prioritized(
        ring, 2, range(1), ALPHA, entry=lambda starts, _: rng.random(len(starts)) + 0.01
    )
    assert selector.ready
    for batch in BATCHES:
        window, generator = ring.window(batch, 2), np.random.default_rng(0)

        def sample(priority: np.ndarray, window=window, generator=generator) -> None:
            drawn = selector.draw(window, generator, BETA)
            window.inputs()
            selector.update(drawn, priority)

        yield "sample", batch, sample
    tree = SumTree(ROWS)
    tree.set_range(0, rng.random(ROWS) + 0.01)

    def tree_alone(priority: np.ndarray) -> None:
        mass = (np.arange(len(priority)) + rng.random(len(priority))) / len(priority)
        tree.set(tree.find(mass * tree.total), priority)

    yield from (("tree", batch, tree_alone) for batch in BATCHES)


def tianshou() -> Operations:
    from tianshou.data import PrioritizedReplayBuffer, ReplayBuffer, SegmentTree

    rng = np.random.default_rng(0)
    state, no = rng.random((ROWS, 4)).astype(np.float32), np.zeros(ROWS, np.bool_)
    one = np.ones(ROWS, np.int64)
    rows = ReplayBuffer.from_data(
        state, one, one.astype(np.float32), no, no.copy(), no.copy(), state.copy()
    )
    buffer = PrioritizedReplayBuffer(ROWS, alpha=ALPHA, beta=BETA)
    buffer.update(rows)
    buffer.update_weight(np.arange(ROWS), rng.random(ROWS) + 0.01)
    for batch in BATCHES:

        def sample(priority: np.ndarray, batch=batch) -> None:
            _, index = buffer.sample(batch)
            buffer.update_weight(index, priority)

        yield "sample", batch, sample
    tree = SegmentTree(ROWS)
    tree[np.arange(ROWS)] = rng.random(ROWS) + 0.01

    def tree_alone(priority: np.ndarray) -> None:
        mass = rng.random(len(priority)) * tree.reduce()
        tree[tree.get_prefix_sum_idx(mass)] = priority

    yield from (("tree", batch, tree_alone) for batch in BATCHES)


def torchrl() -> Operations:
    import torch
    from tensordict import TensorDict
    from torchrl._torchrl import SumSegmentTreeFp32  # the one its sampler takes
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for batch in BATCHES:
        buffer = TensorDictPrioritizedReplayBuffer(
            alpha=ALPHA,
            beta=BETA,
            storage=LazyTensorStorage(ROWS),
            batch_size=batch,
            priority_key="td_error",
        )
        state, no = torch.rand(ROWS, 4), torch.zeros(ROWS, dtype=torch.bool)
        rows = {"obs": state, "act": torch.ones(ROWS, dtype=torch.long), "reward": torch.ones(ROWS)}
        rows |= {"next_obs": state.clone(), "terminated": no, "truncated": no.clone()}
        buffer.extend(TensorDict(rows, [ROWS]))
        error = torch.rand(ROWS) + 0.01
        buffer.update_priority(torch.arange(ROWS), error)

        def sample(priority: np.ndarray, buffer=buffer) -> None:
            drawn = buffer.sample()
            drawn["td_error"] = torch.from_numpy(priority)
            buffer.update_tensordict_priority(drawn)

        yield "sample", batch, sample
        del buffer
    tree = SumSegmentTreeFp32(ROWS)
    tree[torch.arange(ROWS)] = torch.rand(ROWS) + 0.01

    def tree_alone(priority: np.ndarray) -> None:
        mass = rng.random(len(priority)) * tree.query(0, ROWS)
        tree[tree.scan_lower_bound(mass)] = priority

    yield from (("tree", batch, tree_alone) for batch in BATCHES)


LIBRARIES = {"ours": ours, "tianshou": tianshou, "torchrl": torchrl}


def microseconds(run: Callable[[np.ndarray], object], batch: int, seconds: float) -> float:
    """The least time of a run, over fives of them."""
    rng = np.random.default_rng(1)
    priorities = itertools.cycle([(rng.random(batch) + 0.01).astype(np.float32) for _ in range(64)])
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(5):
            run(next(priorities))
        best = min(best, time.perf_counter() - begun)
    return round(best / 5 * 1e6, 1)


def measure(library: str, seconds: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for what, batch, run in LIBRARIES[library]():
        found.setdefault(what, {})[str(batch)] = microseconds(run, batch, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", nargs="*", default=["tianshou", "torchrl"])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--measure", choices=LIBRARIES, help="this one, in this process")
    a = parser.parse_args()
    if a.measure:
        print(json.dumps(measure(a.measure, a.seconds)))
        return
    best: dict[str, dict[str, dict[str, float]]] = {}
    for _, library in itertools.product(range(a.rounds), ["ours", *a.peer]):
        python = sys.executable if library == "ours" else a.peers
        command = [python, __file__, "--measure", library, "--seconds", str(a.seconds)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        for what, times in json.loads(done.stdout.splitlines()[-1]).items():
            kept = best.setdefault(library, {}).setdefault(what, times)
            kept.update({batch: min(kept[batch], us) for batch, us in times.items()})
    ratio = {
        peer: {
            what: {batch: round(times[batch] / best["ours"][what][batch], 2) for batch in times}
            for what, times in best[peer].items()
        }
        for peer in a.peer
    }
    print(json.dumps({"comparison": "replay", "microseconds": best, "ratio": ratio}))


if __name__ == "__main__":
    main()
