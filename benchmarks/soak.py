"""An asynchronous run for so many minutes, its writer killed again and again: what changes?

    python benchmarks/soak.py                          20 minutes of R2D1, 50 kills
    python benchmarks/soak.py --minutes 2 --kills 5 --algo dqn --sampler workers

Rows carry checksums, and so do published weights: each drawn item is looked over. Memory is that of
all processes together, each shared page counted once (PSS), once a second; its slope is Theil and
Sen's over what comes after a tenth of the time. One JSON object is printed, and written to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

# Before processes start, which inherit them, and before PyTorch loads.
os.environ["RLPYT_CHECK"] = "1"
# oneDNN keeps the newest 1024 primitives, one for each shape of a sequence's segments: tens of MB,
# which fill slowly and would hide what else grows.
os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "32"

from rlpyt import training
from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import QNetworkOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.options import SamplerOptions

MODULUS = 65_521
RATIO = 4.0


class Checked(gymnasium.Env[Any, Any]):
    """Observes whose row it is, and a checksum of that; ends by chance."""

    def __init__(self, rank: int = 0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,))
        self.action_space = spaces.Discrete(2)
        self.rank, self.episode, self.steps = rank, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = int(self.np_random.integers(10_000)), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over, cut = self.np_random.random(2) < 0.02
        reward = float(action == self.steps % 2)
        return self._observation(), reward, bool(over), bool(cut), {}

    def _observation(self) -> np.ndarray:
        numbers = np.array([self.rank, self.episode, self.steps])
        return np.append(numbers, checksum(numbers)).astype(np.float32)


def checksum(numbers: np.ndarray) -> Any:
    """[..., 3] -> [...], below 2^16: exact in float32."""
    return (numbers @ np.array([7919, 104_729, 31])) % MODULUS


def torn(observation: np.ndarray) -> int:
    """How many of rows [..., 4] are not as they were written."""
    whole = observation.astype(np.int64)
    return int(np.count_nonzero(checksum(whole[..., :3]) != whole[..., 3]))


def run_of(args: argparse.Namespace, folder: str) -> Run:
    given: dict[str, Any] = {
        "learning_starts": 1000,
        "replay_size": args.replay_size,
        "replay_ratio": RATIO,
        "prioritized": True,
        "target_update_updates": 200,
    }
    sequences = {"burn_in": 4, "train_rows": 8, "state_interval": 4, "n_step": 2}
    recurrent = args.algo == "r2d1"
    algo: Any = (
        R2D1Options(**given, **sequences, batch_size=8, priority_entry="td")
        if recurrent
        else DQNOptions(**given, batch_size=32)
    )
    env: Any = Checked
    return Run(
        EnvOptions(env, num_envs=8),
        algo,
        QNetworkOptions(memory="lstm" if recurrent else "none", memory_size=32),
        LoopOptions(
            env_steps=10**9,
            seed=0,
            compile="off",
            runs=folder,
            name="soak",
            eval_episodes=0,
            log_interval=5000,
            checkpoint_interval=args.checkpoint_interval,
        ),
        sampler=SamplerOptions(
            sampler=args.sampler,
            workers=None if args.sampler == "serial" else 2,
            asynchronous=True,
            on_worker_failure="restart",
            max_restarts=10**6,
        ),
    )


class Watch:
    """Draws that are looked over, kills at their times, and the end."""

    def __init__(self, seconds: float, kills: int) -> None:
        self.begun, self.seconds = time.monotonic(), seconds
        self.kills = [seconds * (0.1 + 0.8 * (i + 0.5) / max(1, kills)) for i in range(kills)]
        self.draws = self.rows = self.torn = self.killed = 0
        self.steps: list[tuple[float, int]] = []
        self.looks = False

    def __call__(self, runner: Runner) -> bool:
        if not self.looks:
            self._look_over(runner.parts.replay)
            self.looks = True
        now = time.monotonic() - self.begun
        self.steps.append((now, runner.episodes.env_steps))
        if self.kills and now > self.kills[0]:
            self.kills.pop(0)
            self.killed += 1
            sampler: Any = runner.parts.sampler
            # A moment later: anywhere in a window, not where this side looks.
            wait = 0.02 * np.random.default_rng(self.killed).random()
            threading.Timer(wait, kill, (sampler._branch.child.pid,)).start()
        return now > self.seconds

    def _look_over(self, replay: Any) -> None:
        draw = replay.draw

        def looked_over(beta: float = 1.0) -> Any:
            items = draw(beta)
            observation = replay.window.rows.observation
            self.draws, self.rows = self.draws + 1, self.rows + observation[..., 0].size
            self.torn += torn(observation)
            self.torn += int(np.count_nonzero(observation[..., 0] != items.columns))
            return items

        replay.draw = looked_over


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


class Memory(threading.Thread):
    """Samples what all processes of the run take."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float, int, int]] = []  # seconds, MB, descriptors, threads
        self.done = threading.Event()

    def run(self) -> None:
        begun = time.monotonic()
        while not self.done.wait(1.0):
            pids = [os.getpid(), *descendants(os.getpid())]
            found = [x for x in map(usage, pids) if x is not None]
            sums = [sum(column) for column in zip(*found, strict=True)]
            descriptors = len(os.listdir("/proc/self/fd"))
            self.samples.append((time.monotonic() - begun, sums[0], descriptors, int(sums[1])))


def usage(pid: int) -> tuple[float, int] | None:
    """Megabytes (PSS) and threads of a process; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    kilobytes = next((x.split()[1] for x in text.splitlines() if x.startswith("Pss:")), "0")
    threads = next(x.split()[1] for x in status.splitlines() if x.startswith("Threads:"))
    return int(kilobytes) / 1024, int(threads)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(x) for x in path.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def slope(samples: list[tuple[float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between pairs, a thousand of them at random."""
    if len(samples) < 10:
        return float("nan")
    rng, n = np.random.default_rng(0), len(samples)
    pairs = [rng.choice(n, 2, replace=False) for _ in range(1000)]
    return statistics.median(
        (samples[b][1] - samples[a][1]) / (samples[b][0] - samples[a][0]) for a, b in pairs
    )


def speed(steps: list[tuple[float, int]], begin: float, end: float) -> float:
    """Environment steps per second between two fractions of the time."""
    total = steps[-1][0]
    part = [x for x in steps if begin * total <= x[0] <= end * total]
    if len(part) < 2:
        return float("nan")
    return (part[-1][1] - part[0][1]) / max(part[-1][0] - part[0][0], 1e-9)


def column(folder: Path, name: str) -> list[float]:
    import csv

    lines = csv.DictReader((folder / "progress.csv").read_text().splitlines())
    return [float(line[name]) for line in lines if line.get(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--algo", choices=("r2d1", "dqn"), default="r2d1")
    parser.add_argument("--sampler", choices=("serial", "workers", "replicated"), default="serial")
    parser.add_argument("--replay-size", type=int, default=20_000)
    parser.add_argument("--checkpoint-interval", type=int, default=200_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    watch, memory = Watch(60 * args.minutes, args.kills), Memory()
    with tempfile.TemporaryDirectory() as folder:
        memory.start()
        outcome = training.train(run_of(args, folder), mode="quiet", hooks=Hooks(on_window=watch))
        memory.done.set()
        found = summary(args, watch, memory, outcome)
    text = json.dumps(found, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")
    return 0 if found["passed"] else 1


def summary(
    args: argparse.Namespace, watch: Watch, memory: Memory, outcome: training.Outcome
) -> dict[str, Any]:
    runner, folder = outcome.runner, outcome.folder
    sampler: Any = runner.parts.sampler
    settled = memory.samples[len(memory.samples) // 10 :]
    per_minute = 60 * slope([(x[0], x[1]) for x in settled])
    ratio = column(folder, "replay/ratio")[-1]
    found: dict[str, Any] = {
        "algo": args.algo,
        "sampler": args.sampler,
        "minutes": round((time.monotonic() - watch.begun) / 60, 2),
        "env_steps": runner.episodes.env_steps,
        "updates": runner.parts.algorithm.learner.updates,
        "kills": watch.killed,
        "restarts": column(folder, "workers/restarts")[-1],
        "draws": watch.draws,
        "rows_drawn": watch.rows,
        "torn_rows": watch.torn,
        "overtaken": int(runner.parts.replay.ring.overtaken),  # type: ignore[union-attr]
        "replay_ratio": ratio,
        "replay_ratio_wanted": RATIO,
        "versions": sampler._published.version,
        "version_lag_mean": statistics.mean(column(folder, "sampler/version_lag")),
        "version_lag_max": max(column(folder, "sampler/version_lag_max")),
        "wait_learner": statistics.mean(column(folder, "time/wait_learner")),
        "wait_sampler": statistics.mean(column(folder, "time/wait_sampler")),
        "steps_per_second": round(speed(watch.steps, 0.1, 1.0), 1),
        "steps_per_second_second_tenth": round(speed(watch.steps, 0.1, 0.2), 1),
        "steps_per_second_last_tenth": round(speed(watch.steps, 0.9, 1.0), 1),
        "memory_mb": round(statistics.median(x[1] for x in settled), 1),
        "memory_mb_per_minute": round(per_minute, 3),
        "descriptors": [settled[0][2], settled[-1][2]],
        "threads": [settled[0][3], settled[-1][3]],
    }
    found["passed"] = bool(
        not watch.torn
        and not found["overtaken"]
        and abs(ratio / RATIO - 1) < 0.05
        and found["restarts"] == watch.killed
        and found["version_lag_max"] <= sampler._link.turns.lag + 1
        and not per_minute >= 1.0
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
