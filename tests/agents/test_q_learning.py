"""Epsilon-greedy: what is drawn, what is greedy, and what is left alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from small_parts import make
from small_q import ACTIONS, FEW, chance_inputs, small_agent, spec

from rlpyt import rules
from rlpyt.agents.exploration import Epsilon
from rlpyt.agents.q_learning import Draw, QLearningAgent, random_action
from rlpyt.algos.options import DQNOptions, QLearningOptions
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.errors import UsageError
from rlpyt.functional.q_values import masked_q
from rlpyt.models.options import QNetworkOptions
from rlpyt.noise import ACTION_NOISE, Noise
from rlpyt.policy import Policy
from rlpyt.rows import Inputs, Window, example_row
from rlpyt.samplers.sampler import Sampler

LARGEST = 1 - 2.0**-24  # of the uniform numbers that noise and torch draw

KINDS: dict[str, dict[str, Any]] = {
    "expected": {},
    "categorical": {"values": "categorical"},
    "quantile": {"values": "quantile"},
    "implicit": {"values": "implicit"},
}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dueling": {"dueling": True, "head_sizes": (5,)},
    "noisy": {"noisy": True, "head_sizes": (5,)},
    "lstm": {"memory": "lstm"},
    "gru": {"memory": "gru"},
}


def exploring(epsilon: float, **options: Any) -> QLearningOptions:
    return DQNOptions(epsilon_start=epsilon, epsilon_end=epsilon, **options)


def greedy_of(agent: QLearningAgent, inputs: Inputs, state: Any) -> torch.Tensor:
    z, _ = agent.z(agent.read(inputs), state)
    return masked_q(agent.returns.value(z), inputs.mask).argmax(-1)


def noise_of(agent: QLearningAgent, batch: int, u0: float, u1: float = 0.5) -> torch.Tensor:
    uniforms = torch.tensor([u0, u1]).expand(batch, 2)
    return torch.cat([uniforms, torch.zeros(batch, agent.normals)], -1)


def draw_of(actor: Any, noise: torch.Tensor) -> Draw | None:
    """What an actor takes at a row with this noise, [B, 2 + normals]."""
    return actor.draws(noise[None].numpy())[0]


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


def test_nothing_is_drawn_where_nobody_explores_and_no_layer_is_noisy():
    agent = small_agent(exploring(0.5), num_envs=2)
    noise = np.full((3, 2, 2), 0.75, np.float32)
    assert agent.draws(noise) == [None] * 3
    noise[1, 0, 0] = 0.25
    before, draw, after = agent.draws(noise)
    assert before is after is None and draw is not None and draw.normals is None
    assert draw.random is not None and draw.random[0].tolist() == [True, False]


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


# ---------------------------------------------------------------- state, noise, what is kept


@pytest.mark.parametrize("name", MODELS)
def test_acting_is_a_function_of_inputs_state_and_noise(name):
    """Twice the same gives the same, and what was given is as it was."""
    agent = small_agent(exploring(0.5), **MODELS[name])
    inputs = chance_inputs(agent, 5)
    state = tree_map(torch.randn_like, agent.model.initial_state(5))
    noise = torch.rand(5, 2 + agent.normals)
    before = [x.clone() for x in tree_leaves((inputs, state, noise))]
    one, two = (agent.act(inputs, state, draw_of(agent, noise)) for _ in range(2))
    for x, y in zip(tree_leaves(one), tree_leaves(two), strict=True):
        assert torch.equal(x, y)
    for x, y in zip(tree_leaves((inputs, state, noise)), before, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_the_state_fed_to_a_first_row_is_the_initial_one(name):
    """B136."""
    agent = small_agent(**MODELS[name])
    first = torch.tensor([True, False, True, False, True])
    inputs = chance_inputs(agent, 5).replace(first=first)
    fresh = agent.model.initial_state(5)
    spoilt = tree_map(torch.randn_like, fresh)
    _, _, found = agent.act(inputs, spoilt, None)
    _, _, expected = agent.act(inputs, fresh, None)
    for x, y in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert torch.equal(x[first], y[first])
        assert not torch.isclose(x[~first], y[~first]).all(1).any()


@pytest.mark.parametrize("name", ["plain", "lstm", "gru"])
def test_rows_one_by_one_and_as_a_sequence_have_the_same_values(name):
    """B145."""
    agent = small_agent(**MODELS[name])
    inputs = chance_inputs(agent, 7, 5)
    state = tree_map(torch.randn_like, agent.model.initial_state(5))
    together, after = agent.z(inputs, state)
    rows = []
    for t in range(7):
        z, state = agent.z(tree_map(lambda x, t=t: x[t], inputs), state)
        rows.append(z)
    torch.testing.assert_close(together, torch.stack(rows), rtol=1e-5, atol=1e-5)
    for x, y in zip(tree_leaves(after), tree_leaves(state), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


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


def test_half_precision_stays_inside_the_network():
    agent = small_agent(precision="bf16", **MODELS["lstm"])
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    z, after = agent.z(inputs, state)
    assert {x.dtype for x in tree_leaves((z, after))} == {torch.float32}
    exact, _ = small_agent(**MODELS["lstm"]).z(inputs, state)
    assert not torch.equal(z, exact)
    torch.testing.assert_close(z, exact, rtol=0.1, atol=0.1)


def test_observations_are_normalized_on_reading():
    agent = small_agent(normalize=True)
    inputs = chance_inputs(agent, 3, 5)
    raw, _, _ = agent.act(tree_map(lambda x: x[0], inputs), (), None)
    assert torch.equal(raw, greedy_of(small_agent(), tree_map(lambda x: x[0], inputs), ()))
    agent.normalizer.update(10 * inputs.observation)
    z, _ = agent.z(agent.read(inputs), ())
    other, _ = agent.z(inputs, ())
    assert not torch.allclose(z, other)


# ---------------------------------------------------------------- the target network


@pytest.mark.parametrize("name", MODELS)
def test_the_target_network_begins_equal_and_apart(name):
    """ANCESTOR W28 was a target network of other random weights, until its first copy."""
    options = DQNOptions()
    made = small_agent(options, **MODELS[name])
    agent = QLearningAgent(made.model, made.returns, 5, options)
    ours, target = dict(agent.model.named_parameters()), dict(agent.target.named_parameters())
    assert ours.keys() == target.keys()
    for key, parameter in ours.items():
        assert torch.equal(parameter, target[key])
        assert parameter.data_ptr() != target[key].data_ptr()
        assert parameter.requires_grad and not target[key].requires_grad
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    assert torch.equal(agent.z(inputs, state)[0], agent.target_z(inputs, state)[0])
    with torch.no_grad():
        next(agent.model.parameters()).add_(1.0)
    assert not torch.equal(agent.z(inputs, state)[0], agent.target_z(inputs, state)[0])
    z, _ = agent.target_z(inputs, state)
    assert not z.requires_grad and agent.z(inputs, state)[0].requires_grad


def test_an_agent_is_saved_with_its_target_and_without_its_epsilon():
    one, two = small_agent(), small_agent(seed=1)
    names = one.state_dict().keys()
    assert {name.split(".")[0] for name in names} == {"model", "target"}
    two.load_state_dict(one.state_dict())
    inputs = chance_inputs(one, 5)
    assert torch.equal(one.target_z(inputs, ())[0], two.target_z(inputs, ())[0])
    assert torch.equal(one.z(inputs, ())[0], two.z(inputs, ())[0])


# ---------------------------------------------------------------- schedules and ladders


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
