"""Games are the same on every path, and go on exactly from a snapshot."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from ale_py import AtariVectorEnv

from rlpyt.envs.atari import AtariEnvironment, StickyActions, make_atari
from rlpyt.envs.protocols import dopamine, machado2018, mnih2015


def play(env, steps, rng, seeds=range(10**6)):
    """Random steps with resets; a list of everything that was returned."""
    log, seeds = [], iter(seeds)
    for _ in range(steps):
        log.append(env.step(int(rng.integers(env.action_space.n))))
        if log[-1][2] or log[-1][3]:
            log.append((*env.reset(seed=next(seeds)), 0, 0, 0))
    return log


def same(log, other):
    return len(log) == len(other) and all(
        np.array_equal(x[0], y[0]) and x[1:] == y[1:] for x, y in zip(log, other, strict=True)
    )


def test_observations_are_single_frames_of_their_own_and_rewards_are_raw():
    env = make_atari("ALE/SpaceInvaders-v5")
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space and observation.shape == (84, 84)
    log = play(env, 200, np.random.default_rng(0))
    rewards = {reward for _, reward, *_ in log}
    assert max(rewards) > 1
    assert not any(np.shares_memory(x[0], y[0]) for x, y in pairwise(log))
    colour = make_atari("ALE/SpaceInvaders-v5", grayscale=False, full_action_space=True)
    assert colour.reset(seed=0)[0].shape == (84, 84, 3)
    assert colour.action_space.n == 18


def test_a_seeded_reset_depends_on_nothing_but_the_seed():
    played, fresh = (AtariEnvironment("qbert", mnih2015) for _ in range(2))
    played.reset(seed=1)
    play(played, 60, np.random.default_rng(0))
    other = played.reset(seed=6, options={"new_game": True})[0]
    first = played.reset(seed=7, options={"new_game": True})[0], fresh.reset(seed=7)[0]
    assert np.array_equal(*first)
    assert not np.array_equal(other, first[0])
    logs = [play(env, 60, np.random.default_rng(2), range(9)) for env in (played, fresh)]
    assert same(*logs)


@pytest.mark.parametrize("game", ["pong", "qbert"])  # Q*bert reads collisions: see restore()
def test_a_fresh_environment_goes_on_bit_for_bit_from_a_snapshot(game):
    protocol = replace(machado2018, life_loss=True, noop_max=30)
    env = AtariEnvironment(game, protocol)
    env.reset(seed=3)
    play(env, 101, np.random.default_rng(0))
    state = env.snapshot()
    assert all(isinstance(value, np.ndarray) for value in state.values())

    fresh = AtariEnvironment(game, protocol)
    fresh.restore(state)
    logs = [play(x, 300, np.random.default_rng(1), [None] * 99) for x in (env, fresh)]
    assert same(*logs)
    assert sum(x[1] != 0 for x in logs[0]) > 3


def test_a_lost_life_ends_an_episode_and_the_game_goes_on():
    env = AtariEnvironment("breakout", mnih2015)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    lives, total, ends = [info["lives"]], 0.0, []
    while not ends or not ends[-1]["game_over"]:
        _, reward, terminated, truncated, info = env.step(int(rng.integers(4)))
        total += reward
        assert not truncated and info["game_return"] == total
        assert terminated == (info["lives"] < lives[-1])
        if terminated:
            lives.append(info["lives"])
            ends.append(info)
            if info["lives"]:
                _, info = env.reset(seed=5)
                assert info == {"lives": lives[-1], "game_over": False, "game_return": total}
    assert lives == [5, 4, 3, 2, 1, 0]
    assert [end["game_over"] for end in ends] == [False] * 4 + [True]
    assert env.reset(seed=6)[1] == {"lives": 5, "game_over": False, "game_return": 0.0}


def test_a_new_game_can_be_asked_for_after_a_lost_life():
    env = AtariEnvironment("breakout", mnih2015)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    while not env.step(int(rng.integers(4)))[2]:
        pass
    _, info = env.reset(seed=0, options={"new_game": True})
    assert info["lives"] == 5


def test_in_evaluation_a_game_is_one_episode():
    env = AtariEnvironment("breakout", mnih2015.whole_games())
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    lives = []
    terminated = False
    while not terminated:
        *_, terminated, _, info = env.step(int(rng.integers(4)))
        lives.append(info["lives"])
    assert set(lives) == {5, 4, 3, 2, 1, 0} and info["game_over"]


def test_a_game_is_truncated_at_its_frame_limit():
    env = AtariEnvironment("pong", replace(mnih2015, max_frames=40))
    env.reset(seed=0)
    ends = [env.step(0)[2:] for _ in range(10)]
    assert [truncated for _, truncated, _ in ends] == [False] * 9 + [True]
    assert not ends[-1][0] and ends[-1][2]["game_over"]
    env.reset(seed=1)
    assert not env.step(0)[3]


def test_stickiness_repeats_the_share_of_frames_that_it_says():
    sticky = StickyActions(0.25)
    sticky.seed(1)
    repeats = [sticky.repeats() for _ in range(20_000)]
    assert abs(np.mean(repeats) - 0.25) < 0.01
    pairs = np.mean([x and y for x, y in pairwise(repeats)])
    assert abs(pairs - 0.0625) < 0.01
    never = StickyActions(0.0)
    assert not any(never.repeats() for _ in range(5000))


@pytest.mark.parametrize(
    ("game", "protocol", "seed"),
    [
        ("breakout", mnih2015, 11),  # FIRE, no-ops, lives
        ("qbert", mnih2015, 2**31 - 1),  # no FIRE among its actions at the start
        ("seaquest", machado2018, 5),  # sticky actions
        ("beam_rider", dopamine, 0),
        ("pong", replace(machado2018, max_frames=800), 3),  # truncation
    ],
)
def test_a_game_is_the_same_event_by_event_in_ale_pys_vector_environment(game, protocol, seed):
    """Frames, rewards, endings and lives are equal, sticky frames and no-ops included.

    One picture differs: ale-py stops looking when the game ends in the middle of an action, and
    then shows parts of an older frame. A terminal observation, whose value nobody asks for.
    """
    env = AtariEnvironment(game, protocol)
    vector = AtariVectorEnv(
        game,
        1,
        num_threads=1,
        stack_num=1,
        reward_clipping=False,
        use_fire_reset=protocol.fire,
        noop_max=protocol.noop_max,
        life_loss_info=protocol.life_loss,
        repeat_action_probability=protocol.sticky,
        frameskip=protocol.frame_skip,
        max_num_frames_per_episode=protocol.max_frames,
    )
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    batch, infos = vector.reset(seed=np.array([seed]))
    assert np.array_equal(observation, batch[0, 0])
    for _ in range(600):
        action = int(rng.integers(env.action_space.n))
        observation, reward, terminated, truncated, info = env.step(action)
        batch, *events, infos = vector.step(np.array([action]))
        assert [reward, terminated, truncated] == [x[0] for x in events]
        assert info["lives"] == infos["lives"][0]
        if info["game_over"]:
            break
        assert np.array_equal(observation, batch[0, 0])
        if terminated:
            observation, info = env.reset()
            batch, *_, infos = vector.step(np.array([0]))
            assert np.array_equal(observation, batch[0, 0])
    vector.close()
