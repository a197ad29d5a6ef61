"""Draws of Atari rows onto a GPU, from each of the memories a replay can be read in; prints JSON.

    transitions   32 of two rows, four frames stacked (DQN)
    sequences     64 of 125 rows with the states of an LSTM of 512 (R2D1)

For each `replay_memory`, in microseconds:

    draw     from the choice of items to the last byte on the device, nothing else being done there
    host     how long the process is busy with it while the device is, with a product of matrices
    window   4 rows of 32 environments brought to the device's copy (memory `device` alone)

Before anything is timed the batches are compared with those of host memory, drawn in a row while
the device lags behind: `equal` must be true.

usage: replay_device.py [--rows 200000] [--seconds 2] [--device cuda]
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import ring_of
from rlpyt.replays.pinned import PinnedRing
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring
from rlpyt.rows import Row
from rlpyt.storage import to_device

ENVS, HORIZON, STACK, MEMORY = 32, 4, 4, 512
CASES = {"transitions": (32, 2, range(1), 1), "sequences": (64, 125, range(40, 120), 40)}
MEMORIES = ("host", "pinned", "device")
LAG = 4096  # size of the matrices that keep the device busy


def filled(memory: str, device: torch.device, rows: int, interval: int) -> Ring:
    """A full ring of random frames: the same for each memory."""
    flag, number = np.zeros((), np.bool_), np.zeros((), np.float32)
    frame = np.zeros((84, 84), np.uint8)
    example = Row(frame, number, flag, flag, flag, flag, np.zeros((), np.int64))
    recurrent = interval > 1
    pinned_by_force = memory == "pinned" and device.type != "cuda"
    make: Any = PinnedRing if pinned_by_force else ring_of(memory, device)
    ring = make(
        example,
        rows // ENVS,
        ENVS,
        HORIZON,
        **({"device": device} if pinned_by_force else {}),
        reads=frozenset({"observation", "first", "previous_action", "reward"}),
        frame_stack=STACK,
        state=(torch.zeros(ENVS, MEMORY), torch.zeros(ENVS, MEMORY)) if recurrent else (),
        state_interval=interval,
    )
    rng = np.random.default_rng(0)
    for row in range(ring.num_slots):  # by rows: the whole ring at once would take as much again
        ring.rows.observation[row] = rng.integers(0, 256, (ENVS, 84, 84), np.uint8)
    ring.rows.reward[:] = rng.random(ring.rows.reward.shape)
    ring.rows.action[:] = rng.integers(0, 18, ring.rows.action.shape)
    ring.rows.first[:] = rng.random(ring.rows.first.shape) < 0.01
    ring.rows.terminated[:] = ring.rows.truncated[:] = ring.rows.cut[:] = False
    for leaf in tree_leaves(ring.states):
        leaf[:] = rng.random(leaf.shape)
    advance(ring, ring.capacity)
    return ring


def advance(ring: Ring, rows: int) -> None:
    for _ in range(0, rows, HORIZON):
        ring.blocks[0].reserve(HORIZON)
        ring.blocks[0].answer(HORIZON)


def reader(ring: Ring, case: str, device: torch.device) -> Callable[[], Any]:
    """Makes a draw, and gives what an algorithm reads of it, on the device."""
    items, length, trained, _ = CASES[case]
    selector, window = Uniform(ring, length, trained), ring.window(items, length)
    generator = np.random.default_rng(1)

    def read() -> Any:
        selector.draw(window, generator)
        rows = window.tensors
        small = rows.action, rows.reward, rows.terminated, rows.truncated
        return to_device((window.inputs(), small, window.kept_state(0)), device)

    return read


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def batches(ring: Ring, case: str, device: torch.device, count: int = 8) -> list[Any]:
    """Copies of draws that follow each other without a pause, the device being busy at first."""
    read, matrix = reader(ring, case, device), torch.ones(64, 64, device=device)
    if device.type == "cuda":
        matrix = torch.ones(LAG, LAG, device=device)
    for _ in range(10):
        matrix = matrix @ matrix * 0
    found = [tree_map(torch.clone, read()) for _ in range(count)]
    synchronize(device)
    return [tree_map(lambda x: x.cpu(), batch) for batch in found]


def median(run: Callable[[], float], seconds: float) -> float:
    """Microseconds: of many runs, after a few that do not count."""
    for _ in range(5):
        run()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        times.append(run())
    return round(float(np.median(times)) * 1e6, 1)


def measure(ring: Ring, case: str, device: torch.device, seconds: float) -> dict[str, float]:
    read = reader(ring, case, device)
    matrix = torch.ones(LAG if device.type == "cuda" else 64, device=device).diag()

    def draw() -> float:
        synchronize(device)
        begun = time.perf_counter()
        read()
        synchronize(device)
        return time.perf_counter() - begun

    def host() -> float:
        synchronize(device)
        matrix.matmul(matrix)
        begun = time.perf_counter()
        read()
        return time.perf_counter() - begun

    def window() -> float:
        advance(ring, HORIZON)
        synchronize(device)
        begun = time.perf_counter()
        ring.bring_up_to_date()
        synchronize(device)
        return time.perf_counter() - begun

    found = {"draw": median(draw, seconds), "host": median(host, seconds)}
    if hasattr(ring, "bring_up_to_date"):
        found["window"] = median(window, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    device = torch.device(a.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA GPU here; --device cpu only shows that the script runs")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    result: dict[str, Any] = {"benchmark": "replay_device", "device": name, "rows": a.rows}
    result |= {"torch": torch.__version__, "microseconds": {}, "equal": True}
    for case, (_, _, _, interval) in CASES.items():
        expected = None
        for memory in MEMORIES:
            ring = filled(memory, device, a.rows, interval)
            drawn = batches(ring, case, device)
            expected = drawn if expected is None else expected
            pairs = zip(tree_leaves(expected), tree_leaves(drawn), strict=True)
            result["equal"] &= all(torch.equal(x, y) for x, y in pairs)
            times = measure(ring, case, device, a.seconds)
            result["microseconds"].setdefault(case, {})[memory] = times
            del ring
    print(json.dumps(result))


if __name__ == "__main__":
    main()
