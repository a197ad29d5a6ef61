"""Learning, by fixed seeds: RESULTS' T0 rows. Runs are bit-reproducible."""

import dataclasses
from typing import Any

import pytest

from rlpyt import presets
from rlpyt.training import train

POSITIONS = "rlpyt/CartPolePositions-v0"

pytestmark = pytest.mark.timeout(600)  # they take seconds to half a minute on a free core


def evaluated(
    algo: str,
    env: str,
    env_steps: int,
    memory: str | None = None,
    goal: float | None = None,
    every: int | None = None,
) -> float:
    """The mean return of 20 greedy episodes after a run of the preset, seed 0.

    Args:
        env_steps: at most.
        goal: the run ends at the first evaluation that reaches it; None: the last one counts.
        every: environment steps from one evaluation to the next.
    """
    run = presets.choose(algo, env)
    loop: dict[str, Any] = {
        "env_steps": env_steps,
        "seed": 0,
        "checkpoint_interval": 0,
        "eval_episodes": 20,
        "threads": 1,  # tests run side by side
        "stop_at_return": goal,
        "eval_interval": every or run.loop.eval_interval,
    }
    run = dataclasses.replace(run, loop=dataclasses.replace(run.loop, **loop))
    if memory is not None:
        model = dataclasses.replace(run.model, memory=memory)
        interval = None if memory == "none" else run.algo.state_interval
        algo_options = dataclasses.replace(run.algo, state_interval=interval)
        run = dataclasses.replace(run, model=model, algo=algo_options)
    outcome = train(run, mode="quiet")
    assert outcome.status == "finished"
    return outcome.summary()["eval_return"]


def test_ppo_learns_cart_pole_in_100k_steps():
    assert evaluated("ppo", "CartPole-v1", 100_000) >= 475


def test_a2c_learns_cart_pole_in_200k_steps():
    assert evaluated("a2c", "CartPole-v1", 200_000) >= 450


def test_impala_learns_cart_pole_in_200k_steps():
    assert evaluated("impala", "CartPole-v1", 200_000) >= 450


def test_appo_learns_cart_pole_in_100k_steps():
    assert evaluated("appo", "CartPole-v1", 100_000) >= 475


def test_with_an_lstm_ppo_balances_a_pole_whose_velocities_it_does_not_see():
    assert evaluated("ppo", POSITIONS, 100_000, "lstm") >= 450


def test_with_a_gru_it_reaches_as_much_within_100k_steps():
    assert evaluated("ppo", POSITIONS, 100_000, "gru", goal=450.0, every=10_000) >= 450


def test_its_memoryless_twin_cannot():
    assert evaluated("ppo", POSITIONS, 50_000, "none") <= 100


def test_dqn_learns_cart_pole_in_50k_steps():
    assert evaluated("dqn", "CartPole-v1", 50_000) >= 450


def test_rainbow_reaches_as_much_within_50k_steps():
    """It ends at the first evaluation that reaches the goal, for it takes three times as long.

    `benchmarks/learning.py` runs every variant to its end, on more seeds.
    """
    run = presets.choose("dqn", "CartPole-v1")
    run = dataclasses.replace(
        run,
        algo=dataclasses.replace(run.algo, values="categorical", double=True, prioritized=True),
        model=dataclasses.replace(run.model, dueling=True, head_sizes=(64,), noisy=True),
        loop=dataclasses.replace(
            run.loop,
            seed=0,
            checkpoint_interval=0,
            eval_episodes=20,
            eval_interval=5000,
            stop_at_return=450.0,
        ),
    )
    assert train(run, mode="quiet").summary()["eval_return"] >= 450


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "d4pg"])
def test_actors_and_critics_swing_up_a_pendulum_within_8k_steps(algo):
    assert evaluated(algo, "Pendulum-v1", 8000, goal=-200.0, every=1000) >= -250
