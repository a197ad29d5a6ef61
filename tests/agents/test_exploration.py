"""Epsilon: its schedule and ladders, and whose it is that a row is answered by."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from small_q import ACTIONS, chance_inputs, draw_of, greedy_of, noise_of, small_agent, spec

from rlpyt import rules
from rlpyt.agents.exploration import Epsilon
from rlpyt.algos.options import DQNOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import QNetworkOptions
from rlpyt.noise import ACTION_NOISE, Noise
from rlpyt.rows import Window, example_row
from rlpyt.samplers.sampler import Sampler


def test_epsilon_counts_environment_steps_from_the_start_of_learning():
    """B167, B217: whatever was asked before, and however many updates were made."""
    options = DQNOptions(
        epsilon_start=0.9, epsilon_end=0.1, epsilon_steps=1000, learning_starts=500
    )
    epsilon = Epsilon(options, 2)
    expected = {0: 0.9, 499: 0.9, 500: 0.9, 1000: 0.5, 1250: 0.3, 1500: 0.1, 10**9: 0.1}
    for env_steps, value in [*expected.items(), *reversed(expected.items())]:
        assert epsilon(env_steps) == pytest.approx([value, value])
    agent = small_agent(options, num_envs=2)
    assert agent.epsilon.tolist() == pytest.approx([0.9, 0.9])
    agent.set_exploration(1250)  # as a resumed run does, without the windows before
    assert agent.epsilon.tolist() == pytest.approx([0.3, 0.3])


def test_without_steps_epsilon_falls_at_once():
    """ANCESTOR W38 was a division by 0 where a schedule's bounds are equal."""
    epsilon = Epsilon(DQNOptions(epsilon_steps=0, learning_starts=0, epsilon_end=0.2), 1)
    assert epsilon(0) == pytest.approx(1.0) and epsilon(1) == pytest.approx(0.2)


def test_the_apex_ladder_is_the_papers():
    """Horgan et al. (2018), section 4.1: 0.4^(1 + 7 i / (N - 1))."""
    options = DQNOptions(epsilon_ladder="apex", learning_starts=0, epsilon_steps=10)
    found = Epsilon(options, 8)(10)
    assert found == pytest.approx([0.4**k for k in range(1, 9)])
    half = Epsilon(options, 8)(5)
    assert half == pytest.approx(0.5 + 0.5 * found)
    with pytest.raises(UsageError, match="more environments"):
        rules.check(options, QNetworkOptions(), 1, 10_000)


def test_the_log_ladder_is_the_originals():
    """ANCESTOR 2.5: 0.0005 to 0.1 over 4 environments, ascending."""
    options = DQNOptions(
        epsilon_ladder="log",
        epsilon_end_min=0.0005,
        epsilon_end=0.1,
        learning_starts=0,
        epsilon_steps=10,
    )
    assert Epsilon(options, 4)(0) == pytest.approx([1.0] * 4)
    assert Epsilon(options, 4)(10) == pytest.approx([0.0005, 0.0029, 0.0171, 0.1], rel=0.02)
    for least in (0.0, 0.2):
        other = dataclasses.replace(options, epsilon_end_min=least)
        with pytest.raises(UsageError, match=f"epsilon_end_min={least}"):
            rules.check(other, QNetworkOptions(), 4, 10_000)


def test_each_environment_is_answered_at_random_as_often_as_its_own_epsilon_says():
    options = DQNOptions(
        epsilon_ladder="log", epsilon_end_min=0.05, epsilon_end=0.8, learning_starts=0
    )
    agent = small_agent(options, num_envs=3)
    agent.set_exploration(options.epsilon_steps)
    inputs = chance_inputs(agent, 3)
    greedy = greedy_of(agent, inputs, ())
    other = 4000
    moved = torch.zeros(3)
    torch.manual_seed(1)
    for noise in torch.rand(other, 3, 2).unbind():
        moved += agent.act(inputs, (), draw_of(agent, noise))[0] != greedy
    expected = torch.from_numpy(agent.epsilon) * (ACTIONS - 1) / ACTIONS
    assert (moved / other - expected).abs().max() < 5 * (0.25 / other) ** 0.5
    assert agent.epsilon.tolist() == pytest.approx([0.05, 0.2, 0.8])


class Still:
    """Environments in which nothing happens, in groups."""

    def __init__(self, *ends: int) -> None:
        begins = (0, *ends[:-1])
        self.spec, self.num_envs = spec(), ends[-1]
        self.groups = tuple(slice(a, b) for a, b in zip(begins, ends, strict=True))

    def send(self, row: Any, next_row: Any, group: int = 0) -> None:
        next_row.first[:] = False

    def recv(self, row: Any, group: int = 0) -> tuple[()]:
        return ()


def test_each_environment_explores_by_its_own_epsilon_whoever_answers_it():
    """All at once, in groups that take turns, or a part of them in a process of its own."""
    options = DQNOptions(epsilon_ladder="apex", learning_starts=0, epsilon_steps=0)
    agent, rows = small_agent(options, num_envs=6), 200

    def actions(envs: Any, columns: slice) -> np.ndarray:
        window = Window(example_row(spec()), rows, 6, reads=agent.model.reads)
        part = window if columns == slice(0, 6) else window.part(columns)
        drawn = Noise(0, ACTION_NOISE, range(6)[columns], agent.uniforms, agent.normals)
        Sampler(envs, agent, part, drawn).collect(rows, 1)
        return window.rows.action[:-1, columns].copy()

    every = slice(0, 6)
    whole = actions(Still(6), every)
    assert np.array_equal(actions(Still(2, 5, 6), every), whole)
    for columns in (slice(0, 2), slice(2, 6)):
        count = columns.stop - columns.start
        assert np.array_equal(actions(Still(count), columns), whole[:, columns])
    greedy = np.bincount(whole[:, -1]).argmax()
    often = (whole != greedy).mean(0)
    assert (np.diff(often) < 0).any() and often[0] > 0.2 > 0.01 > often[-1]


def test_others_than_the_training_environments_are_answered_with_the_mean_epsilon():
    agent = small_agent(DQNOptions(epsilon_ladder="apex", learning_starts=0, epsilon_steps=0))
    agent.set_exploration(1)
    mean = float(agent.epsilon.mean())
    inputs = chance_inputs(agent, 1)
    greedy = int(greedy_of(agent, inputs, ()))
    u1 = ((greedy + 1) % ACTIONS + 0.5) / ACTIONS  # the action after it
    for u0, moved in ((mean - 0.01, True), (mean + 0.01, False)):
        actor = agent.evaluation(stochastic=True)
        action, _, _ = actor.act(inputs, (), draw_of(actor, noise_of(agent, 1, u0, u1)))
        assert (int(action) != greedy) == moved
