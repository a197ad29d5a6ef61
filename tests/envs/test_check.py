from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_tasks import TwoStateMDP
from toys import (
    AliasEnv,
    BoundsEnv,
    CountEnv,
    CrashEnv,
    LengthReturnEnv,
    MaskEnv,
    MemoryEnv,
    MutateActionEnv,
    SeedEnv,
    SpaceZooEnv,
)

from rlpyt.envs.check import check


class Toy(gymnasium.Env):
    """A faultless environment, of which tests break one thing each."""

    observation_space: Any = spaces.Box(-1.0, 1.0, (2,))
    action_space: Any = spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = 0

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def answer(self) -> Any:
        return self.observe(), 1.0, self.steps >= 5, False, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.answer()


def broken(**parts: Any) -> gymnasium.Env:
    return type("Broken", (Toy,), parts)()


def findings(env: Any, **options: Any) -> list[str]:
    return [str(finding) for finding in check(env, steps=60, **options)]


def answer(**changes: Any):
    """A step whose result differs in these places."""

    def step(self: Toy) -> Any:
        names = ("observation", "reward", "terminated", "truncated", "info")
        faultless = dict(zip(names, Toy.answer(self), strict=True))
        return tuple((faultless | changes).values())

    return step


def test_nothing_is_found_in_faultless_environments():
    taxi = gymnasium.wrappers.TimeLimit(gymnasium.make("Taxi-v4"), 20)
    masked = (MaskEnv(4, "info"), MaskEnv(4, "observation"), taxi)
    plain = (Toy(), SeedEnv(), MemoryEnv(), TwoStateMDP(5), gymnasium.make("CartPole-v1"))
    for env in (*plain, *masked):
        assert findings(env) == [], env


def test_what_is_unusual_and_handled_is_a_note():
    assert any(f.startswith("note: the same array") for f in findings(AliasEnv()))
    assert any(f.startswith("note: step() changes the action") for f in findings(MutateActionEnv()))
    assert any(f.startswith("note: no episode ended") for f in findings(CountEnv(end="never")))
    assert findings(gymnasium.make("MountainCar-v0")) == []  # it has a time limit
    half = BoundsEnv(np.float32([0, -1]), np.float32([np.inf, 1]))
    assert any("action has dimensions without two finite bounds" in f for f in findings(half))


def test_both_endings_at_once_and_truncation_alone_are_fine():
    for end in ("trunc", "both"):
        assert not any("error" in f for f in findings(CountEnv(end=end)))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (broken(reset=lambda self: (self.observe(), {})), "error: reset() takes no seed"),
        (
            broken(reset=lambda self, *, seed=None, options=None: self.observe()),
            "error: reset() returned array",
        ),
        (
            broken(
                observation_space=spaces.Tuple((spaces.Discrete(2), spaces.Dict({}))),
                reset=lambda self, *, seed=None, options=None: (1, {}),
            ),
            "error: reset() returned (1, {}); return (observation, info)",
        ),
        (broken(answer=lambda self: (self.observe(), 1.0, False, {})), "error: step() returned ("),
        (broken(answer=answer(reward=None)), "error: the reward is None"),
        (broken(answer=answer(reward=np.nan)), "error: the reward is nan"),
        (broken(answer=answer(reward=np.ones(2))), "error: the reward is array"),
        (broken(answer=answer(reward=np.ones(1))), "warning: the reward is array"),
        (broken(answer=answer(terminated=None)), "error: terminated is None"),
        (broken(answer=answer(truncated=1)), "warning: truncated is 1, stored as True"),
        (broken(answer=answer(info=None)), "error: step() returned the info None"),
        (broken(answer=answer(info={"final_obs": 1})), "error: an info holds a final observation"),
        (broken(observe=lambda self: np.zeros(2)), "warning: reset(): observation is float64"),
        (broken(observe=lambda self: [0.0, 0.0]), "warning: reset(): observation is a list"),
        (
            broken(observe=lambda self: np.float32([0, 2])),
            "warning: reset(): observation[1] is 2.0, outside its bounds -1.0 to 1.0",
        ),
        (
            broken(observe=lambda self: np.float32([0, np.nan])),
            "error: reset(): observation is not finite",
        ),
        (broken(observe=lambda self: np.zeros(3)), "error: observation: expected shape (2,)"),
        (
            broken(observe=lambda self: np.random.default_rng().random(2, np.float32)),
            "warning: reset(seed=7) twice gave two different first observations",
        ),
        (broken(action_space=None), "error: action_space is not set"),
        (broken(action_space=spaces.Text(3)), "error: the action space Text"),
        (
            broken(
                observation_space=spaces.Box(0.0, 1.0, (32, 32, 3)),
                observe=lambda self: np.zeros((32, 32, 3), np.float32),
            ),
            "warning: observation looks like an image",
        ),
        (broken(snapshot=lambda self: {}, restore=lambda self, x: None), "error: after restore"),
        (CrashEnv("reset"), "error: reset(seed=0) raised RuntimeError: crash in reset"),
        (CrashEnv("step", 3), "error: step("),
        (gymnasium.wrappers.Autoreset(Toy()), "error: the wrapper Autoreset"),
        (
            SyncVectorEnv([Toy], autoreset_mode=AutoresetMode.SAME_STEP),
            "error: SyncVectorEnv: the vector environment",
        ),
        (SyncVectorEnv([Toy]), "note: a vector environment is not checked"),
        (None, "error: None is no gymnasium.Env"),
    ],
)
def test_a_fault_is_found_and_comes_first(env, message):
    assert findings(env)[0].startswith(message), findings(env)


def test_a_mask_without_a_valid_action_is_an_error_except_at_the_end():
    class NoChoice(MaskEnv):
        def _arrival(self):
            observation, info = super()._arrival()
            info["action_mask"] = np.zeros(4) if self.steps == self.worst else self.mask
            return observation, info

    env = NoChoice(4, "info", n=6)
    env.worst = 3
    assert findings(env)[0].startswith("error: action_mask allows no action")
    env.worst = 6
    assert findings(env) == []


def test_keys_beyond_the_space_are_told_of():
    space = spaces.Dict({"a": spaces.Discrete(2)})
    env = broken(observation_space=space, observe=lambda self: {"a": 1, "b": 2})
    assert findings(env)[0].startswith("warning: reset(): observation has keys")


def test_every_message_has_a_remedy_after_its_fault():
    broken_ones = [broken(answer=answer(reward=None)), broken(observe=lambda self: np.zeros(2))]
    for env in broken_ones:
        assert all(";" in f for f in findings(env))


def test_spaces_of_every_kind_are_played():
    pair = spaces.Tuple((spaces.MultiDiscrete([2, 3], start=[1, -1]), spaces.MultiBinary([2, 2])))
    env = SpaceZooEnv(
        spaces.Dict({"x": pair}), spaces.Dict({"y": pair, "z": spaces.Discrete(3, start=1)})
    )
    assert findings(env) == []
    assert findings(LengthReturnEnv(1))[0].startswith("warning: reset(seed=7)")
