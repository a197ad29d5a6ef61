"""Environments for the tests of workers, and what is asked of samplers there."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from careless import draw_from_numpy
from gymnasium import spaces
from toys import CountEnv, InfoEnv, MaskEnv, Step

from rlpyt.arrays import tree_map
from rlpyt.rows import Row

WORKERS: dict[str, Any] = {"sampler": "workers"}


class Faulty(CountEnv):
    """A CountEnv of its column that misbehaves in one of its calls.

    Args:
        rank: its column.
        column: the one that misbehaves; -1: none does.
        where: "init", "reset", "step" or "close".
        k: in which of these calls of the process, from 0.
        how: see `misbehave`; or "nan" in what a step observes.
        once: a file that keeps later processes from doing it again.
    """

    def __init__(
        self,
        rank: int = 0,
        column: int = -1,
        where: str = "step",
        k: int = 5,
        how: str = "raise",
        once: str = "",
        n: int = 4,
    ) -> None:
        super().__init__(n, gap=1, column=rank)
        self.faulty, self.where, self.k, self.how, self.once = rank == column, where, k, how, once
        self.calls = {"init": 0, "reset": 0, "step": 0, "close": 0}
        self._call("init")

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._call("reset")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        due = self._call("step")
        observation, *rest = super().step(action)
        if due and self.how == "nan":
            observation[1] = np.nan
        return (observation, *rest)

    def close(self) -> None:
        self._call("close")

    def _call(self, place: str) -> bool:
        call = self.calls[place]
        self.calls[place] += 1
        k = 0 if place in ("init", "close") else self.k
        if not self.faulty or place != self.where or call != k:
            return False
        if self.once:
            if os.path.exists(self.once):
                return False
            with open(self.once, "w"):
                pass
        misbehave(self.how)
        return True


def misbehave(how: str) -> None:
    """Raise, end this process, or never return."""
    match how:
        case "raise":
            raise ValueError("a fault of its own")
        case "unpicklable":
            raise Unpicklable(lambda: None)
        case "broken pipe":
            raise BrokenPipeError(32, "Broken pipe")
        case "sys.exit":
            sys.exit(0)
        case "print":
            print("x" * 100_000, flush=True)
        case "exit 0":
            os._exit(0)
        case "exit 3":
            os._exit(3)
        case "null pointer":
            ctypes.string_at(0)
        case "SIGABRT" | "SIGBUS" | "SIGKILL" | "SIGSTOP":
            os.kill(os.getpid(), getattr(signal, how))
        case "sleep":
            time.sleep(3600)
        case "loop":
            while True:
                pass
        case "loop in C":
            ctypes.PyDLL(None).usleep(500_000_000)  # with the interpreter's lock held
        case "slow":
            time.sleep(0.7)


class HangsInClose(CountEnv):
    """Column 1 does not come out of close(); where it is to, it fails in a step before that."""

    def __init__(self, rank: int = 0, fails: bool = False) -> None:
        super().__init__(column=rank)
        self.faulty, self.fails = rank == 1, fails

    def step(self, action: Any) -> Step:
        if self.faulty and self.fails:
            misbehave("raise")
        return super().step(action)

    def close(self) -> None:
        if self.faulty:
            misbehave("sleep")


class FailsTwice(CountEnv):
    """Column 2 fails in step 20 of its first process, and in the first reset of its second one.

    Args:
        rank: its column.
        folder: in which each process of column 2 leaves a file.
    """

    def __init__(self, rank: int = 0, folder: str = "") -> None:
        super().__init__(column=rank, end="never")
        self.process = -1
        if rank == 2:
            self.process = len(os.listdir(folder))
            with open(f"{folder}/{self.process}", "w"):
                pass

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self.process == 1:
            raise ValueError("a fault of its own")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        if self.process == 0 and self.steps == 19:
            raise ValueError("a fault of its own")
        return super().step(action)


class Slow(Faulty):
    """Each step of one column takes so many seconds."""

    def __init__(self, rank: int = 0, slow: int = -1, delay: float = 0.005) -> None:
        super().__init__(rank)
        self.delay = delay if rank == slow else 0.0

    def step(self, action: Any) -> Step:
        time.sleep(self.delay)
        return super().step(action)


class Telling(CountEnv):
    """Leaves a file when any column was stepped."""

    def __init__(self, rank: int = 0, file: str = "") -> None:
        super().__init__(9, column=rank)
        self.file = file

    def step(self, action: Any) -> Step:
        if self.file:
            with open(self.file, "w"):
                self.file = ""
        return super().step(action)


class Stuck(Faulty):
    """Cannot be closed where it was stepped: the call never returns."""

    def close(self) -> None:
        if self.calls["step"]:
            time.sleep(3600)


class Drawing(CountEnv):
    """Observes numbers of Python's and NumPy's global generators, drawn in every call."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(9, column=rank)
        self.made = random.random()

    def _observation(self) -> np.ndarray:
        return np.array([self.made, random.random(), draw_from_numpy()], np.float32)


class Unpicklable(Exception):
    """Holds what cannot be pickled."""


class Rich(gymnasium.Env):
    """Observes a dict with an image and nested parts; masks, infos; all encode column and step."""

    def __init__(self, rank: int = 0, n: int = 5) -> None:
        self.rank, self.n, self.steps = rank, n + rank, 0
        box = spaces.Box(-np.inf, np.inf, (2,))
        image = spaces.Box(0, 255, (4, 4), np.uint8)
        inner = spaces.Dict({"box": box, "count": spaces.Discrete(1000)})
        self.observation_space = spaces.Dict({"image": image, "inner": inner})
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._arrival()

    def step(self, action: Any) -> Step:
        self.steps += 1
        return *self._arrival()[:1], float(self.steps), self.steps >= self.n, False, self._info()

    def _arrival(self) -> Any:
        image = np.full((4, 4), self.rank * 16 + self.steps, np.uint8)
        drawn = self.np_random.normal(size=2).astype(np.float32)
        return {"image": image, "inner": {"box": drawn, "count": self.steps}}, self._info()

    def _info(self) -> dict[str, Any]:
        mask = np.ones(3, np.int8)
        mask[(self.rank + self.steps) % 3] = 0
        return {"action_mask": mask, "level": 10.0 * self.rank + self.steps, "text": "hello"}


def masked(rank: int = 0) -> gymnasium.Env:
    """An environment that raises on an action that its mask does not allow."""
    return MaskEnv(4, n=5 + rank)


def informed(rank: int = 0) -> gymnasium.Env:
    """Infos of every kind."""
    return InfoEnv(3 + rank, column=rank)


class Halved(gymnasium.ObservationWrapper):
    """Half of what is observed."""

    def observation(self, observation: Any) -> Any:
        return observation / 2


def stream(sampler: Any, windows: int) -> Row:
    """The answered rows of some windows, [n, B], with environments begun anew."""
    sampler.reset()
    parts = []
    for _ in range(windows):
        rows = sampler.collect(None, 0).rows
        parts.append(tree_map(np.copy, rows[:-1]))
    return tree_map(lambda *xs: np.concatenate(xs), *parts)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """TimeoutError where the block takes longer, whatever it waits for."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
