"""The memory tasks reach their optimum with memory, and no policy without it does."""

from itertools import product

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rlpyt.envs.memory  # noqa: F401  # importing it registers the tasks
from rlpyt.errors import UsageError

TASKS = ("CartPolePositions", "PendulumPositions", "RepeatPrevious", "TMaze", "CueDelay")


def play(env, policy, seed):
    """The return of one episode; `policy` sees all observations so far."""
    observations, total = [env.reset(seed=seed)[0]], 0.0
    while True:
        observation, reward, terminated, truncated, _ = env.step(policy(observations))
        observations.append(observation)
        total += reward
        if terminated or truncated:
            return total, len(observations) - 1, terminated


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_registered_and_passes_gymnasiums_checker(task):
    env = gymnasium.make(f"rlpyt/{task}-v0").unwrapped
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gymnasium.logger, "warn", lambda *_: None)  # of the action's range
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize(
    ("positions", "full", "kept"),
    [
        ("rlpyt/CartPolePositions-v0", "CartPole-v1", [0, 2]),
        ("rlpyt/PendulumPositions-v0", "Pendulum-v1", [0, 1]),
    ],
)
def test_positions_are_the_full_task_without_velocities(positions, full, kept):
    env, other = gymnasium.make(positions), gymnasium.make(full)
    assert env.spec.max_episode_steps == other.spec.max_episode_steps
    observation, reference = env.reset(seed=1)[0], other.reset(seed=1)[0]
    env.action_space.seed(0)
    for _ in range(15):
        assert np.array_equal(observation, reference[kept])
        action = env.action_space.sample()
        (observation, *rest), (reference, *expected) = env.step(action), other.step(action)
        assert rest == expected
        if rest[1]:
            break


def test_cartpole_is_balanced_with_velocities_from_memory_and_not_without():
    def by_memory(seen):
        (x, angle), (x_before, angle_before) = seen[-1], seen[max(len(seen) - 2, 0)]
        velocity, turning = (x - x_before) / 0.02, (angle - angle_before) / 0.02
        return np.int64(angle + 0.3 * turning + 0.03 * x + 0.06 * velocity > 0)

    env = gymnasium.make("rlpyt/CartPolePositions-v0")
    assert np.mean([play(env, by_memory, seed)[0] for seed in range(3)]) == 500
    gains = ((1, 0), (1, 0.1), (1, -0.1), (1, 0.5))
    for gain, drift in gains:

        def by_position(seen, g=gain, d=drift):
            return np.int64(g * seen[-1][1] + d * seen[-1][0] > 0)

        assert np.mean([play(env, by_position, seed)[0] for seed in range(10)]) < 100


@pytest.mark.parametrize(("decks", "k"), [(1, 4), (2, 32)])
def test_repeating_the_right_card_returns_1_and_any_other_way_less(decks, k):
    env = gymnasium.make("rlpyt/RepeatPrevious-v0", decks=decks, k=k)
    total, steps, terminated = play(env, lambda seen: seen[max(len(seen) - k, 0)], 3)
    assert total == pytest.approx(1) and steps == 52 * decks - 1 and terminated
    wrong = play(env, lambda seen: (seen[max(len(seen) - k, 0)] + 1) % 4, 3)
    assert wrong[0] == pytest.approx(-1)
    # Without memory: a function of the card now. One out of 51 is what it can know.
    for shift in range(4):
        returns = [play(env, lambda seen, s=shift: (seen[-1] + s) % 4, i)[0] for i in range(150)]
        assert -0.58 < np.mean(returns) < -0.4


def test_every_suit_is_dealt_equally_often():
    env = gymnasium.make("rlpyt/RepeatPrevious-v0")
    seen = []
    play(env, lambda observations: seen.append(observations[-1]) or 0, 0)
    assert len(seen) == 51
    assert max(np.bincount(seen)) == 13


@pytest.mark.parametrize("length", [1, 7])
def test_the_maze_gives_4_to_who_remembers_the_sign_and_half_of_it_to_who_does_not(length):
    env = gymnasium.make("rlpyt/TMaze-v0", length=length)

    def remembers(seen):
        at_junction = tuple(seen[-1]) == (0, 1, 0)
        return (2 if seen[0][0] else 0) if at_junction else 1

    outcomes = [play(env, remembers, seed) for seed in range(20)]
    assert {total for total, *_ in outcomes} == {4.0}
    assert {steps for _, steps, _ in outcomes} == {length + 1}
    # Every policy without memory: an action for each of the four observations.
    kinds = [(0, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 0)]
    best = -np.inf
    for actions in product(range(4), repeat=4):
        table = dict(zip(kinds, actions, strict=True))
        signs = {}
        for seed in range(20):
            sign = tuple(env.reset(seed=seed)[0])
            if sign not in signs:
                signs[sign] = play(env, lambda seen, t=table: t[tuple(seen[-1])], seed)[0]
        best = max(best, np.mean(list(signs.values())))
    assert best == pytest.approx(1.95)


def test_bumping_into_walls_costs_and_the_maze_gives_up():
    env = gymnasium.make("rlpyt/TMaze-v0", length=4)
    total, steps, terminated = play(env, lambda _: 3, 0)
    assert total == pytest.approx(-0.1 * 50) and steps == 50 and not terminated


@pytest.mark.parametrize("delay", [1, 10])
def test_the_cue_is_seen_once_and_answered_after_the_delay(delay):
    env = gymnasium.make("rlpyt/CueDelay-v0", delay=delay)
    kept = []

    def remembers(seen):
        kept[:] = seen
        return int(seen[0][2] > 0)

    outcomes = [play(env, remembers, seed) for seed in range(20)]
    assert set(outcomes) == {(1.0, delay + 1, True)}
    assert [x[2] for x in kept[1:]] == [0] * delay
    assert [x[1] for x in kept] == [0] * delay + [1]
    returns = [play(env, lambda _: 1, seed)[0] for seed in range(60)]
    assert set(returns) == {-1.0, 1.0} and abs(np.mean(returns)) < 0.4


@pytest.mark.parametrize(
    ("task", "kwargs", "says"),
    [
        ("RepeatPrevious", {"k": 52}, "k=52 of 1 decks must be from 1 to 51"),
        ("TMaze", {"length": 0}, "length=0"),
        ("CueDelay", {"delay": 0}, "delay=0"),
    ],
)
def test_an_impossible_size_is_refused(task, kwargs, says):
    with pytest.raises(UsageError, match=says):
        gymnasium.make(f"rlpyt/{task}-v0", **kwargs)
