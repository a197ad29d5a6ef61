"""Sampling with a policy, learning nothing: our samplers and the peers', in turn, on one machine.

For each task and number of environments the settings of everyone are first measured for a moment,
and the best of each go on to rounds in which they take turns. One JSON object a line is printed:

    steps_per_second   of each in every round
    ratio              medians: ours to each peer's, and ours to the best of them
    alternating        the best with two groups to the best in lock-step, of ours, as it comes out
    ceiling            the machine's (see ceiling.py), and what ours is of it
    screened           what was measured first, of every setting

Each measurement is a process of its own, and nothing else should run beside it. Peers live in two
environments of their own, one of which may be left out:

    --peers-a PYTHON   stable-baselines3, gymnasium, ale-py, opencv-python-headless
    --peers-b PYTHON   tianshou, torchrl, gymnasium, ale-py, opencv-python-headless

usage: samplers.py [cartpole] [pong] [--num-envs 8 16 64] --peers-a PYTHON --peers-b PYTHON
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVS = {"cartpole": "CartPole-v1", "pong": "PongNoFrameskip-v4"}
PEERS = {  # name: (which interpreter, script, ways of stepping)
    "gymnasium async": ("a", "peer_gymnasium.py", ["async"]),
    "sb3 subproc": ("a", "peer_sb3.py", ["subproc"]),
    "tianshou": ("b", "peer_tianshou.py", ["shmem", "subproc"]),
    "torchrl": ("b", "peer_torchrl.py", ["multi", "parallel"]),
    "gymnasium sync": ("a", "peer_gymnasium.py", ["sync"]),
    "sb3 dummy": ("a", "peer_sb3.py", ["dummy"]),
}
IN_PROCESS = ("gymnasium sync", "sb3 dummy")  # no sampler of processes: for comparison
THREADS = {"cartpole": ["1"], "pong": ["1", "2"]}  # a small network is slower with more
LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Contender:
    """Somebody's sampler with its settings."""

    party: str
    setting: str
    command: tuple[str, ...]  # but for --seconds

    def speed(self, seconds: float) -> float:
        """Steps per second; 0 where it fails."""
        found = told([*self.command, "--seconds", str(seconds)])
        rows = found.get("measured", [found])  # of our command, or of a peer's
        return rows[0].get("steps_per_second", 0.0) if rows else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(ENVS))
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 16, 64])
    parser.add_argument("--peers-a", help="interpreter")
    parser.add_argument("--peers-b", help="interpreter")
    parser.add_argument("--screen-seconds", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    for task in a.tasks:
        for n in a.num_envs:
            print(json.dumps({"task": task, "num_envs": n, **compared(task, n, a)}), flush=True)


def compared(task: str, n: int, a: argparse.Namespace) -> dict[str, Any]:
    ours, theirs = screened_ours(task, n, a), screened_peers(task, n, a)
    finals = {"ours": best(ours)}
    in_workers = {who: x for who, x in ours.items() if "sampler workers" in who.setting}
    for name, groups in {"lock-step": "--groups 1", "alternating": "--groups 2"}.items():
        finals[name] = best({who: x for who, x in in_workers.items() if groups in who.setting})
    for party in PEERS:
        finals[party] = best({who: x for who, x in theirs.items() if who.party == party})
    finals = {name: who for name, who in finals.items() if who is not None}
    speeds: dict[str, list[float]] = {name: [] for name in finals}
    ceilings: list[dict[str, Any]] = []
    for _ in range(a.rounds):
        for name, who in finals.items():
            speeds[name].append(who.speed(a.seconds))
            print(task, n, name, who.setting, speeds[name][-1], file=sys.stderr, flush=True)
        here = [sys.executable, str(HERE / "ceiling.py"), task, "--num-envs", str(n)]
        ceilings.append(told([*here, "--seconds", str(a.seconds)]))
    median = {name: statistics.median(x) for name, x in speeds.items()}
    peers = {name: median[name] for name in PEERS if median.get(name)}
    parallel = [speed for name, speed in peers.items() if name not in IN_PROCESS]
    least = statistics.median(x.get("steps_per_second", 0.0) for x in ceilings)
    return {
        "settings": {name: who.setting for name, who in finals.items()},
        "steps_per_second": speeds,
        "ratio": {name: ratio(median["ours"], speed) for name, speed in peers.items()},
        "ratio_to_the_best_in_processes": ratio(median["ours"], max(parallel, default=0.0)),
        "alternating_to_lock_step": ratio(median.get("alternating", 0.0), median.get("lock-step")),
        "of_the_ceiling": ratio(median["ours"], least),
        "ceilings": ceilings,
        "screened": {f"{who.party}: {who.setting}": x for who, x in {**ours, **theirs}.items()},
    }


def screened_ours(task: str, n: int, a: argparse.Namespace) -> dict[Contender, float]:
    """Our settings, those of as many threads in one process, and how fast each was."""
    found = {}
    for threads in THREADS[task]:
        bench = (sys.executable, "-m", "rlpyt", "bench", "sampler", "ppo", "--env", ENVS[task])
        bench = (*bench, "--num-envs", str(n), "--threads", threads, "--json", "--no-keep")
        for row in told([*bench, "--seconds", str(a.screen_seconds)]).get("measured", []):
            native = row["vectorization"] == "native"
            setting = ["--sampler", "native" if native else row["sampler"]]
            setting += ["--workers", str(row["workers"])] if row["workers"] else []
            setting += ["--groups", str(row["groups"])]
            name = " ".join([*setting, "--threads", threads])
            found[Contender("ours", name, (*bench, *setting))] = row["steps_per_second"]
    if not found:
        raise SystemExit("none of ours could be measured")
    return found


def screened_peers(task: str, n: int, a: argparse.Namespace) -> dict[Contender, float]:
    """Every peer's settings, and how fast each was."""
    found = {}
    for party, (where, script, ways) in PEERS.items():
        python = a.peers_a if where == "a" else a.peers_b
        for way in ways if python else []:
            for threads in ["1"] if way == "multi" else THREADS[task]:
                setting = ("--vector", way, "--threads", threads)
                command = (python, str(HERE / script), "sample", task, "--num-envs", str(n))
                who = Contender(party, " ".join(setting), (*command, *setting))
                found[who] = who.speed(a.screen_seconds)
                print(task, n, party, who.setting, found[who], file=sys.stderr, flush=True)
    return found


def best(measured: dict[Contender, float]) -> Contender | None:
    return max(measured, key=measured.__getitem__) if any(measured.values()) else None


def told(command: list[str]) -> dict[str, Any]:
    """The object that a measurement prints; empty where it fails, which is said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} took too long", file=sys.stderr)
        return {}
    if done.returncode or not done.stdout:
        print(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def ratio(ours: float, theirs: float | None) -> float | None:
    return round(ours / theirs, 2) if theirs else None


if __name__ == "__main__":
    main()
