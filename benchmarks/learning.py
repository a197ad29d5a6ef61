"""Learning results: runs, per-seed numbers, pictures and verdicts beside published scores.

Every run is a command of its own, so that this script can be stopped and started again: what is
finished is skipped, what was cut is resumed. Writes results/NAME.json and results/NAME.png.

usage: learning.py NAME ... [--seeds 0 1 2] [--jobs 2] [--runs runs/results]
       learning.py --list
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.logging import csv
from rlpyt.view.plot import plot

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Published:
    """A published score: mean and standard deviation over seeds."""

    mean: float
    sd: float
    seeds: int
    source: str


@dataclass(frozen=True)
class Experiment:
    """What is run, what is read off it, and what it is held against.

    metric: "eval" is the last evaluation, "max" the best one, "train" the mean return of the last
    100 training episodes at the end.
    """

    command: str
    seeds: tuple[int, ...]
    metric: str
    floor: float
    published: Published | None = None
    below: bool = False  # a negative control: `floor` must not be passed
    marks: tuple[int, ...] = ()  # env steps at which the training return is reported


POSITIONS = "--env rlpyt/CartPolePositions-v0 --env-steps 100k"
EXPERIMENTS = {
    "ppo-cartpole": Experiment(
        "ppo --env CartPole-v1 --env-steps 100k", tuple(range(10)), "eval", 475
    ),
    "a2c-cartpole": Experiment("a2c --env CartPole-v1 --env-steps 200k", (0, 1, 2), "eval", 450),
    "ppo-lstm-positions": Experiment(f"ppo {POSITIONS} --memory lstm", (0, 1, 2), "eval", 450),
    "ppo-gru-positions": Experiment(f"ppo {POSITIONS} --memory gru", (0, 1, 2), "eval", 450),
    "ppo-memoryless-positions": Experiment(
        f"ppo {POSITIONS} --memory none", (0, 1, 2), "eval", 100, below=True
    ),
    "ppo-halfcheetah": Experiment(
        "ppo --env HalfCheetah-v5 --env-steps 1M --eval-interval 50k --eval-episodes 10",
        (0, 1, 2),
        "max",
        1443,
        Published(5783.9, 1244.0, 10, "Tianshou, maximum over evaluations, v3"),
    ),
    "ppo-minatar-breakout": Experiment(
        "ppo --env MinAtar/Breakout-v1 --env-steps 2M --eval-episodes 10",
        (0, 1),
        "train",
        12,
        Published(14.2, float("nan"), 30, "Young and Tian (2019), AC(0.8) at 2M, last 100"),
        marks=(500_000, 1_000_000, 2_000_000),
    ),
    "ppo-pong": Experiment(
        "ppo --env PongNoFrameskip-v4 --env-steps 1.5M --eval-episodes 10",
        (0,),
        "train",
        15,
        marks=(500_000, 1_000_000, 1_500_000),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--list", action="store_true")
    a = parser.parse_args()
    if a.list or not a.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:26} rlpyt train {experiment.command}")
        return
    jobs = [(name, s) for name in a.names for s in a.seeds or EXPERIMENTS[name].seeds]
    with ThreadPoolExecutor(a.jobs) as pool:
        list(pool.map(lambda job: run(*job, a.runs), jobs))
    for name in a.names:
        report(name, [a.runs / f"{name}-{s}" for s in a.seeds or EXPERIMENTS[name].seeds])


def run(name: str, seed: int, runs: Path) -> None:
    """Run one seed to its end, from wherever it stands."""
    folder = runs / f"{name}-{seed}"
    rlpyt = [sys.executable, "-m", "rlpyt"]
    command = [*rlpyt, "train", *EXPERIMENTS[name].command.split(), "--seed", str(seed)]
    command += ["--runs", str(runs), "--name", folder.name]
    if (folder / "run.json").exists():
        if json.loads((folder / "run.json").read_text())["status"] == "finished":
            return
        command = [*rlpyt, "resume", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    (runs / f"{folder.name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def report(name: str, folders: list[Path]) -> None:
    """Write numbers, verdict and picture of one experiment."""
    experiment = EXPERIMENTS[name]
    seeds = [read(folder, experiment) for folder in folders]
    scores = [seed["score"] for seed in seeds]
    result = {
        "experiment": name,
        "command": f"rlpyt train {experiment.command}",
        "metric": experiment.metric,
        "mean": round(statistics.mean(scores), 2),
        "sd": round(statistics.stdev(scores), 2) if len(scores) > 1 else None,
        **verdict(experiment, scores),
        "seeds": seeds,
        "versions": json.loads((folders[0] / "run.json").read_text())["versions"],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    plot(folders, by="algo", panel="env", out=RESULTS / f"{name}.png")
    print(json.dumps({k: v for k, v in result.items() if k not in ("seeds", "versions")}))


def read(folder: Path, experiment: Experiment) -> dict[str, Any]:
    """One seed's numbers: every metric class, so that no run has to be repeated."""
    lines = csv.read(folder / "progress.csv")
    record = json.loads((folder / "run.json").read_text())
    steps = lines["env_steps"]
    train = present(steps, lines.get("rollout/return_100", []))
    evaluations = present(steps, lines.get("eval/return_mean", []))
    found = {
        "seed": record["seed"],
        "env_steps": record["env_steps"],
        "train": round(train[-1][1], 2),
        "eval": round(evaluations[-1][1], 2),
        "max": round(max(value for _, value in evaluations), 2),
    }
    for mark in experiment.marks:
        at = [value for x, value in train if x <= mark * 1.005]
        found[f"train_at_{mark}"] = round(at[-1], 2) if at else None
    return {**found, "score": found[experiment.metric], "commit": record["git"].get("commit")}


def present(steps: list[float], values: list[float]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(steps, values, strict=False) if not math.isnan(y)]


def verdict(experiment: Experiment, scores: list[float]) -> dict[str, Any]:
    """FLOOR, and Welch's one-sided test at 95 % against the published score."""
    passed = [s < experiment.floor if experiment.below else s >= experiment.floor for s in scores]
    needed = len(scores) if len(scores) < 4 else len(scores) - 1
    found: dict[str, Any] = {
        "floor": experiment.floor,
        "floor_verdict": "pass" if sum(passed) >= needed else "fail",
    }
    published = experiment.published
    if published is None:
        return found
    found["published"] = {"mean": published.mean, "seeds": published.seeds, "of": published.source}
    if len(scores) > 1 and not math.isnan(published.sd):
        ours = statistics.variance(scores) / len(scores)
        theirs = published.sd**2 / published.seeds
        error = math.sqrt(ours + theirs)
        freedom = (ours + theirs) ** 2 / (
            ours**2 / (len(scores) - 1) + theirs**2 / (published.seeds - 1)
        )
        bound = published.mean - t_quantile(freedom) * error
        match = statistics.mean(scores) >= bound
        label = "" if len(scores) >= 5 else " (preliminary: fewer than 5 seeds)"
        found["welch_bound"] = round(bound, 1)
        found["match_verdict"] = ("match" if match else "below") + label
    return found


def t_quantile(freedom: float) -> float:
    """95 % quantile of Student's t, by Cornish and Fisher's expansion (0.5 % at 2 degrees)."""
    z = 1.6448536
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


if __name__ == "__main__":
    main()
