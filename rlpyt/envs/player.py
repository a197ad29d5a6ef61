"""Plays an environment with random valid actions and notes what is wrong with what comes back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from rlpyt.arrays import tree_items
from rlpyt.envs.actions import action_reader
from rlpyt.envs.exits import no_exit
from rlpyt.envs.masks import MASK, valid_actions
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spec import (
    Box,
    Discrete,
    EnvSpec,
    Leaf,
    MultiDiscrete,
    Spec,
    example,
    leaves,
    not_finite,
)
from rlpyt.storage import zeros


@dataclass(frozen=True)
class Finding:
    """One thing to know about an environment.

    An error makes training impossible or wrong; a warning costs something or may be a mistake; a
    note says how something unusual is handled.
    """

    severity: Literal["error", "warning", "note"]
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


class Stop(Exception):
    """Nothing more can be found out."""


@dataclass
class Findings:
    """The first finding of each kind."""

    by_kind: dict[str, Finding] = field(default_factory=dict)

    def error(self, kind: str, message: str) -> Stop:
        """Returns what to raise where the error ends the check."""
        self.by_kind.setdefault(kind, Finding("error", message))
        return Stop()

    def warning(self, kind: str, message: str) -> None:
        """Keep a warning."""
        self.by_kind.setdefault(kind, Finding("warning", message))

    def note(self, kind: str, message: str) -> None:
        """Keep a note."""
        self.by_kind.setdefault(kind, Finding("note", message))

    def worst_first(self) -> list[Finding]:
        """Errors, then warnings, then notes, each in the order found."""
        order = ("error", "warning", "note")
        return sorted(self.by_kind.values(), key=lambda finding: order.index(finding.severity))


class Player:
    """Steps an environment and looks at all that comes back."""

    def __init__(self, env: gymnasium.Env[Any, Any], spec: EnvSpec, found: Findings) -> None:
        self.env, self.spec, self.found = env, spec, found
        self._read = action_reader(env.action_space, spec.action)
        self._write = observation_writer(env.observation_space, spec.observation)
        self._storage = zeros(example(spec.observation), (1,))
        self._before: Any = None  # observation of the step before

    def play(self, steps: int) -> None:
        """Some episodes, `steps` steps in all."""
        rng = np.random.default_rng(0)
        mask, episodes = self.reset(0), 0
        for _ in range(steps):
            mask, last = self.step(self.draw(rng, mask))
            if last:
                episodes += 1
                mask = self.reset(episodes)
        limited = self.env.spec is not None and self.env.spec.max_episode_steps is not None
        if not episodes and not limited:
            self.found.note(
                "endless",
                f"no episode ended in {steps} steps; if none ever does, no training return is "
                "reported and evaluation cuts them: --max-episode-steps truncates them",
            )

    def reset(self, seed: int) -> Any:
        """Begin an episode; its first mask."""
        observation, info = self._call(f"reset(seed={seed})", lambda: self.env.reset(seed=seed))
        self._look_at(observation, "reset()")
        return self._mask(observation, info, last=False)

    def step(self, action: Any) -> tuple[Any, bool]:
        """One step; the next mask, and whether the episode ended."""
        given = copy.deepcopy(action)
        result = self._call(f"step({short(action)})", lambda: self.env.step(action))
        if not isinstance(result, tuple) or len(result) != 5:
            raise self.found.error(
                "step",
                f"step() returned {short(result)}; return (observation, reward, terminated, "
                "truncated, info), with terminated where the task ended and truncated at a limit",
            )
        observation, reward, terminated, truncated, info = result
        if not _equal(given, action):
            self.found.note(
                "mutates",
                "step() changes the action that it is given; it is given a copy, so that the "
                "stored action stays what the policy chose",
            )
        self._look_at(observation, "step()")
        self._look_at_reward(reward)
        last = self._flag("terminated", terminated) | self._flag("truncated", truncated)
        if not isinstance(info, dict):
            raise self.found.error(
                "info", f"step() returned the info {short(info)}; return a dict, {{}} if empty"
            )
        if "final_observation" in info or "final_obs" in info:
            self.found.error(
                "autoreset",
                "an info holds a final observation, so the environment resets itself; return the "
                "final observation as the observation, and wait for reset()",
            )
        return self._mask(observation, info, last), last

    def draw(self, rng: np.random.Generator, mask: Any = None) -> Any:
        """A random action of the environment, one that the mask allows."""
        action = zeros(example(self.spec.action), (1,))
        parts = dict(leaves(self.spec.action))
        for path, array in tree_items(action):
            array[0] = _draw(parts[path], rng, mask)
        return self._read(action)[0]

    def episode(self, seed: int, steps: int) -> list[list[bytes]]:
        """What is stored of the observations of an episode's beginning."""
        rng = np.random.default_rng(seed)
        observation, info = self.env.reset(seed=seed)
        seen, last = [self.stored(observation)], False
        while len(seen) <= steps and not last:
            action = self.draw(rng, self._mask(observation, info, last=False))
            observation, _, terminated, truncated, info = self.env.step(action)
            seen.append(self.stored(observation))
            last = bool(terminated or truncated)
        return seen

    def stored(self, observation: Any) -> list[bytes]:
        """An observation as it is stored, to compare it with another."""
        self._write(self._storage, 0, observation)
        return [array.tobytes() for _, array in tree_items(self._storage)]

    def _call(self, call: str, function: Callable[[], Any]) -> Any:
        try:
            with no_exit(call):
                return function()
        except Exception as error:
            message = f"{call} raised {type(error).__name__}: {error}"
            raise self.found.error("raises", message) from error

    def _look_at(self, observation: Any, call: str) -> None:
        if observation is self._before and isinstance(observation, np.ndarray):
            self.found.note(
                "alias",
                "the same array is returned at every step; it is copied on arrival, so that "
                "earlier observations stay as they were",
            )
        self._before = observation
        self._write(self._storage, 0, observation)
        for where in not_finite(self.spec.observation, self._storage, "observation"):
            self.found.error(
                "finite",
                f"{call}: {where} is not finite: {short(observation)}; training stops where that "
                "happens",
            )
        why = why_not_contained(self.env.observation_space, observation)
        if why is not None:
            self.found.warning("contains", f"{call}: {why}")

    def _look_at_reward(self, reward: Any) -> None:
        array = np.asarray(reward)
        if array.dtype.kind not in "biuf" or array.size != 1:
            raise self.found.error("reward", f"the reward is {short(reward)}; return a float")
        if not np.isfinite(array).all():
            self.found.error("reward", f"the reward is {array.item()}; return a finite one")
        elif isinstance(reward, np.ndarray | list):
            stored = f"{short(reward)}, stored as {array.item()}"
            self.found.warning("reward", f"the reward is {stored}; return a float")

    def _flag(self, name: str, value: Any) -> bool:
        if isinstance(value, bool | np.bool_):
            return bool(value)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or array.size != 1:
            raise self.found.error(name, f"{name} is {short(value)}; return a bool")
        flag = bool(array.item())
        self.found.warning(name, f"{name} is {short(value)}, stored as {flag}; return a bool")
        return flag

    def _mask(self, observation: Any, info: dict[str, Any], last: bool) -> Any:
        if self.spec.mask is None or last:
            return None
        mask = (observation if self.spec.mask == "observation" else info).get(MASK)
        if mask is None:
            self.found.warning(
                "mask",
                f"the info has no {MASK} at some steps: every action is allowed there; give it in "
                "reset() and step()",
            )
            return None
        mask = valid_actions(mask, self.spec.mask_size)
        if not all(part.any() for part in _components(self.spec.action, mask)):
            raise self.found.error(
                "mask",
                f"{MASK} allows no action before the episode's end; end the episode there "
                "(terminated), or allow one that does nothing",
            )
        return mask


def _draw(leaf: Leaf, rng: np.random.Generator, mask: Any) -> Any:
    match leaf:
        case Box(shape):
            return rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], shape)
        case Discrete() | MultiDiscrete() if mask is not None:
            chosen = [rng.choice(np.flatnonzero(part)) for part in _components(leaf, mask)]
            return chosen if isinstance(leaf, MultiDiscrete) else chosen[0]
        case Discrete(n):
            return rng.integers(n)
        case MultiDiscrete(nvec):
            return rng.integers(nvec)
        case _:
            return rng.random(leaf.shape) < 0.5


def _components(action: Spec, mask: np.ndarray) -> list[np.ndarray]:
    """The mask of each choice that an action consists of."""
    return (
        np.split(mask, np.cumsum(action.nvec)[:-1]) if isinstance(action, MultiDiscrete) else [mask]
    )


def why_not_contained(
    space: spaces.Space[Any], value: Any, path: str = "observation"
) -> str | None:
    """The first leaf that is not in its space, and why; None if they all are."""
    if isinstance(space, spaces.Dict):
        extra = [key for key in value if key not in space.spaces]
        if extra:
            return f"{path} has keys that its space has not, which are left out: {extra}"
        parts = [(space[key], value[key], f"{path}.{key}") for key in space.spaces]
    elif isinstance(space, spaces.Tuple):
        parts = [(p, x, f"{path}.{i}") for i, (p, x) in enumerate(zip(space, value, strict=True))]
    elif isinstance(value, list | tuple | float):
        return f"{path} is a {type(value).__name__}, cast at every step; return an array"
    elif space.contains(value):
        return None
    else:
        return _why_not_in_leaf(space, value, path)
    return next((why for part in parts if (why := why_not_contained(*part))), None)


def _why_not_in_leaf(space: spaces.Space[Any], value: Any, path: str) -> str:
    array = np.asarray(value)
    if space.dtype is not None and not np.can_cast(array.dtype, space.dtype):
        return (
            f"{path} is {array.dtype} where its space declares {space.dtype}, cast at every step; "
            "return the dtype of the space"
        )
    if isinstance(space, spaces.Box):
        beyond = (array < space.low) | (array > space.high)
        if beyond.any():
            at = tuple(map(int, np.argwhere(beyond)[0]))
            return (
                f"{path}{list(at)} is {array[at]}, outside its bounds {space.low[at]} to "
                f"{space.high[at]}; widen the space, or clip the value"
            )
    return f"{path}: {short(value)} is not in {space}"


def short(value: Any) -> str:
    """A value in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_equal(a[key], b.get(key)) for key in a)
    if isinstance(a, tuple):
        return all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b)
