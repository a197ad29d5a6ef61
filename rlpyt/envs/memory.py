"""Small tasks that cannot be solved by what is seen now: importing this registers them.

| id | source | with memory | the best without |
|---|---|---|---|
| rlpyt/CartPolePositions-v0 | Gomez and Miikkulainen (1999) | 500 | about 50 |
| rlpyt/PendulumPositions-v0 | sb3-contrib's PendulumNoVel | about -150 | |
| rlpyt/RepeatPrevious-v0 | POPGym: Morad et al. (2023) | 1 | about -0.49 |
| rlpyt/TMaze-v0 | Bakker (2001) | 4 | 1.95 |
| rlpyt/CueDelay-v0 | bsuite's memory_len: Osband et al. (2020) | 1 | 0 |
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.spaces import Box, Discrete

from rlpyt.errors import UsageError

Step = tuple[Any, float, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]


class CartPolePositions(CartPoleEnv):
    """CartPole without its velocities: observes [x, angle].

    A memory of two observations is enough. sb3-contrib calls it CartPoleNoVel and says that a
    feed-forward policy "doesn't get more than ~50".
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        high = np.array([2 * self.x_threshold, 2 * self.theta_threshold_radians], np.float32)
        self.observation_space = Box(-high, high)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation[::2], info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation[::2], reward, terminated, truncated, info


class PendulumPositions(PendulumEnv):
    """Pendulum without its velocity: observes [cos, sin] of the angle."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = Box(-1.0, 1.0, (2,))

    def _get_obs(self) -> np.ndarray:
        return super()._get_obs()[:2]


class RepeatPrevious(gymnasium.Env[np.int64, np.int64]):
    """Cards are dealt one by one; name the suit of the one dealt k - 1 cards before this one.

    A right answer earns 1 / (cards - k), a wrong one costs as much, and before k cards are out
    nothing counts: returns lie in [-1, 1]. POPGym's easy task is decks=1, k=4, its medium one
    decks=2, k=32, its hard one decks=3, k=64. Here the end of the deck terminates the episode
    (POPGym says truncated, though there is nothing to come).

    Args:
        decks: decks of 52 cards shuffled together.
        k: cards to remember, this one included.
    """

    def __init__(self, decks: int = 1, k: int = 4) -> None:
        self._cards, self._k = 52 * decks, k
        if not 1 <= k < self._cards:
            raise UsageError(f"k={k} of {decks} decks must be from 1 to {self._cards - 1}")
        self.observation_space = Discrete(4)
        self.action_space = Discrete(4)
        self._suits: list[int] = []
        self._dealt = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._suits = self.np_random.permutation(np.arange(self._cards) % 4).tolist()
        self._dealt = 1
        return self._suits[0], {}

    def step(self, action: int | np.int64) -> Step:
        reward = 0.0
        if self._dealt >= self._k:
            right = action == self._suits[self._dealt - self._k]
            reward = (1 if right else -1) / (self._cards - self._k)
        suit = self._suits[self._dealt]
        self._dealt += 1
        return suit, reward, self._dealt == self._cards, False, {}


class TMaze(gymnasium.Env[np.ndarray, np.int64]):
    """A corridor with a sign at its start that says where to turn at its end (Bakker, 2001).

    Observes three bits: 011 or 110 at the start, whose sign says north or south; 101 in the
    corridor; 010 at the junction. Actions: north, east, south, west. The right turn earns 4, the
    wrong one -0.1, and either ends the episode; a step against a wall costs 0.1. Truncated after
    ten times the steps that it takes, which is not in the paper.

    Args:
        length: steps from the start to the junction.
    """

    def __init__(self, length: int = 10) -> None:
        if length < 1:
            raise UsageError(f"length={length} of the corridor must be at least 1")
        self._length = length
        self.observation_space = Box(0.0, 1.0, (3,))
        self.action_space = Discrete(4)
        self._position = self._steps = self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._turn = 2 * int(self.np_random.integers(2))  # the action that is right
        self._position = self._steps = 0
        return self._observation(), {}

    def step(self, action: int | np.int64) -> Step:
        self._steps += 1
        truncated = self._steps >= 10 * (self._length + 1)
        if self._position == self._length and action in (0, 2):
            reward = 4.0 if action == self._turn else -0.1
            return self._observation(), reward, True, truncated, {}
        moved = {1: 1, 3: -1}.get(int(action), 0)
        position = min(max(self._position + moved, 0), self._length)
        reward = -0.1 if position == self._position else 0.0
        self._position = position
        return self._observation(), reward, False, truncated, {}

    def _observation(self) -> np.ndarray:
        if self._position == self._length:
            bits = (0, 1, 0)
        elif self._position == 0:
            bits = (1, 1, 0) if self._turn else (0, 1, 1)
        else:
            bits = (1, 0, 1)
        return np.array(bits, np.float32)


class CueDelay(gymnasium.Env[np.ndarray, np.int64]):
    """A cue is seen once, at first; `delay` steps later it must be named (bsuite's memory_len).

    Observes [share of the time that is left, 1 when it is time to answer, the cue as -1 or 1 at
    first and 0 after]. The answer earns 1 or -1 and ends the episode of delay + 1 steps; all
    actions before it do nothing.

    Args:
        delay: steps between the cue and the question.
    """

    def __init__(self, delay: int = 10) -> None:
        if delay < 1:
            raise UsageError(f"delay={delay} must be at least 1")
        self._delay = delay
        self.observation_space = Box(np.array([0, 0, -1], np.float32), np.ones(3, np.float32))
        self.action_space = Discrete(2)
        self._time = self._cue = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._time, self._cue = 0, int(self.np_random.integers(2))
        return self._observation(), {}

    def step(self, action: int | np.int64) -> Step:
        if self._time == self._delay:
            reward = 1.0 if action == self._cue else -1.0
            return self._observation(), reward, True, False, {}
        self._time += 1
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> np.ndarray:
        cue = 2 * self._cue - 1 if self._time == 0 else 0
        left = 1 - self._time / self._delay
        return np.array([left, self._time == self._delay, cue], np.float32)


for _task, _limit in (
    (CartPolePositions, 500),
    (PendulumPositions, 200),
    (RepeatPrevious, None),
    (TMaze, None),
    (CueDelay, None),
):
    gymnasium.register(
        id=f"rlpyt/{_task.__name__}-v0",
        entry_point=f"{__name__}:{_task.__name__}",
        max_episode_steps=_limit,
    )
