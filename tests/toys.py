"""Small environments: a mixed-up row, a wrong cast or a lost ending shows at once."""

from __future__ import annotations

import os
import time
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class CountEnv(gymnasium.Env):
    """Observes [1000 * episode + steps of this episode]; the reward is 1.

    With `column` the observation is [column, episode, steps] instead: a row says whose it is. `gap`
    is added to n with every episode, so that columns do not end together.
    """

    def __init__(
        self,
        n: int = 5,
        end: Literal["term", "trunc", "both", "never"] = "term",
        gap: int = 0,
        column: int | None = None,
    ) -> None:
        self.n, self.end, self.gap, self.column = n, end, gap, column
        self.observation_space = spaces.Box(-np.inf, np.inf, (1 if column is None else 3,))
        self.action_space = spaces.Discrete(2)
        self.episode, self.steps = -1, 0

    def _observation(self) -> np.ndarray:
        if self.column is None:
            return np.array([1000 * self.episode + self.steps], np.float32)
        return np.array([self.column, self.episode, self.steps], np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        over = self.steps >= self.n + self.gap * self.episode
        terminated = over and self.end in ("term", "both")
        truncated = over and self.end in ("trunc", "both")
        return self._observation(), 1.0, terminated, truncated, {}


class BoundsEnv(gymnasium.Env):
    """Asserts that its action is in its space; `least` and `most` are the extremes seen."""

    def __init__(self, low: Any = -1.0, high: Any = 1.0, dtype: Any = np.float32) -> None:
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) or (1,)
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        self.action_space = spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,))
        self.least, self.most = np.full(shape, np.inf), np.full(shape, -np.inf)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Step:
        assert isinstance(action, np.ndarray)
        assert action.dtype == self.action_space.dtype
        assert self.action_space.contains(action), action
        self.least, self.most = np.minimum(self.least, action), np.maximum(self.most, action)
        return np.zeros(2, np.float32), 0.0, False, False, {}


class SpaceZooEnv(gymnasium.Env):
    """Random observations of any space; asserts that its actions are contained in any other.

    `observed` and `acted` keep everything that went out and came in.
    """

    def __init__(self, observation: spaces.Space, action: spaces.Space, n: int = 4) -> None:
        self.observation_space, self.action_space, self.n = observation, action, n
        self.observed: list[Any] = []
        self.acted: list[Any] = []
        self.steps = 0

    def _observe(self) -> Any:
        self.observed.append(self.observation_space.sample())
        return self.observed[-1]

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.acted.append(action)
        self.steps += 1
        return self._observe(), 1.0, self.steps >= self.n, False, {}


class CrashEnv(gymnasium.Env):
    """Fails in the given place: in the k-th reset or step (from 0), its constructor or close."""

    def __init__(
        self,
        where: Literal["init", "reset", "step", "close", "nowhere"] = "step",
        k: int = 0,
        how: Literal[
            "raise", "unpicklable", "exit", "kill", "sleep", "system exit", "ctrl-c"
        ] = "raise",
    ) -> None:
        self.where, self.k, self.how = where, k, how
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)
        self.calls = {"init": 0, "reset": 0, "step": 0, "close": 0}
        self._crash_when_due("init")

    def _crash_when_due(self, place: str) -> None:
        call = self.calls[place]
        self.calls[place] += 1
        if place != self.where or call < (self.k if place in ("reset", "step") else 0):
            return
        match self.how:
            case "raise":
                raise RuntimeError(f"crash in {place}")
            case "unpicklable":
                raise Unpicklable(f"crash in {place}")
            case "exit":
                os._exit(7)
            case "kill":
                os.kill(os.getpid(), 9)
            case "sleep":
                time.sleep(3600)
            case "system exit":
                raise SystemExit(0)
            case "ctrl-c":
                raise KeyboardInterrupt

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._crash_when_due("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Step:
        self._crash_when_due("step")
        return np.zeros(1, np.float32), 0.0, self.calls["step"] % 10 == 0, False, {}

    def close(self) -> None:
        self._crash_when_due("close")


class Unpicklable(RuntimeError):
    """An exception that cannot be sent to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class AliasEnv(gymnasium.Env):
    """Returns one array for ever and changes it in place: [resets and steps so far]."""

    def __init__(self, n: int = 5) -> None:
        self.n = n
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,))
        self.action_space = spaces.Discrete(2)
        self.array, self.steps = np.zeros(1, np.float32), 0

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.steps = 0
        self.array += 1
        return self.array, {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        self.array += 1
        return self.array, 1.0, self.steps >= self.n, False, {}


class MutateActionEnv(gymnasium.Env):
    """Overwrites the action array that it is given; the reward is what the action held before."""

    def __init__(self, n: int = 5) -> None:
        self.n, self.steps = n, 0
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> Step:
        self.steps += 1
        reward = float(action[0])
        action[:] = 77.0
        return np.zeros(1, np.float32), reward, self.steps >= self.n, False, {}


class SeedEnv(gymnasium.Env):
    """Observes the next draw of its own generator: equal observations mean equal seeds."""

    def __init__(self, n: int = 3) -> None:
        self.n, self.steps = n, 0
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2)

    def _observation(self) -> np.ndarray:
        return self.np_random.random(1, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self.steps += 1
        return self._observation(), 1.0, self.steps >= self.n, False, {}


class SlowEnv(CountEnv):
    """A CountEnv whose steps take `delay * (rank + 1)` seconds."""

    def __init__(self, delay: float = 0.001, rank: int = 0, n: int = 5) -> None:
        super().__init__(n, column=rank)
        self.delay = delay * (rank + 1)

    def step(self, action: Any) -> Step:
        time.sleep(self.delay)
        return super().step(action)


class MemoryEnv(gymnasium.Env):
    """Shows one of `cues` at the first step only; its number is the right action `delay` later.

    A memoryless policy earns 1/cues on average, one that remembers earns 1.
    """

    def __init__(self, cues: int = 2, delay: int = 3) -> None:
        self.cues, self.delay = cues, delay
        self.observation_space = spaces.Box(0.0, 1.0, (cues + 1,))
        self.action_space = spaces.Discrete(cues)
        self.cue, self.steps = 0, 0

    def _observation(self) -> np.ndarray:
        seen = np.zeros(self.cues + 1, np.float32)
        if self.steps == 0:
            seen[self.cue] = 1.0
        seen[-1] = float(self.steps == self.delay)  # "now"
        return seen

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.cue, self.steps = int(self.np_random.integers(self.cues)), 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        over = self.steps == self.delay
        self.steps += 1
        return self._observation(), float(over and action == self.cue), over, False, {}


class InfoEnv(CountEnv):
    """A CountEnv with infos of every kind: late, dotted, textual, None, changing their shape."""

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, _ = super().step(action)
        info: dict[str, Any] = {
            "steps": self.steps,
            "speed.x": 0.5 * self.steps,
            "text": "hello",
            "none": None,
            "growing": np.zeros(self.steps),
            "flag": np.bool_(self.steps % 2),
            "scalar": np.array(3.0),
            "nested": {"inner": 1},
        }
        if self.steps >= 3:
            info["late"] = float(self.steps)
        return observation, reward, terminated, truncated, info


class MaskEnv(gymnasium.Env):
    """Raises on an invalid action; from one to all of its actions are valid.

    The mask comes in the observation ("action_mask" of a Dict), or in the info of reset and step.
    """

    def __init__(
        self, actions: int = 4, where: Literal["observation", "info"] = "info", n: int = 6
    ) -> None:
        self.actions, self.where, self.n, self.steps = actions, where, n, 0
        state = spaces.Box(0.0, np.inf, (1,))
        mask = spaces.MultiBinary(actions)
        masked = spaces.Dict({"action_mask": mask, "state": state})
        self.observation_space = masked if where == "observation" else state
        self.action_space = spaces.Discrete(actions)
        self.mask = np.ones(actions, np.int8)

    def _arrival(self) -> tuple[Any, dict]:
        self.mask = (self.np_random.random(self.actions) < 0.4).astype(np.int8)
        self.mask[self.np_random.integers(self.actions)] = 1
        state = np.array([self.steps], np.float32)
        if self.where == "observation":
            return {"state": state, "action_mask": self.mask.copy()}, {}
        return state, {"action_mask": self.mask.copy()}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.steps = 0
        return self._arrival()

    def step(self, action: Any) -> Step:
        if not self.mask[action]:
            raise ValueError(f"action {action} is invalid; the mask was {self.mask.tolist()}")
        self.steps += 1
        observation, info = self._arrival()
        return observation, 1.0, self.steps >= self.n, False, info


class LengthReturnEnv(CountEnv):
    """Return = length, 2 ** (rank + 1) in column `rank`: counting early finishers twice shows."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(2 ** (rank + 1), column=rank)
