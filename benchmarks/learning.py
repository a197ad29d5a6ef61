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
from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS, Experiment
from verdicts import verdict

from rlpyt.logging import csv
from rlpyt.view.plot import plot

RESULTS = Path(__file__).parents[1] / "results"


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
            print(f"{name:29} rlpyt train {experiment.command}")
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
    if experiment.metric == "whole":
        found["whole"] = round(mean_return(lines, 0, math.inf), 3)
    if experiment.window:
        found["window"] = round(mean_return(lines, steps[-1] - experiment.window, steps[-1]), 2)
    for mark in experiment.marks:
        at = [value for x, value in train if x <= mark * 1.005]
        found[f"train_at_{mark}"] = round(at[-1], 2) if at else None
        if experiment.window:
            value = mean_return(lines, mark - experiment.window, mark * 1.005)
            found[f"window_at_{mark}"] = round(value, 2)
    return {**found, "score": found[experiment.metric], "commit": record["git"].get("commit")}


def mean_return(lines: dict[str, list[float]], begin: float, end: float) -> float:
    """Of the training episodes that ended in (begin, end], by the lines of the log."""
    named = (lines["env_steps"], lines["rollout/return_mean"], lines["rollout/episodes"])
    found = [(y, n) for x, y, n in zip(*named, strict=True) if begin < x <= end and n > 0]
    return sum(y * n for y, n in found) / max(1, sum(n for _, n in found))


def present(steps: list[float], values: list[float]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(steps, values, strict=False) if not math.isnan(y)]


if __name__ == "__main__":
    main()
