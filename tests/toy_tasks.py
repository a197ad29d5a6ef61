"""Tasks with something to learn, whose values are known or whose frames are small."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from toys import Step


class TwoStateMDP(gymnasium.Env):
    """States 0 and 1, observed one-hot; action a moves to state a and earns REWARD[state, a].

    It starts in state 0, never ends unless `n` truncates it, and is solved by linear algebra.
    """

    REWARD = np.array([[0.0, 1.0], [2.0, -1.0]], np.float32)  # [state, action]

    def __init__(self, n: int | None = None) -> None:
        self.n, self.state, self.steps = n, 0, 0
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (2,)), spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state, self.steps = 0, 0
        return np.eye(2, dtype=np.float32)[0], {}

    def step(self, action: Any) -> Step:
        reward = float(self.REWARD[self.state, action])
        self.state, self.steps = int(action), self.steps + 1
        over = self.n is not None and self.steps >= self.n
        return np.eye(2, dtype=np.float32)[self.state], reward, False, over, {}

    @classmethod
    def optimal_q(cls, gamma: float) -> np.ndarray:
        """[state, action]; by value iteration to float64 rounding."""
        q = np.zeros((2, 2))
        for _ in range(int(40 / (1 - gamma))):
            q = cls.REWARD + gamma * q.max(1)[None]
        return q

    @classmethod
    def policy_values(cls, policy: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """V [state] and Q [state, action] of policy[state, action], exactly."""
        reward = (policy * cls.REWARD).sum(1)
        v = np.linalg.solve(np.eye(2) - gamma * policy, reward)
        return v, cls.REWARD + gamma * v[None]


class Frames(gymnasium.Env):
    """A dot on 6x6 pixels: the action moves it left or right, chance moves it down."""

    observation_space = spaces.Box(0, 255, (6, 6), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = [0, int(self.np_random.integers(6))]
        return self._frame(), {}

    def step(self, action: Any) -> Step:
        self.place[1] = (self.place[1] + (1 if action else -1)) % 6
        self.place[0] += int(self.np_random.integers(2))
        ended = self.place[0] > 5
        self.place[0] %= 6
        return self._frame(), float(ended and self.place[1] in (2, 3)), ended, False, {}

    def _frame(self) -> np.ndarray:
        frame = np.zeros((6, 6), np.uint8)
        frame[tuple(self.place)] = 255
        return frame


class LargeFrames(Frames):
    """The same on 54x54 pixels, of which DQN's network makes 576 features before its layer."""

    observation_space = spaces.Box(0, 255, (54, 54), np.uint8)

    def _frame(self) -> np.ndarray:
        return super()._frame().repeat(9, 0).repeat(9, 1)


class Chain(gymnasium.Env):
    """States in a row, observed one-hot: action 1 goes on, at the end for 1 and out of the episode;
    action 0 goes back to the first for 0.1. Truncated after `n` steps, which changes no value.
    """

    STATES = 4

    def __init__(self, n: int = 9) -> None:
        self.n, self.state, self.steps = n, 0, 0
        self.observation_space = spaces.Box(0.0, 1.0, (self.STATES,))
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state, self.steps = int(self.np_random.integers(self.STATES)), 0
        return np.eye(self.STATES, dtype=np.float32)[self.state], {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        out = bool(action) and self.state == self.STATES - 1
        self.state = 0 if out or not action else self.state + 1
        observation = np.eye(self.STATES, dtype=np.float32)[self.state]
        return observation, 1.0 if out else 0.1 * (not action), out, self.steps >= self.n, {}

    @classmethod
    def optimal_q(cls, gamma: float, backup: Any = None) -> np.ndarray:
        """[state, action]; `backup(q)` [state, action] -> [state] in place of the maximum."""
        q = np.zeros((cls.STATES, 2))
        for _ in range(int(60 / (1 - gamma))):
            v = q.max(1) if backup is None else backup(q)
            q[:, 0], q[:-1, 1], q[-1, 1] = 0.1 + gamma * v[0], gamma * v[1:], 1.0
        return q
