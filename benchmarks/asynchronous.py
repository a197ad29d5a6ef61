"""Wall time of a run that collects while it learns, beside the same run that takes turns.

Both make the same number of updates of the same size. Prints one JSON object a line: seconds of
training of each in every round, updates per second, and by how much the asynchronous one is faster.

usage: asynchronous.py [dqn-cartpole] [dqn-pong] [sac-halfcheetah] [--rounds 2] [--threads N]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from typing import Any

SAC = ["--learning-starts", "1000", "--random-steps", "1000", "--env-steps", "9k"]
PONG = ["--learning-starts", "1000", "--replay-size", "20k", "--env-steps", "13k"]
TASKS = {
    "dqn-cartpole": ["dqn", "--env", "CartPole-v1", "--env-steps", "50k"],
    "dqn-pong": ["dqn", "--env", "PongNoFrameskip-v4", "--num-envs", "8", *PONG],
    "sac-halfcheetah": ["sac", "--env", "HalfCheetah-v5", *SAC],
}
WAYS = {"in turns": [], "asynchronous": ["--asynchronous"]}
LIMIT_SECONDS = 900


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int)
    a = parser.parse_args()
    threads = ["--threads", str(a.threads)] if a.threads else []
    for task in a.tasks:
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(a.rounds):
            for way, options in WAYS.items():
                found[way].append(measured([*TASKS[task], *options, *threads]))
        print(json.dumps({"task": task, **compared(found)}), flush=True)


def measured(arguments: list[str]) -> dict[str, Any]:
    """A run's outcome."""
    with tempfile.TemporaryDirectory() as folder:
        rest = ["--seed", "0", "--eval-episodes", "0", "--compile", "off", "--runs", folder]
        command = [sys.executable, "-m", "rlpyt", "train", *arguments, *rest, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def compared(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    seconds = {way: [run["seconds"] for run in runs] for way, runs in found.items()}
    per_update = {
        way: [run["seconds"] / run["updates"] for run in runs] for way, runs in found.items()
    }
    turns, meanwhile = (statistics.median(x) for x in per_update.values())
    return {
        "seconds": seconds,
        "updates": {way: [run["updates"] for run in runs] for way, runs in found.items()},
        "faster": round(turns / meanwhile, 3),
    }


if __name__ == "__main__":
    main()
