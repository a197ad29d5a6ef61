"""What several ranks on this machine are worth: environment steps per second of 1, 2, … together.

Each rank has the environments and batches of the run of one. `efficiency` is the speed of N ranks
over N times that of one, each with one thread: what is missing to 1 went into sums over ranks, into
waits for the slower one, and into what processes on one machine take from each other.
Prints one JSON object a line.

usage: ranks.py [ppo-cartpole] [ppo-halfcheetah] [sac-halfcheetah] [dqn-pong]
           [--ranks 2] [--rounds 2]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

TASKS = {
    "ppo-cartpole": ["ppo", "--env", "CartPole-v1", "--env-steps", "200k"],
    "ppo-halfcheetah": ["ppo", "--env", "HalfCheetah-v5", "--env-steps", "60k"],
    "sac-halfcheetah": ["sac", "--env", "HalfCheetah-v5", "--env-steps", "16k"],
    "dqn-pong": ["dqn", "--env", "PongNoFrameskip-v4", "--env-steps", "20k"],
}
EXTRA = {
    "sac-halfcheetah": ["--learning-starts", "2000", "--random-steps", "2000", "--compile", "off"],
    "dqn-pong": ["--learning-starts", "2000", "--replay-size", "20k", "--compile", "off"],
}
LIMIT_SECONDS = 900


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=2)
    a = parser.parse_args()
    for task in a.tasks:
        found: dict[int, list[dict[str, Any]]] = {n: [] for n in (1, *a.ranks)}
        for _ in range(a.rounds):
            for n, runs in found.items():
                runs.append(measured(task, n))
        print(json.dumps({"task": task, **compared(found)}), flush=True)


def measured(task: str, ranks: int) -> dict[str, Any]:
    """A run's outcome: one thread for each rank."""
    with tempfile.TemporaryDirectory() as folder:
        how = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        options = [*TASKS[task], *EXTRA.get(task, []), "--threads", "1", "--seed", "0"]
        options += ["--eval-episodes", "0", "--runs", folder, "--json"]
        command = [sys.executable, *(how if ranks > 1 else []), "-m", "rlpyt", "train", *options]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        if done.returncode:
            sys.exit(f"{task}: {' '.join(command)} ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def compared(found: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    speeds = {n: [run["steps_per_second"] for run in runs] for n, runs in found.items()}
    one = statistics.median(speeds[1])
    return {
        "steps_per_second": {str(n): x for n, x in speeds.items()},
        "updates": {str(n): runs[0]["updates"] for n, runs in found.items()},
        "efficiency": {
            str(n): round(statistics.median(x) / (n * one), 3) for n, x in speeds.items() if n > 1
        },
    }


if __name__ == "__main__":
    main()
