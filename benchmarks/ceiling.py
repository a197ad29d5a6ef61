"""What a machine can sample at most: environments alone and inference alone, on all its cores.

A step of an environment and its answer take 1/e and 1/i seconds of one core each, where e and i are
the steps a core makes when it does nothing else. However the two are overlapped, n cores cannot do
more than n / (1/e + 1/i). Measured are E = n e and I = n i, on all cores at once, so that shared
caches and clocks count; then

    ceiling = 1 / (1/E + 1/I)

`env`: the faster of our environments in one process, and of the vector environment that they have
(on one thread). `inference`: the policy of `peer_policies`, which computes no value, at a batch of
all environments: the least that any sampler has to do. Each core has a process of its own, with one
thread, and all begin at once.

usage: ceiling.py cartpole|pong [--num-envs 8] [--seconds 5]
       ceiling.py TASK --part ours|native|inference --core 0      one process of those
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from meter import say
from peer_policies import TASKS, policy

from rlpyt.arrays import tree_map
from rlpyt.envs.make import probe
from rlpyt.envs.options import EnvOptions
from rlpyt.noise import TRAINING_RESETS, ResetSeeds
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.choose import environments

ENVS = {"cartpole": "CartPole-v1", "pong": "PongNoFrameskip-v4"}
ACTIONS = {"cartpole": 2, "pong": 6}
SHAPES = {"cartpole": (4,), "pong": (4, 84, 84)}
PARTS = {"cartpole": ["ours", "inference"], "pong": ["ours", "native", "inference"]}
CORES = sorted(os.sched_getaffinity(0))
READY_SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--part", choices=["ours", "native", "inference"])
    parser.add_argument("--core", type=int)
    a = parser.parse_args()
    if a.part is not None:
        os.sched_setaffinity(0, {a.core})
        one(a.task, a.part, a.num_envs, a.seconds)
        return
    together = {part: on_all_cores(a, part) for part in PARTS[a.task]}
    env = max(speed for part, speed in together.items() if part != "inference")
    ceiling = 1 / (1 / env + 1 / together["inference"])
    print(
        json.dumps(
            {
                "formula": "1 / (1/env + 1/inference), both in steps/s of all cores at once",
                "cores": len(CORES),
                "num_envs": a.num_envs,
                "steps_per_second": round(ceiling, 1),
                **{part: round(speed, 1) for part, speed in together.items()},
            }
        )
    )


def on_all_cores(a: argparse.Namespace, part: str) -> float:
    """Steps per second of as many processes as there are cores, begun at once."""
    here = [sys.executable, __file__, a.task, "--part", part]
    # A core steps its share of the environments; a forward pass may have all of them.
    num_envs = a.num_envs if part == "inference" else max(1, a.num_envs // len(CORES))
    command = [*here, "--num-envs", str(num_envs), "--seconds", str(a.seconds)]
    processes = [
        subprocess.Popen(
            [*command, "--core", str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for core in CORES
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"{' '.join(command)} failed")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate(timeout=a.seconds + READY_SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return sum(json.loads(text)["steps_per_second"] for text in told)


def one(task: str, part: str, num_envs: int, seconds: float) -> None:
    """Say that it is ready, wait for a line, and measure."""
    torch.set_num_threads(1)
    step = inference(task, num_envs) if part == "inference" else stepping(task, part, num_envs)
    begun = time.perf_counter()
    while time.perf_counter() - begun < 1.0:
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        steps += step()
    say(steps, time.perf_counter() - begun)
    sys.stdout.flush()
    os._exit(0)  # a pool's threads may be at work


def inference(task: str, num_envs: int) -> Callable[[], int]:
    act = policy(task)
    dtype = np.uint8 if task == "pong" else np.float32
    shape = (num_envs, *SHAPES[task])
    observation = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)

    def step() -> int:
        act(observation)
        return num_envs

    return step


def stepping(task: str, part: str, num_envs: int) -> Callable[[], int]:
    """Our environments with random actions, written to rows; a pool has a thread for each core."""
    options = EnvOptions(ENVS[task], num_envs=num_envs)
    spec = probe(options)
    how = "native" if part == "native" else "in-process"
    envs: Any = environments(options, spec, num_envs, ResetSeeds(0, TRAINING_RESETS), how)
    rows = zeros(example_row(spec, ()), (2, num_envs))
    row, next_row = (tree_map(lambda x, t=t: x[t], rows) for t in (0, 1))
    generator = np.random.default_rng(0)
    envs.reset(row)

    def step() -> int:
        nonlocal row, next_row
        row.action[...] = generator.integers(0, ACTIONS[task], num_envs)
        envs.send(row, next_row)
        envs.recv(next_row)
        steps = num_envs - int(np.count_nonzero(row.last))
        row, next_row = next_row, row
        return steps

    return step


if __name__ == "__main__":
    main()
