"""Environments that now and then observe or reward what is not finite."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from toys import CountEnv, Step


class Spoilt(CountEnv):
    """A seeded share of steps, and of resets, gives a NaN or an infinity, but not in column 0.

    Ends by chance, seeded too.

    Args:
        rank: its column.
        share: of steps, in which the observation is not finite; in as many the reward is not.
        box: whether actions are numbers.
    """

    def __init__(self, rank: int = 0, share: float = 0.05, box: bool = False) -> None:
        super().__init__(column=rank, end="never")
        self.share = share if rank else 0.0
        if box:
            self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed)
        observation[1] = self.np_random.random()
        return self._spoilt(observation, self.np_random.random()), info

    def step(self, action: Any) -> Step:
        observation, reward, *_ = super().step(action)
        observation[1], drawn, ends = self.np_random.random(3)
        if 0.5 < drawn < 0.5 + self.share:
            reward = np.inf
        return self._spoilt(observation, drawn), reward, ends < 0.1, False, {}

    def _spoilt(self, observation: np.ndarray, drawn: float) -> np.ndarray:
        if drawn < self.share:
            observation[2] = (np.nan, -np.inf)[int(drawn < self.share / 2)]
        return observation


class Broken(CountEnv):
    """A CountEnv in which one column's calls of these numbers give a NaN; resets are calls, too.

    Args:
        rank: its column.
        column: that which is broken.
        calls: of it, counted from 0, and `ever` after so many.
        field: "observation" or "reward"; that of a reset is the observation.
    """

    def __init__(
        self,
        rank: int = 0,
        column: int = 1,
        calls: tuple[int, ...] = (),
        ever: int = 1_000_000,
        field: str = "observation",
        n: int = 4,
    ) -> None:
        super().__init__(n, column=rank)
        self.broken, self.at, self.ever, self.field = rank == column, calls, ever, field
        self.calls = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed)
        return self._broken(observation) if self._due() else observation, info

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, _ = super().step(action)
        if self._due():
            if self.field == "reward":
                reward = np.nan
            else:
                self._broken(observation)
        return observation, reward, terminated, truncated, {"steps": self.steps}

    def _due(self) -> bool:
        self.calls += 1
        return self.broken and (self.calls - 1 in self.at or self.calls > self.ever)

    def _broken(self, observation: np.ndarray) -> np.ndarray:
        observation[2] = np.nan
        return observation


class Parts(gymnasium.Env):
    """Observes a Dict of which the vector is a NaN at step 3; there is an image beside it."""

    def __init__(self) -> None:
        image = spaces.Box(0, 255, (4, 4), np.uint8)
        vector = spaces.Box(-1.0, 1.0, (2, 2))
        self.observation_space = spaces.Dict({"image": image, "inner": spaces.Dict({"x": vector})})
        self.action_space = spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        return self._observation(), 1.0, False, False, {}

    def _observation(self) -> Any:
        x = np.zeros((2, 2), np.float32)
        x[1, 0] = np.nan if self.steps == 3 else 0.0
        return {"image": np.zeros((4, 4), np.uint8), "inner": {"x": x}}
