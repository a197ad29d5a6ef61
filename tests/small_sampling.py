"""Small runs under every sampler, what is the same in all of them, and environments that fail."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import small_runs
from gymnasium import spaces
from toys import CountEnv, Step

from rlpyt import checkpoint, training
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import Parts, build
from rlpyt.runner import Hooks
from rlpyt.samplers.options import SamplerOptions

NUMBERED = "small_sampling:Numbered"
SIDES: dict[str, Any] = {
    "serial": {},
    "workers": {"sampler": "workers", "workers": 2},
    "replicated": {"sampler": "replicated", "workers": 2},
}
"""Samplers that a background process may run."""
SHARED = ("agent", "algorithm", "window", "replay", "episodes")
"""Parts of a checkpoint that every sampler gives alike, in strict mode."""


def run_of(kind: str, folder: Path, *, sampler: SamplerOptions | None = None, **loop: Any) -> Any:
    """One of `small_runs`, without evaluations."""
    given = {"eval_episodes": 0, "eval_interval": 0, "env_steps": 500, "checkpoint_interval": 0}
    run = small_runs.make(kind, folder, **given | loop)
    return dataclasses.replace(run, sampler=sampler or SamplerOptions())


def trained(kind: str, folder: Path, *, hooks: Hooks | None = None, **options: Any) -> str:
    """Train, and return the fingerprint of what the samplers share."""
    return fingerprint(outcome_of(kind, folder, hooks=hooks, **options).folder)


def outcome_of(
    kind: str,
    folder: Path,
    *,
    hooks: Hooks | None = None,
    loop: dict[str, Any] | None = None,
    env: dict[str, Any] | None = None,
    algo: dict[str, Any] | None = None,
    **sampler: Any,
) -> training.Outcome:
    """Train with other options, by the part of a run that they are of."""
    run = run_of(kind, folder, sampler=SamplerOptions(**sampler), **loop or {})
    run = dataclasses.replace(
        run,
        env=dataclasses.replace(run.env, **env or {}),
        algo=dataclasses.replace(run.algo, **algo or {}),
    )
    return training.train(run, mode="quiet", hooks=hooks)


def column(folder: Path, name: str) -> list[float]:
    """A metric of all lines of a run's log that have it."""
    lines = csv.DictReader((folder / "progress.csv").read_text().splitlines())
    return [float(line[name]) for line in lines if line.get(name)]


def fingerprint(folder: Path, parts: Sequence[str] = SHARED) -> str:
    """Hash of parts of the newest checkpoint."""
    state, _ = checkpoint.load(folder / "checkpoints")
    digest = hashlib.sha256()
    for name in parts:
        small_runs.absorb(digest, state[name])
    return digest.hexdigest()


def parts_of(
    kind: str,
    env: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    num_envs: int = 4,
    total: int = 100_000,
    algo: dict[str, Any] | None = None,
    **sampler: Any,
) -> Parts:
    """The parts of a run, in other environments if some are given; nothing is started yet."""
    run = run_of(kind, Path("runs"), env_steps=total)
    options: Any = {"num_envs": num_envs}
    if env is not None:
        options |= {"env": env, "env_kwargs": env_kwargs or {}}
    return build(
        dataclasses.replace(
            run,
            env=dataclasses.replace(run.env, **options),
            algo=dataclasses.replace(run.algo, **algo or {}),
            sampler=SamplerOptions(**sampler),
        )
    )


def rows_of(window: Any) -> list[np.ndarray]:
    """Copies of all that a window holds, the answer to its last row excepted."""
    rows = window.rows
    answers = tree_map(lambda x: x[:-1], (rows.action, rows.info))
    arrived = rows.replace(action=(), info=())
    return [x.copy() for x in tree_leaves((arrived, answers))]


def same(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def descendants() -> set[int]:
    """Processes that descend from this one, but for zombies and multiprocessing's own two."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(path.parent.name)] = int(fields[1])
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    tracker: Any = resource_tracker._resource_tracker  # type: ignore[attr-defined]
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        children = {pid for pid, x in parents.items() if x == parent}
        todo += children
        found |= children
    return found - {server._forkserver_pid, tracker._pid}


class Numbered(gymnasium.Env):
    """Observes [column, episode, step, checksum of the three]; ends by chance, seeded.

    Args:
        rank: its column.
        fails: the column that fails, or -1.
        at: the step of the process, counted from 1, in which it does; 0: in every constructor.
        how: "raise", "kill" (SIGKILL), "hang", "late" (by 2 s) or "stop" (SIGSTOP).
        once: a file that keeps later processes from failing.
        delay: seconds of each step, of the column `slow` alone if it is one.
        numbers: how many come with each step's info beside its own.
    """

    def __init__(
        self,
        rank: int = 0,
        fails: int = -1,
        at: int = 1,
        how: str = "raise",
        once: str = "",
        delay: float = 0.0,
        slow: int = -1,
        numbers: int = 0,
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,))
        self.action_space = spaces.Discrete(2)
        self.rank, self.fails, self.at, self.how, self.once = rank, fails, at, how, once
        self.delay = delay if slow in (-1, rank) else 0.0
        self.numbers = {f"number {i}": i for i in range(numbers)}
        self.calls = self.episode = self.steps = 0
        if not at:
            self._fail()

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.steps = int(self.np_random.integers(1000)), 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self.calls += 1
        if self.calls == self.at:
            self._fail()
        if self.delay:
            time.sleep(self.delay)
        self.steps += 1
        over = bool(self.np_random.random() < 0.1)
        info = self.numbers | {"steps": self.steps}
        return self._observation(), float(self.steps), over, False, info

    def _observation(self) -> np.ndarray:
        return np.array([self.rank, self.episode, self.steps, self._sum()], np.float32)

    def _sum(self) -> int:
        return (self.rank * 7919 + self.episode * 104_729 + self.steps * 31) % 65_521

    def _fail(self) -> None:
        if self.rank != self.fails:
            return
        if self.once:
            if os.path.exists(self.once):
                return
            with open(self.once, "w"):
                pass
        match self.how:
            case "raise":
                raise RuntimeError("a fault of its own")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "late":
                time.sleep(2.0)
            case "hang":
                time.sleep(3600)


def whole(observation: np.ndarray) -> bool:
    """Whether observations [..., 4] of `Numbered` are what it wrote, none of two halves."""
    rank, episode, steps, total = np.moveaxis(observation.astype(np.int64), -1, 0)
    return bool(np.all((rank * 7919 + episode * 104_729 + steps * 31) % 65_521 == total))


def ends_together(rank: int = 0) -> gymnasium.Env:
    """Episodes of three steps."""
    return CountEnv(3, column=rank)


def numbered(**kwargs: Any) -> dict[str, Any]:
    """Options of environments that number what they observe."""
    return {"env": NUMBERED, "env_kwargs": kwargs}
