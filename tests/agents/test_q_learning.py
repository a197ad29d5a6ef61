"""Epsilon-greedy: what is drawn, what is greedy, and what is left alone."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from small_parts import make
from small_q import (
    ACTIONS,
    FEW,
    LARGEST,
    MODELS,
    chance_inputs,
    draw_of,
    exploring,
    greedy_of,
    noise_of,
    small_agent,
    spec,
)

from rlpyt.agents.q_learning import random_action
from rlpyt.algos.options import DQNOptions
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.functional.q_values import masked_q
from rlpyt.policy import Policy

KINDS: dict[str, dict[str, Any]] = {
    "expected": {},
    "categorical": {"values": "categorical"},
    "quantile": {"values": "quantile"},
    "implicit": {"values": "implicit"},
}


# ---------------------------------------------------------------- greedy, random


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_action_is_the_allowed_one_of_greatest_value(kind, name, mask):
    agent = small_agent(DQNOptions(**FEW, **KINDS[kind]), mask=mask, **MODELS[name])
    inputs = chance_inputs(agent, 64, mask=mask)
    state = agent.model.initial_state(64)
    action, kept, _ = agent.act(inputs, state, None)
    assert action.shape == (64,) and action.dtype == torch.int64 and kept == ()
    z, _ = agent.z(inputs, state)
    value, rows = agent.returns.value(z), torch.arange(64)
    allowed = inputs.mask if mask else torch.ones(64, ACTIONS, dtype=torch.bool)
    assert allowed[rows, action].all()
    assert ((value <= value[rows, action, None]) | ~allowed).all()
    assert (value.amax(1) > value.amin(1)).all()


@pytest.mark.parametrize("u", [0.0, 0.5, LARGEST])
def test_an_epsilon_of_0_is_greedy_and_one_of_1_is_random(u):
    for epsilon, u1, expected in ((0.0, LARGEST, None), (1.0, 0.0, 0), (1.0, LARGEST, ACTIONS - 1)):
        agent = small_agent(exploring(epsilon))
        inputs = chance_inputs(agent, 5)
        action, _, _ = agent.act(inputs, (), draw_of(agent, noise_of(agent, 5, u, u1)))
        greedy = greedy_of(agent, inputs, ())
        assert torch.equal(action, greedy if expected is None else torch.full((5,), expected))


@pytest.mark.parametrize("name", ["plain", "noisy"])
@pytest.mark.parametrize("horizon", [1, 7])
def test_the_draws_of_a_window_are_those_of_its_rows_one_at_a_time(name, horizon):
    options = DQNOptions(epsilon_ladder="apex", learning_starts=0, eval_epsilon=0.3)
    agent = small_agent(options, num_envs=5, **MODELS[name])
    agent.set_exploration(20_000)
    noise = np.random.default_rng(0).random((horizon, 5, 2 + agent.normals), np.float32)
    inputs = chance_inputs(agent, 5)
    for actor in (agent, agent.evaluation(stochastic=True), agent.evaluation(stochastic=False)):
        for t, draw in enumerate(actor.draws(noise)):
            found, _, _ = actor.act(inputs, (), draw)
            row = torch.from_numpy(noise[t])
            z, _ = agent.z(inputs, (), row[:, 2:] if actor.normals else None)
            epsilon: Any = torch.from_numpy(agent.epsilon)
            if actor is not agent:
                epsilon = epsilon.mean()
            if actor is not agent and actor.epsilon is not None:
                epsilon = actor.epsilon
            drawn = random_action(row[:, 1], ACTIONS, None)
            greedy = agent.returns.value(z).argmax(-1)
            assert torch.equal(found, torch.where(row[:, 0] < epsilon, drawn, greedy))


def test_nothing_is_drawn_where_nobody_explores_and_no_layer_is_noisy():
    agent = small_agent(exploring(0.5), num_envs=2)
    noise = np.full((3, 2, 2), 0.75, np.float32)
    assert agent.draws(noise) == [None] * 3
    noise[1, 0, 0] = 0.25
    before, draw, after = agent.draws(noise)
    assert before is after is None and draw is not None and draw.normals is None
    assert draw.random is not None and draw.random[0].tolist() == [True, False]


@given(st.integers(1, 70), st.integers(0, 2**24 - 1), st.integers(0, 2**32))
def test_a_uniform_number_below_1_draws_an_allowed_action(actions, bits, seed):
    torch.manual_seed(seed)
    u = torch.tensor([bits * 2.0**-24, 0.0, LARGEST])
    mask = torch.rand(3, actions) < 0.3
    drawn = random_action(u, actions, mask)
    allowed = mask | ~mask.any(-1, keepdim=True)  # none: a final row, where it says nothing
    assert allowed[torch.arange(3), drawn].all()
    for i in (0, 1, 2):
        choices = allowed[i].nonzero().flatten()
        assert drawn[i] == choices[int(float(u[i]) * len(choices))]
    free = random_action(u, actions, None)
    assert torch.equal(free, random_action(u, actions, torch.ones(3, actions, dtype=torch.bool)))
    assert free[1] == 0 and free[2] == actions - 1


@pytest.mark.parametrize("allowed", [[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 1, 0]])
def test_random_actions_are_uniform_over_those_allowed(allowed):
    """Chi-square at p = 1e-4; B173: exploration never takes another."""
    draws, mask = 100_000, torch.tensor(allowed, dtype=torch.bool)
    torch.manual_seed(0)
    counts = random_action(torch.rand(draws), 5, mask.expand(draws, 5)).bincount(minlength=5)
    assert not counts[~mask].any()
    expected = draws / int(mask.sum())
    chi_square = ((counts[mask] - expected) ** 2 / expected).sum()
    assert chi_square < {5: 23.5, 3: 18.4, 1: 1e-9}[int(mask.sum())]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_no_epsilon_takes_an_action_that_is_not_allowed(epsilon):
    agent = small_agent(exploring(epsilon), mask=True, num_envs=512)
    inputs = chance_inputs(agent, 512, mask=True)
    action, _, _ = agent.act(inputs, (), draw_of(agent, torch.rand(512, 2)))
    assert inputs.mask[torch.arange(512), action].all()


def test_a_mask_of_nothing_is_read_as_one_of_everything():
    """An episode's final row may carry one; what is kept there is what is bootstrapped from."""
    agent = small_agent(exploring(0.0, priority_entry="td"), mask=True)
    inputs = chance_inputs(agent, 5, mask=True)
    none, every = torch.zeros(5, ACTIONS, dtype=torch.bool), torch.ones(5, ACTIONS)
    found = agent.act(inputs.replace(mask=none), (), None)
    expected = agent.act(inputs.replace(mask=every.bool()), (), None)
    for x, y in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert torch.equal(x, y)


# ---------------------------------------------------------------- noise, what is kept


def test_noisy_layers_are_drawn_for_each_column_and_not_without_noise():
    """B172: acting has the noise that it is given, evaluation none of it."""
    agent = small_agent(exploring(0.0), num_envs=256, **MODELS["noisy"])
    one = chance_inputs(agent, 1)
    inputs = tree_map(lambda x: x.expand(256, *x.shape[1:]), one)
    noise = torch.randn(256, 2 + agent.normals)
    noise[:, 0] = LARGEST
    drawn, _, _ = agent.act(inputs, (), draw_of(agent, noise))
    assert len(drawn.unique()) > 1
    mean, _, _ = agent.act(inputs, (), None)
    assert len(mean.unique()) == 1
    tester = agent.evaluation(stochastic=False)
    evaluated, _, _ = tester.act(inputs, (), draw_of(tester, noise))
    assert torch.equal(evaluated, mean)


@pytest.mark.parametrize("mask", [False, True])
def test_the_values_kept_are_of_the_action_taken_and_of_the_best(mask):
    options = exploring(0.5, prioritized=True, priority_entry="td")
    agent = small_agent(options, mask=mask, num_envs=64)
    kept = agent.example_kept()
    assert kept._fields == ("taken", "best") and {x.dtype for x in kept} == {np.dtype("float32")}
    inputs = chance_inputs(agent, 64, mask=mask)
    action, kept, _ = agent.act(inputs, (), draw_of(agent, torch.rand(64, 2)))
    z, _ = agent.z(inputs, ())
    value = agent.returns.value(z)
    assert torch.equal(kept.taken, value[torch.arange(64), action])
    assert torch.equal(kept.best, masked_q(value, inputs.mask).max(-1).values)
    assert (kept.taken < kept.best).any() and (kept.taken <= kept.best).all()
    for options in (exploring(0.5), exploring(0.5, priority_entry="td")):
        assert small_agent(options).example_kept() == ()


# ---------------------------------------------------------------- evaluation, prediction


@pytest.mark.parametrize("name", ["plain", "noisy", "lstm"])
def test_an_evaluation_has_its_own_epsilon_and_leaves_the_agents_alone(name):
    agent = small_agent(
        exploring(1.0, eval_epsilon=0.25, prioritized=True, priority_entry="td"),
        **MODELS[name],
        num_envs=2,
    )
    tester = agent.evaluation(stochastic=False)
    inputs = chance_inputs(agent, 7)  # another number of environments
    state = tree_map(torch.randn_like, agent.model.initial_state(7))
    fed = [x.clone() for x in tree_leaves(state)]
    greedy, _, _ = agent.act(inputs, state, None)
    for u0, random in ((0.0, True), (0.249, True), (0.25, False), (LARGEST, False)):
        draw = draw_of(tester, noise_of(agent, 7, u0, LARGEST))
        action, kept, after = tester.act(inputs, state, draw)
        expected = torch.full((7,), ACTIONS - 1) if random else greedy
        assert torch.equal(action, expected) and kept == ()
        carried = agent.act(inputs, state, None)[2]
        for x, y in zip(tree_leaves(after), tree_leaves(carried), strict=True):
            assert torch.equal(x, y)
    action, _, _ = tester.act(inputs, state, None)
    assert torch.equal(action, greedy)
    assert agent.epsilon.tolist() == [1.0, 1.0]
    assert all(torch.equal(x, y) for x, y in zip(tree_leaves(state), fed, strict=True))


def test_a_policy_gradient_agent_offers_what_runs_ask_of_any_agent():
    for action in (spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([2, 3])):
        agent = make(env=lambda action=action: gym_env(action)).agent
        distribution = agent.distribution
        assert (agent.uniforms, agent.normals) == (distribution.uniforms, distribution.normals)
        before = {name: x.clone() for name, x in agent.state_dict().items()}
        agent.set_exploration(10_000)
        assert all(torch.equal(x, before[name]) for name, x in agent.state_dict().items())
        assert agent.evaluation(stochastic=False) is agent.evaluation(stochastic=True) is agent


def gym_env(action: spaces.Space) -> gymnasium.Env:
    from small_parts import ChanceEnv

    return ChanceEnv(action)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_greedy_or_as_the_agent_explores(name):
    agent = small_agent(exploring(0.5), num_envs=4, **MODELS[name])
    observed = spaces.Box(-np.inf, np.inf, (3,))
    policy = Policy(agent, spec(), observed, spaces.Discrete(ACTIONS), seed=0)
    seen = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    inputs = chance_inputs(agent, 4).replace(observation=torch.from_numpy(seen))
    zeros = {
        name: torch.zeros_like(getattr(inputs, name))
        for name in ("reward", "previous_action")
        if name in agent.model.reads
    }
    if "first" in agent.model.reads:
        zeros["first"] = torch.ones(4, dtype=torch.bool)
    greedy, _, _ = agent.act(inputs.replace(**zeros), agent.model.initial_state(4), None)
    action, state = policy.predict(seen)
    assert np.array_equal(action, greedy)
    alone = [policy.predict(x)[0] for x in seen]
    assert np.array_equal(alone, greedy)
    drawn = [policy.predict(seen, deterministic=False)[0] for _ in range(400)]
    moved = (np.stack(drawn) != greedy.numpy()).mean()
    if name != "noisy":  # whose greedy action is drawn too
        assert moved == pytest.approx(0.5 * (ACTIONS - 1) / ACTIONS, abs=0.05)
    reward = np.zeros(4, np.float32)
    policy.predict(seen, state, reward=reward)  # a state can be handed back
