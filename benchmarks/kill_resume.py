"""SIGKILL at random moments, resume, and compare by hash with the run that never stopped.

usage: kill_resume.py [NAME ...] [--kills 3]        prints one JSON object a task
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from small_runs import fingerprint

SMALL = "--env-steps 20k --learning-starts 1k --replay-size 8k --checkpoint-interval 3k"
SHORT = "--env-steps 8k --learning-starts 1k --replay-size 4k --checkpoint-interval 1500"
TASKS = {
    "cartpole": "ppo --env CartPole-v1 --env-steps 60k --checkpoint-interval 5k",
    "halfcheetah": "ppo --env HalfCheetah-v5 --env-steps 30k --checkpoint-interval 4k",
    "impala": "impala --env CartPole-v1 --env-steps 60k --checkpoint-interval 5k",
    "appo-lstm": "appo --env rlpyt/CartPolePositions-v0 --env-steps 30k --checkpoint-interval 3k",
    "lstm": "ppo --env rlpyt/CartPolePositions-v0 --env-steps 30k --checkpoint-interval 3k",
    "pong": "ppo --env PongNoFrameskip-v4 --vectorization in-process --env-steps 10k "
    "--checkpoint-interval 2k --eval-episodes 0",
    "dqn": f"dqn --env CartPole-v1 {SMALL}",
    "dqn-frames": "dqn --env PongNoFrameskip-v4 --vectorization in-process --env-steps 6k "
    "--learning-starts 1k --replay-size 3k --checkpoint-interval 1k --eval-episodes 0",
    "rainbow": f"dqn --env CartPole-v1 {SMALL} --prioritized --dueling --noisy --n-step 3 "
    "--values categorical --v-min 0 --v-max 100",
    "r2d1": f"r2d1 --env rlpyt/CartPolePositions-v0 {SMALL} --prioritized",
    "ddpg": f"ddpg --env Pendulum-v1 {SHORT} --exploration ou",
    "td3": f"td3 --env Pendulum-v1 {SHORT} --n-step 3 --prioritized",
    "sac": f"sac --env HalfCheetah-v5 {SHORT} --random-steps 3k --hidden-sizes 64 64",
    "d4pg": f"d4pg --env Pendulum-v1 {SHORT} --prioritized",
    "sac-lstm": f"sac --env rlpyt/PendulumPositions-v0 {SHORT} --prioritized",
}
RLPYT = [sys.executable, "-m", "rlpyt"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(TASKS))
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    a = parser.parse_args()
    for name in a.names:
        with tempfile.TemporaryDirectory() as runs:
            print(json.dumps({"task": name, **check(name, Path(runs), a)}), flush=True)


def check(name: str, runs: Path, a: argparse.Namespace) -> dict[str, object]:
    """Run one task whole and in pieces."""
    chance = random.Random(a.seed)
    train = [*RLPYT, "train", *TASKS[name].split(), "--seed", "1", "--runs", str(runs)]
    total = int(re.search(r"--env-steps (\d+)k", TASKS[name])[1]) * 1000
    quietly([*train, "--name", "whole"])
    command, killed_at = [*train, "--name", "killed"], []
    for moment in sorted(chance.uniform(0.1, 0.9) * total for _ in range(a.kills)):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while reached(runs / "killed") < moment and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.2)
        process.kill()
        process.wait(timeout=10)
        killed_at.append(reached(runs / "killed"))
        command = [*RLPYT, "resume", str(runs / "killed")]
    quietly(command)
    prints = [fingerprint(runs / folder) for folder in ("whole", "killed")]
    return {
        "equal": prints[0] == prints[1],
        "killed_at_env_steps": killed_at,
        "hash": prints[0][:16],
    }


def quietly(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def reached(folder: Path) -> int:
    """Env steps of the last line of progress.csv."""
    file = folder / "progress.csv"
    last = file.read_text().splitlines()[-1:] if file.exists() else []
    first = last[0].split(",")[0] if last else ""
    return int(first) if first.isdigit() else 0


if __name__ == "__main__":
    main()
