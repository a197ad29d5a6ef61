"""Learning, by fixed seeds: RESULTS' T0 rows for policy gradients. Runs are bit-reproducible."""

import dataclasses
from typing import Any

import pytest

from rlpyt import presets
from rlpyt.training import train

POSITIONS = "rlpyt/CartPolePositions-v0"


def evaluated(algo: str, env: str, env_steps: int, **model: Any) -> float:
    """The mean return of 20 greedy episodes after a run of the preset, seed 0."""
    run = presets.choose(algo, env)
    loop = dataclasses.replace(run.loop, env_steps=env_steps, seed=0, checkpoint_interval=0)
    run = dataclasses.replace(run, loop=loop, model=dataclasses.replace(run.model, **model))
    outcome = train(run, mode="quiet")
    assert outcome.status == "finished"
    return outcome.summary()["eval_return"]


def test_ppo_learns_cart_pole_in_100k_steps():
    assert evaluated("ppo", "CartPole-v1", 100_000) >= 475


def test_a2c_learns_cart_pole_in_200k_steps():
    assert evaluated("a2c", "CartPole-v1", 200_000) >= 450


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_ppo_with_memory_balances_a_pole_whose_velocities_it_cannot_see(memory):
    assert evaluated("ppo", POSITIONS, 50_000, memory=memory) >= 450


def test_its_memoryless_twin_cannot():
    assert evaluated("ppo", POSITIONS, 50_000, memory="none") <= 100
