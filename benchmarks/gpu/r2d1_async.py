"""R2D1 on a game of Atari, asynchronous, at replay ratio 1: steps and updates per second; JSON.

Written for a machine with one GPU and 16 cores: a process in the background steps worker
environments in two groups that take turns (or ale-py's vector environments, or replicas) and
answers them on the GPU, while this process learns on the same one. An update is the article's, of
64 sequences of 40 + 80 rows; at ratio 1 one is due every 7680 steps.

To be set beside what the original's article names (Stooke and Abbeel, 2019): over 16,000 steps/s on
24 cores and 3 GPUs, 2.0 updates/s at a ratio of 0.96, burn-in rows counted.

    steps_per_second, updates_per_second   once learning has begun, over --seconds
    replay_ratio                           rows trained to steps, over the same time
    waits                                  share of time in which each side waited for the other

usage: r2d1_async.py [--how workers|native|replicated] [--num-envs 256] [--workers 14] [--groups 2]
                     [--seconds 120] [--precision bf16] [--replay-memory host]
       r2d1_async.py --smoke      a minute on any CPU: whether all of it works, and no measurement
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rlpyt import presets
from rlpyt.cores import allowed_cores
from rlpyt.logging import csv
from rlpyt.run import Run
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.options import SamplerOptions
from rlpyt.training import train

ARTICLE = {"steps_per_second": 16_000, "updates_per_second": 2.0, "cores": 24, "gpus": 3}
WARM_UP_UPDATES = 20  # what is compiled is compiled by then, and the replay is in use


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--how", choices=["workers", "native", "replicated"], default="workers")
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--workers", type=int, default=max(1, allowed_cores() - 2))
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--horizon", type=int, default=40)
    parser.add_argument("--max-lag", type=int, default=4)
    parser.add_argument("--replay-size", type=int, default=1_000_000)
    parser.add_argument("--replay-memory", choices=["host", "pinned", "device"], default="host")
    parser.add_argument("--replay-ratio", type=float, default=1.0)
    parser.add_argument("--starts", type=int, default=100_000, help="steps before learning")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--acting-device", default="auto", help="such as cuda:1")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--compile", choices=["auto", "on", "off"], default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--smoke", action="store_true")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(smoke(a, folder) if a.smoke else whole(a, folder), a)))


def whole(a: argparse.Namespace, folder: str) -> Run:
    """The article's run of our preset."""
    run = presets.choose("r2d1", a.env, "r2d1/atari")
    native = a.how == "native"
    return replace(
        run,
        env=replace(
            run.env, num_envs=a.num_envs, vectorization="native" if native else "in-process"
        ),
        algo=replace(
            run.algo,
            horizon=a.horizon,
            batch_size=64,
            replay_ratio=a.replay_ratio,
            replay_size=a.replay_size,
            replay_memory=a.replay_memory,
            learning_starts=a.starts,
            save_replay=False,
        ),
        loop=replace(
            run.loop,
            runs=folder,
            seed=0,
            env_steps=10**10,
            log_interval=10 * a.horizon * a.num_envs,
            checkpoint_interval=0,
            eval_episodes=0,
            device=a.device,
            precision=a.precision,
            compile=a.compile,
            threads=a.threads,
        ),
        sampler=SamplerOptions(
            "serial" if native else a.how,
            None if native else a.workers,
            None if a.how == "replicated" else a.groups,
            asynchronous=True,
            max_lag=a.max_lag,
            acting_device=a.acting_device,
        ),
    )


def smoke(a: argparse.Namespace, folder: str) -> Run:
    """The same in small, on the CPU."""
    a.device, a.num_envs, a.workers, a.horizon = "cpu", 4, min(a.workers, 2), 10
    a.starts, a.replay_size, a.seconds, a.threads = 200, 4000, 2.0, 1
    run = whole(a, folder)
    algo = replace(run.algo, batch_size=2, burn_in=10, train_rows=10, state_interval=10)
    model = replace(run.model, memory_size=32, head_sizes=(32,))
    return replace(run, algo=algo, model=model)


def measured(run: Run, a: argparse.Namespace) -> dict[str, Any]:
    """Train, and count once learning is under way."""
    marks: list[tuple[float, int, int]] = []  # time, env steps, updates: begin and end

    def look(runner: Runner) -> bool:
        steps, updates = runner.episodes.env_steps, runner.parts.algorithm.learner.updates
        if not marks and updates >= WARM_UP_UPDATES:
            marks.append((time.perf_counter(), steps, updates))
        elif marks and time.perf_counter() - marks[0][0] > a.seconds:
            marks.append((time.perf_counter(), steps, updates))
            return True
        return False

    outcome = train(run, hooks=Hooks(on_window=look), mode="quiet")
    (begun, first, before), (ended, last, after) = marks
    seconds, steps, updates = ended - begun, last - first, after - before
    log = csv.read(Path(outcome.folder) / "progress.csv")
    resolved, cuda = outcome.runner.parts.resolved, run.loop.device.startswith("cuda")
    return {
        "steps_per_second": round(steps / seconds, 1),
        "updates_per_second": round(updates / seconds, 3),
        "replay_ratio": round(updates * run.algo.rows_per_update / steps, 3),
        "seconds": round(seconds, 1),
        "waits": {side: mean(log, f"time/wait_{side}", first) for side in ("learner", "sampler")},
        "num_envs": run.env.num_envs,
        "sampler": run.sampler.sampler,
        "vectorization": resolved.vectorization,
        "workers": resolved.workers,
        "groups": resolved.groups,
        "cores": allowed_cores(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "device_memory_mb": round(torch.cuda.max_memory_allocated() / 2**20) if cuda else None,
        "compiled": resolved.compile,
        "precision": run.loop.precision,
        "article": ARTICLE,
        "smoke": a.smoke,
    }


def mean(log: dict[str, list[float]], tag: str, first: int) -> float | None:
    """Over the lines after so many environment steps."""
    values = [x for n, x in zip(log[csv.X], log.get(tag, []), strict=False) if n > first and x == x]
    return round(sum(values) / len(values), 3) if values else None


if __name__ == "__main__":
    main()
