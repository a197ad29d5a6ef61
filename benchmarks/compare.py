"""Ours and theirs in turn, on this machine, as ratios; prints one JSON object a comparison.

Each measurement is a process of its own, and nothing else should run beside it. Peers live in
an environment of their own: --peers PYTHON is its interpreter (stable-baselines3, sb3-contrib,
ale-py, opencv-python-headless installed there).

usage: compare.py [NAME ...] --peers ~/peers/bin/python
       with names of COMPARISONS, or whole; cartpole, whole and sampling by default
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SB3, GYMNASIUM = "peer_sb3.py", "peer_gymnasium.py"
SETTINGS = {"horizon": "128", "update-epochs": "4", "minibatch-size": "256", "lr": "3e-4"}
RUN = "-m rlpyt train ppo --env CartPole-v1 --env-steps 100k --seed 0"
WHOLE = [*RUN.split(), *(word for name, value in SETTINGS.items() for word in (f"--{name}", value))]
# name: (ours, [(peer, script, arguments)])
COMPARISONS: dict[str, tuple[list[str], list[tuple[str, str, list[str]]]]] = {
    "cartpole": (["train", "cartpole"], [("sb3", SB3, ["train", "cartpole"])]),
    "sampling": (
        ["sample", "cartpole"],
        [
            ("gymnasium", GYMNASIUM, ["sample", "cartpole"]),
            ("sb3", SB3, ["sample", "cartpole"]),
        ],
    ),
    "recurrent": (["train", "recurrent"], [("sb3-contrib", SB3, ["train", "recurrent"])]),
    "recurrent-whole": (
        ["train", "recurrent", "--sequence", "128"],
        [("sb3-contrib", SB3, ["train", "recurrent"])],
    ),
    "pong": (["train", "pong"], [("sb3", SB3, ["train", "pong", "--threads", "2"])]),
    "pong-bf16": (
        ["train", "pong", "--precision", "bf16"],
        [("sb3", SB3, ["train", "pong", "--threads", "2"])],
    ),
    # DQN: an update of 32 every 4 steps, timed once learning has started. dqn-pong fills 100k rows
    # first, minutes a process, so that the memory is that of a full replay.
    "dqn-cartpole": (
        ["train", "dqn-cartpole", "--num-envs", "1"],
        [("sb3", SB3, ["train", "dqn-cartpole", "--num-envs", "1"])],
    ),
    "dqn-cartpole-asynchronous": (  # two processes; as many updates a step
        ["train", "dqn-cartpole", "--num-envs", "1", "--asynchronous"],
        [("sb3", SB3, ["train", "dqn-cartpole", "--num-envs", "1"])],
    ),
    "dqn-cartpole-4": (
        ["train", "dqn-cartpole", "--num-envs", "4"],
        [("sb3", SB3, ["train", "dqn-cartpole", "--num-envs", "4"])],
    ),
    "dqn-cartpole-zoo": (
        ["train", "dqn-cartpole-zoo", "--num-envs", "1"],
        [("sb3", SB3, ["train", "dqn-cartpole-zoo", "--num-envs", "1"])],
    ),
    "dqn-pong": (
        ["train", "dqn-pong", "--num-envs", "4"],
        [("sb3", SB3, ["train", "dqn-pong", "--num-envs", "4", "--threads", "2"])],
    ),
    "dqn-pong-1": (
        ["train", "dqn-pong", "--num-envs", "1"],
        [("sb3", SB3, ["train", "dqn-pong", "--num-envs", "1", "--threads", "2"])],
    ),
    # Critics: an update of 256 every step, 256 x 256; the peer at one thread and at two.
    **{
        f"{algo}-halfcheetah": (
            ["train", f"{algo}-halfcheetah", "--num-envs", "1"],
            [
                (f"sb3, {n} threads", SB3, ["train", f"{algo}-halfcheetah", "--threads", n])
                for n in "12"
            ],
        )
        for algo in ("ddpg", "td3", "sac")
    },
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["cartpole", "whole", "sampling"])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    a = parser.parse_args()
    for name in a.names:
        compare = whole if name == "whole" else steady
        print(json.dumps({"comparison": name, **compare(name, a)}), flush=True)


def steady(name: str, a: argparse.Namespace) -> dict[str, Any]:
    """Steps per second after a warm-up, and peak memory."""
    arguments, peers = COMPARISONS[name]
    seconds = ["--seconds", str(a.seconds)]
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(a.rounds):
        ours = [sys.executable, str(HERE / "ours.py"), *arguments, *seconds]
        found.setdefault("ours", []).append(measure(ours))
        for peer, script, theirs in peers:
            command = [a.peers, str(HERE / script), *theirs, *seconds]
            found.setdefault(peer, []).append(measure(command))
    speed = {k: [m["steps_per_second"] for m in v] for k, v in found.items()}
    return {
        "steps_per_second": speed,
        "ratio": {k: ratio(speed["ours"], v) for k, v in speed.items() if k != "ours"},
        "memory_mb": {k: max(m["memory_mb"] for m in v) for k, v in found.items()},
    }


def whole(name: str, a: argparse.Namespace) -> dict[str, Any]:
    """A run of 100k steps of PPO CartPole, from start to exit, imports included."""
    ours, theirs = [], []
    for _ in range(a.rounds):
        with tempfile.TemporaryDirectory() as runs:
            ours.append(seconds([sys.executable, *WHOLE, "--runs", runs]))
        theirs.append(seconds([a.peers, str(HERE / SB3), "whole", "cartpole"]))
    return {
        "seconds": {"ours": ours, "sb3": theirs},
        "ratio": {"sb3": ratio([1 / x for x in ours], [1 / x for x in theirs])},
    }


def measure(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return round(time.perf_counter() - begun, 2)


def ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(ours) / statistics.median(theirs), 2)


if __name__ == "__main__":
    main()
