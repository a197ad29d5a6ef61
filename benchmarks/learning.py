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
    """A published score.

    sd: over seeds; NaN where none is given. least: of a source with one run, the least mean that
    matches: its score less two standard errors over its episodes (or the issue's own mark).
    """

    mean: float
    sd: float
    seeds: int
    source: str
    least: float | None = None


@dataclass(frozen=True)
class Experiment:
    """What is run, what is read off it, and what it is held against.

    metric: "eval" is the last evaluation, "max" the best one, "train" the mean return of the last
    100 training episodes at the end, "whole" that of all training episodes, "window" that of the
    episodes which ended in the last `window` env steps.
    """

    command: str
    seeds: tuple[int, ...]
    metric: str
    floor: float
    published: Published | None = None
    below: bool = False  # a negative control: `floor` must not be passed
    marks: tuple[int, ...] = ()  # env steps at which the training return is reported
    window: int = 0  # env steps of a source's own window


FIVE, TEN = tuple(range(5)), tuple(range(10))
NO_SPREAD = float("nan")
POSITIONS = "--env rlpyt/CartPolePositions-v0"
RAINBOW = "--double --dueling --head-sizes 64 --prioritized --values categorical --noisy"
CARTPOLE = "dqn --env CartPole-v1"
ZOO_CARTPOLE = Published(500.0, NO_SPREAD, 1, "RL Zoo, DQN and QR-DQN at 50k", least=500.0)
YOUNG_TIAN = "Young and Tian (2019), DQN at 1M, last 100, off a curve"

POLICY_GRADIENTS = {
    "ppo-cartpole": Experiment("ppo --env CartPole-v1 --env-steps 100k", TEN, "eval", 475),
    "a2c-cartpole": Experiment("a2c --env CartPole-v1 --env-steps 200k", (0, 1, 2), "eval", 450),
    "ppo-lstm-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory lstm", (0, 1, 2), "eval", 450
    ),
    "ppo-gru-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory gru", (0, 1, 2), "eval", 450
    ),
    "ppo-memoryless-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory none", (0, 1, 2), "eval", 100, below=True
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
        Published(14.2, NO_SPREAD, 30, "Young and Tian (2019), AC(0.8) at 2M, last 100"),
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

# CartPole, 50k steps: every variant with the preset's own settings and nothing else changed.
CARTPOLE_VARIANTS = {
    "dqn-cartpole": "",
    "dqn-cartpole-double": "--double",
    "dqn-cartpole-dueling": "--dueling --head-sizes 64",
    "dqn-cartpole-prioritized": "--prioritized",
    "dqn-cartpole-c51": "--values categorical",
    "dqn-cartpole-qr": "--values quantile",
    "dqn-cartpole-iqn": "--values implicit",
    "dqn-cartpole-rainbow": RAINBOW,
}
CLASSIC_CONTROL = {
    name: Experiment(f"{CARTPOLE} {options}".strip(), TEN, "eval", 450, ZOO_CARTPOLE)
    for name, options in CARTPOLE_VARIANTS.items()
} | {
    "dqn-cartpole-c51-500k": Experiment(
        f"{CARTPOLE} --preset default --env-steps 500k --values categorical --num-atoms 101 "
        "--v-min -100 --v-max 100",
        FIVE,
        "train",
        450,
        Published(481.2, 20.5, 3, "CleanRL, C51 at 500k, training return"),
    ),
    "dqn-acrobot": Experiment(
        "dqn --env Acrobot-v1 --env-steps 100k --eval-episodes 100",
        FIVE,
        "eval",
        -100,
        Published(-76.6, NO_SPREAD, 1, "RL Zoo, DQN at 100k", least=-78),
    ),
    "dqn-acrobot-qr": Experiment(
        "dqn --env Acrobot-v1 --env-steps 100k --eval-episodes 100 --values quantile",
        FIVE,
        "eval",
        -100,
        Published(-69.1, NO_SPREAD, 1, "RL Zoo, QR-DQN at 100k", least=-70),
    ),
    "dqn-lunar-lander": Experiment(
        "dqn --env LunarLander-v3 --env-steps 300k --eval-episodes 100",
        FIVE,
        "train",
        200,
        Published(265.9, NO_SPREAD, 4, "SLM-Lab, DDQN + PER at 300k, training return", least=250),
    ),
}
MINATAR = {
    "dqn-minatar-breakout": Experiment(
        "dqn --env MinAtar/Breakout-v0 --env-steps 1M --eval-episodes 10",
        (0, 1),
        "train",
        7,
        Published(9.1, NO_SPREAD, 30, YOUNG_TIAN),
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-freeway": Experiment(
        "dqn --env MinAtar/Freeway-v0 --env-steps 1M --eval-episodes 10",
        (0,),
        "train",
        40,
        Published(47.8, NO_SPREAD, 30, YOUNG_TIAN),
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-breakout-rainbow": Experiment(
        "dqn --env MinAtar/Breakout-v0 --preset minatar-rainbow --env-steps 1M --eval-episodes 10",
        (0, 1),
        "train",
        9.1,  # no table is published for it: it must do at least what DQN is published to do
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-breakout-iqn": Experiment(
        "dqn --env MinAtar/Breakout-v0 --preset minatar-iqn --env-steps 1M --eval-episodes 10",
        (0,),
        "train",
        9.1,
        marks=(500_000, 1_000_000),
    ),
}
ATARI = {
    # Dopamine's figures are means over iterations of 250k steps; at 2M frames its is -14.7 ± 1.0.
    "dqn-pong": Experiment(
        "dqn --env ALE/Pong-v5 --preset dopamine-qr --env-steps 1.25M --eval-episodes 10",
        (0,),
        "window",
        5,
        Published(11.7, 2.2, 5, "Dopamine, QR-DQN at 5M frames, training return"),
        marks=(500_000, 1_250_000),
        window=250_000,
    ),
}
# The memory tasks are ours (envs/memory.py), made after POPGym's RepeatPreviousEasy (whose score is
# the greatest mean return of an epoch) and bsuite's memory_len (solved where more than 62.5 % of
# 10k training episodes are answered rightly: a return of 0.25).
MEMORY = {
    "r2d1-positions": Experiment(f"r2d1 {POSITIONS} --env-steps 150k", TEN, "eval", 450),
    # Begins each sequence with zeros. The task needs two observations only, which burn-in brings
    # back: this is no control that must fail.
    "r2d1-positions-zero-state": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --zero-state", FIVE, "eval", 450
    ),
    # Zeros at every step: the same code without a memory, with and without the previous action.
    "r2d1-positions-forgetful": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --memory none --read-previous true",
        FIVE,
        "eval",
        100,
        below=True,
    ),
    "r2d1-positions-memoryless": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --memory none", FIVE, "eval", 100, below=True
    ),
    "dqn-positions": Experiment(f"dqn {POSITIONS} --env-steps 150k", FIVE, "eval", 100, below=True),
    "r2d1-repeat-previous": Experiment(
        "r2d1 --env rlpyt/RepeatPrevious-v0 --env-steps 1M",
        FIVE,
        "train",
        0.5,
        Published(1.0, NO_SPREAD, 3, "POPGym, PPO-GRU at 15M, best epoch", least=0.95),
    ),
    "dqn-repeat-previous": Experiment(
        "dqn --env rlpyt/RepeatPrevious-v0 --env-steps 200k", (0, 1, 2), "train", -0.4, below=True
    ),
    "ppo-gru-repeat-previous": Experiment(
        "ppo --env rlpyt/RepeatPrevious-v0 --env-steps 1M --memory gru",
        FIVE,
        "train",
        0.5,
        Published(1.0, NO_SPREAD, 3, "POPGym, PPO-GRU at 15M, best epoch", least=0.95),
    ),
} | {
    f"{name}-cue-{delay}": Experiment(
        f"{algo} --env rlpyt/CueDelay-v0 --env-kwargs delay={delay} "
        f"--env-steps {10 * (delay + 1)}k{memory}",
        (0, 1, 2),
        "whole",
        0.25,
    )
    for name, algo, memory in (("r2d1", "r2d1", ""), ("ppo-gru", "ppo", " --memory gru"))
    for delay in (5, 10, 30)
}
EXPERIMENTS = POLICY_GRADIENTS | CLASSIC_CONTROL | MINATAR | ATARI | MEMORY


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
    label = "" if len(scores) >= 5 else " (preliminary: fewer than 5 seeds)"
    if published.least is not None:
        beats = all(score >= published.mean for score in scores)
        match = statistics.mean(scores) >= published.least
        word = "beat" if beats else "match" if match else "below"
        found |= {"match_bound": published.least, "match_verdict": word + label}
    if len(scores) > 1 and not math.isnan(published.sd):
        ours = statistics.variance(scores) / len(scores)
        theirs = published.sd**2 / published.seeds
        error = math.sqrt(ours + theirs)
        freedom = (ours + theirs) ** 2 / (
            ours**2 / (len(scores) - 1) + theirs**2 / (published.seeds - 1)
        )
        bound = published.mean - t_quantile(freedom) * error
        match = statistics.mean(scores) >= bound
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
