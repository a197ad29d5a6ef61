"""Environments go on as if they had not stopped: stepped again, by their own snapshot, or cut."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformReward
from stepping import go_on, in_process, saved, step
from toys import CountEnv, MaskEnv, SeedEnv, SpaceZooEnv

from rlpyt.arrays import tree_items, tree_map
from rlpyt.envs.own_snapshots import has_snapshots
from rlpyt.errors import EnvironmentFault
from rlpyt.vector import action_log


class OwnSnapshot(SeedEnv):
    """Cannot be stepped again: it observes how many of its kind were made before it."""

    made = 0

    def __init__(self, n=3):
        super().__init__(n)
        OwnSnapshot.made += 1
        self.serial = OwnSnapshot.made
        self.observation_space = spaces.Box(0.0, np.inf, (1,))

    def _observation(self):
        return super()._observation() + np.float32(self.serial)

    def snapshot(self):
        generator = json.dumps(self.np_random.bit_generator.state).encode()
        counts = np.array([self.steps, self.serial])
        return {"counts": counts, "generator": np.frombuffer(generator, np.uint8)}

    def restore(self, state):
        self.steps, self.serial = state["counts"].tolist()
        self.np_random.bit_generator.state = json.loads(state["generator"].tobytes())


def act_by_row(t, row):
    """Actions that depend on the row's number alone."""
    rng = np.random.default_rng(t)

    def draw(x):
        x[...] = rng.integers(2, size=x.shape) if x.dtype.kind == "i" else rng.normal(size=x.shape)

    tree_map(draw, row.action)


def dict_actions(b):
    actions = spaces.Dict(go=spaces.Discrete(2), at=spaces.Box(-1, 1, (2,)))
    return SpaceZooEnv(spaces.Box(-1, 1, (3,)), actions, n=4 + b)


FACTORIES = {
    "seed and actions": lambda b: gymnasium.make("CartPole-v1"),
    "time limit": lambda b: gymnasium.make("Pendulum-v1", max_episode_steps=7 + b),
    "composite actions": dict_actions,
    "masks": lambda b: MaskEnv(actions=1, n=5 + b),
}


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("at", range(5, 14))
def test_an_environment_stepped_again_goes_on_as_if_it_had_not_stopped(kind, at):
    act = None if kind == "masks" else act_by_row
    envs = in_process(FACTORIES[kind], 3)
    whole = step(envs, 25, act)
    stopped = in_process(FACTORIES[kind], 3)
    rows = step(stopped, at, act)
    state = saved(stopped.snapshot())
    resumed = in_process(FACTORIES[kind], 3)
    longer = tree_map(np.zeros_like, whole)
    longer[: at + 1] = rows
    assert resumed.restore(state, longer[at]) == []
    go_on(resumed, longer, at, act)
    for (path, x), (_, y) in zip(tree_items(whole), tree_items(longer), strict=True):
        assert x.tobytes() == y.tobytes(), path
    again = saved(resumed.snapshot())
    assert again["resets"].tolist() == saved(envs.snapshot())["resets"].tolist()


@pytest.mark.parametrize("limit", [None, 6])
@pytest.mark.parametrize("at", [5, 6, 7, 9])
def test_an_environments_own_snapshot_is_used_and_its_time_limit_goes_on(limit, at):
    def make(b):
        return OwnSnapshot(5 + b) if limit is None else TimeLimit(OwnSnapshot(50), limit + b)

    stopped = in_process(make, 2)
    rows = step(stopped, at)
    state = saved(stopped.snapshot())
    assert set(state["own"]) == {"0", "1"}
    after = tree_map(lambda x: np.concatenate([x, np.zeros((8, *x.shape[1:]), x.dtype)]), rows)
    go_on(stopped, after, at)

    resumed = in_process(make, 2)
    other = tree_map(np.zeros_like, after)
    other[: at + 1] = rows
    assert resumed.restore(state, other[at]) == []
    go_on(resumed, other, at)
    for (path, x), (_, y) in zip(tree_items(after), tree_items(other), strict=True):
        assert x.tobytes() == y.tobytes(), path


def test_a_wrapper_with_a_state_of_its_own_is_stepped_again_instead():
    envs = in_process(lambda b: TransformReward(OwnSnapshot(5), float), 1)
    step(envs, 3)
    assert envs.snapshot()["own"] == {}


class Lost(SeedEnv):
    """Column 1 observes something else each time that it is made."""

    count = 0

    def __init__(self, column, n=6):
        super().__init__(n)
        Lost.count += 1
        self.column, self.shift = column, np.float32(Lost.count if column == 1 else 0)
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,))

    def _observation(self):
        return super()._observation() + self.shift


@pytest.mark.parametrize("how", ["differs", "raises"])
def test_a_column_that_cannot_be_brought_back_is_cut_and_the_others_go_on(how, recwarn):
    def make(b):
        return Lost(b)

    stopped = in_process(make, 3)
    rows = step(stopped, 4)
    state = saved(stopped.snapshot())
    resumed = in_process(make, 3)
    if how == "raises":
        env = resumed._singles.envs[1]
        env.reset = _raise_once(type(env).reset, env)
    longer = tree_map(lambda x: np.concatenate([x, np.zeros((6, *x.shape[1:]), x.dtype)]), rows)
    seen = rows.observation[4].copy()
    assert resumed.restore(state, longer[4]) == [1]
    assert np.array_equal(longer.observation[4], seen)  # what had arrived stays
    go_on(resumed, longer, 4)
    assert longer.truncated[4].tolist() == [False, True, False]
    assert longer.cut[5].tolist() == longer.first[5].tolist() == [False, True, False]
    assert not longer.cut[:5].any() and not longer.cut[6:].any()
    assert longer.reward[5].tolist() == [1, 0, 1]
    whole = step(in_process(make, 3), 10)
    for b in (0, 2):
        assert np.array_equal(whole.observation[:, b], longer.observation[:, b])
    told = [str(w.message) for w in recwarn]
    assert any("environment 1 (" in text for text in told) == (how == "raises")


def _raise_once(reset, env):
    left = [1]

    def once(**kwargs):
        if left:
            left.clear()
            raise ConnectionError("the server is gone")
        return reset(env, **kwargs)

    return once


def test_a_lost_column_whose_episode_had_ended_is_not_cut():
    stopped = in_process(Lost, 2)
    rows = step(stopped, 6)  # rows 6 are last
    assert rows.last[-1].all()
    resumed = in_process(Lost, 2)
    longer = tree_map(lambda x: np.concatenate([x, np.zeros((2, *x.shape[1:]), x.dtype)]), rows)
    assert resumed.restore(saved(stopped.snapshot()), longer[6]) == []
    go_on(resumed, longer, 6)
    assert longer.first[7].all() and not longer.cut.any() and not longer.truncated.any()


def test_a_longer_episode_than_the_log_is_cut_on_resume(monkeypatch):
    monkeypatch.setattr(action_log, "LOG_LIMIT", 20)
    envs = in_process(lambda b: CountEnv(4 if b else 1000, column=b), 2)
    rows = step(envs, 50)
    resumed = in_process(lambda b: CountEnv(4 if b else 1000, column=b), 2)
    state = saved(envs.snapshot())
    assert len(state["log"]["rows"]) <= 10
    assert resumed.restore(state, rows[50])[0] == 0


class Screenshots(CountEnv):
    """Its methods of these names are for something else."""

    def snapshot(self, path):
        raise AssertionError

    restore = snapshot


class Proxy(CountEnv):
    """Has an attribute of every name, as what forwards calls to another process."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *given: None


@pytest.mark.parametrize("kind", [Screenshots, Proxy])
def test_methods_that_save_something_else_are_left_alone(kind):
    envs = in_process(lambda b: kind(), 2)
    step(envs, 3)
    assert envs.snapshot()["own"] == {}


def test_methods_in_c_say_nothing_of_what_they_take_and_are_used():
    class Compiled(CountEnv):
        snapshot, restore = dict.copy, dict.update

    assert has_snapshots(Compiled())


def test_a_snapshot_that_is_none_is_named():
    class Nothing(OwnSnapshot):
        def snapshot(self):
            return None

    envs = in_process(lambda b: Nothing(), 2)
    step(envs, 3)
    with pytest.raises(
        EnvironmentFault, match=r"environment 0 of 2.*snapshot\(\) returned NoneType"
    ):
        envs.snapshot()
