"""MinAtar's games as published, and exact snapshots of them."""

import sys
import types

import gymnasium
import numpy as np
import pytest

from rlpyt.envs import minatar
from rlpyt.envs.minatar import GAMES, MinAtarEnvironment


def play(env, steps, rng):
    log = []
    for _ in range(steps):
        log.append(env.step(int(rng.integers(env.action_space.n))))
        if log[-1][2]:
            log.append((*env.reset(), 0, 0, 0))
    return log


def same(log, other):
    alike = [np.array_equal(x[0], y[0]) and x[1:] == y[1:] for x, y in zip(log, other, strict=True)]
    return all(alike)


def published(game):
    """The package's own Environment, without its imports for drawing."""
    package = types.ModuleType("minatar")
    package.__path__ = [str(minatar._folder().parent)]
    blocked = dict.fromkeys(("matplotlib", "seaborn"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "minatar", package)
        for name in blocked:
            patch.setitem(sys.modules, name, None)
        from minatar.environment import Environment

        env = Environment(game)
        for name in [name for name in sys.modules if name.startswith("minatar.")]:
            patch.delitem(sys.modules, name)
    return env


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_the_published_one_with_its_stickiness_and_ramping(game):
    env, other = MinAtarEnvironment(game, minimal_actions=False), published(game)
    rng = np.random.default_rng(0)
    other.seed(5)
    other.reset()
    observation, _ = env.reset(seed=5)
    assert np.array_equal(observation, other.state())
    for _ in range(400):
        action = int(rng.integers(6))
        observation, reward, terminated, truncated, _ = env.step(action)
        assert (reward, terminated) == other.act(action) and not truncated
        assert np.array_equal(observation, other.state())
        if terminated:
            other.reset()
            env.reset()


@pytest.mark.parametrize("game", GAMES)
def test_a_fresh_environment_goes_on_bit_for_bit_from_a_snapshot(game):
    env, fresh = MinAtarEnvironment(game), MinAtarEnvironment(game)
    env.reset(seed=1)
    play(env, 150, np.random.default_rng(0))
    state = env.snapshot()
    assert all(isinstance(value, np.ndarray) for value in state.values())
    fresh.restore(state)
    logs = [play(x, 300, np.random.default_rng(1)) for x in (env, fresh)]
    assert same(*logs)


def test_ids_say_which_actions_there_are():
    assert gymnasium.make("MinAtar/Breakout-v1").action_space.n == 3
    assert gymnasium.make("MinAtar/SpaceInvaders-v0").action_space.n == 6


def test_observations_are_8_bit_grids_of_zeros_and_ones():
    env = MinAtarEnvironment("seaquest")
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space and observation.shape == (10, 10, 10)
    assert set(np.unique(observation)) == {0, 1}


def test_a_picture_has_a_colour_for_every_kind_of_object():
    env = MinAtarEnvironment("breakout", render_mode="rgb_array")
    env.reset(seed=0)
    env.step(0)
    picture = env.render()
    assert picture.shape == (160, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4  # nothing, paddle, trail, bricks


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(ImportError, match="pip install --no-deps minatar"):
        minatar._folder()
