"""An actor that explores: what is drawn, what is remembered, what a ring keeps of it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_actor import (
    ALGOS,
    MODELS,
    SHAPE,
    D,
    chance_inputs,
    equal,
    noise_of,
    numbers,
    spec,
)
from small_actor import small_agent as small
from toys import SpaceZooEnv

from rlpyt.agents.continuous import DeterministicAgent, SquashedAgent
from rlpyt.algos.options import SACOptions, TD3Options
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.actions import action_reader
from rlpyt.envs.spaces import to_spec
from rlpyt.errors import UsageError
from rlpyt.policy import Policy

every_algo = pytest.mark.parametrize("name", ALGOS)
every_model = pytest.mark.parametrize("model", MODELS)


@every_model
@every_algo
def test_without_a_draw_the_action_is_the_squashed_mean(name, model):
    agent = small(ALGOS[name], **MODELS[model])
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    action, kept, _ = agent.act(inputs, state, None)
    assert action.shape == (5, *SHAPE) and action.dtype == torch.float32 and kept == ()
    output, _ = agent.actor(inputs, agent.states(state)[0])
    assert torch.equal(action, output[:, :D].tanh())
    if isinstance(agent, DeterministicAgent):
        assert torch.equal(action, agent.action(inputs, agent.states(state)[0])[0])


@every_model
@every_algo
def test_the_draws_of_a_window_are_those_of_its_rows_one_at_a_time(name, model):
    algo = ALGOS[name]
    agent = small(algo, **MODELS[model])
    noise, state = noise_of(agent, 7, 5), agent.model.initial_state(5)
    inputs = chance_inputs(agent, 7, 5)
    process = np.zeros((5, D))
    for t, draw in enumerate(agent.draws(noise)):
        row = inputs[t]
        output, _ = agent.actor(row, agent.states(state)[0])
        normals = torch.from_numpy(noise[t, :, D:].copy())
        if isinstance(algo, SACOptions):
            mean, log_std = output.chunk(2, -1)
            expected = (mean + log_std.clamp(-20, 2).exp() * normals).tanh()
        else:
            added = algo.exploration_std * normals
            if algo.exploration == "ou":
                process[row.first.numpy()] = 0
                process = 0.85 * process + added.numpy()
                added = torch.from_numpy(process).float()
            expected = (output.tanh() + added).clamp(-1, 1)
        action, _, state = agent.act(row, state, draw)
        torch.testing.assert_close(action, expected, rtol=1e-5, atol=1e-6)


@every_algo
def test_acting_is_a_function_of_inputs_state_and_noise(name):
    """Twice the same gives the same, and what was given is as it was."""
    agent = small(ALGOS[name], memory="lstm")
    inputs = chance_inputs(agent, 5)
    state = tree_map(torch.randn_like, agent.model.initial_state(5))
    (draw,) = agent.draws(noise_of(agent, 1, 5))
    given = (inputs, state, draw.noise)
    before = [x.clone() for x in tree_leaves(given)]
    one, two = (agent.act(inputs, state, draw) for _ in range(2))
    assert equal(one, two)
    assert all(torch.equal(x, y) for x, y in zip(tree_leaves(given), before, strict=True))


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("name", ["ou", "sac"])
def test_actions_have_the_shape_of_their_space(name, shape):
    agent = small(ALGOS[name], action=numbers(*shape, bound=1.0))
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    for random in (False, True):
        agent.set_exploration(0 if random else 10**6)
        (draw,) = agent.draws(noise_of(agent, 1, 5))
        for given in (draw, None):
            assert agent.act(inputs, state, given)[0].shape == (5, *shape)
    if name == "sac":
        action, log_prob, _ = agent.sample(inputs, (), torch.randn(5, *shape))
        assert action.shape == (5, *shape) and log_prob.shape == (5,)


def test_noise_differs_by_environment_and_dimension_in_units_of_the_range():
    """B182."""
    agent = small(TD3Options(exploration_std=0.3), action=numbers(3, bound=40.0))
    for parameter in agent.actor.parameters():
        parameter.data.zero_()
    inputs = chance_inputs(agent, 4)
    with torch.no_grad():
        draws = agent.draws(noise_of(agent, 9999, 4))
        found = torch.stack([agent.act(inputs, (), draw)[0] for draw in draws])
    flat = found.flatten(1)
    assert flat.std(0).tolist() == pytest.approx([0.3] * 12, rel=0.05)
    assert np.abs(np.corrcoef(flat.T.numpy()) - np.eye(12)).max() < 0.05


@pytest.mark.parametrize(("low", "high"), [([-2, -2], [1, 3]), ([0, 0], [5, 5]), ([-0.4], [0.4])])
@every_algo
def test_the_ends_of_the_bounds_are_reached_and_not_passed(name, low, high):
    """B017: of each dimension, by policies that are sure and by noise."""
    low, high = np.array(low, np.float32), np.array(high, np.float32)
    box = spaces.Box(low, high)
    action = numbers(len(low), bound=1.0)
    action = dataclasses.replace(action, low=low.astype(float), high=high.astype(float))
    agent = small(ALGOS[name], action=action)
    read = action_reader(box, action)
    inputs, state = chance_inputs(agent, 64), agent.model.initial_state(64)
    draws = [None, *agent.draws(noise_of(agent, 3, 64))]
    for sign in (1, -1):
        agent.actor.linear.bias.data[: len(low)] = 60.0 * sign
        for draw in draws:
            answers = np.stack(read(agent.act(inputs, state, draw)[0].detach().numpy()))
            assert (answers >= low).all() and (answers <= high).all()
            if draw is None or isinstance(agent, SquashedAgent):
                assert (answers == (high if sign > 0 else low)).all()


def test_actions_without_finite_bounds_are_refused():
    """B019, B020."""
    for bounds in ((-np.inf, np.inf), (0.0, np.inf)):
        action = dataclasses.replace(
            numbers(1), low=np.full(1, bounds[0]), high=np.full(1, bounds[1])
        )
        with pytest.raises(UsageError, match="finite bounds") as error:
            small(action=action)
        # What the message says is done gives an environment that can be trained on.
        remedy = re.findall(r"gymnasium\.(wrappers\..*), by --wrapper", str(error.value))[0]
        env = SpaceZooEnv(spaces.Discrete(2), spaces.Box(*bounds, (1,)))
        mended = eval(remedy, {"wrappers": gymnasium.wrappers, "Box": spaces.Box, "env": env})
        small(action=to_spec(mended.action_space, "action"))


@every_algo
def test_until_the_warm_up_is_over_actions_are_uniform_in_their_bounds(name):
    """B022, B025: independent over environments and dimensions, whatever the actor says."""
    agent = small(ALGOS[name], acts=False)
    noise = noise_of(agent, 5000, 4)
    inputs, state = chance_inputs(agent, 4), agent.model.initial_state(4)
    found = torch.stack([agent.act(inputs, state, x)[0] for x in agent.draws(noise)])
    assert torch.equal(found, torch.from_numpy(2 * noise[..., :D] - 1))
    flat = found.flatten(1).numpy()
    assert np.abs(np.corrcoef(flat.T) - np.eye(4 * D)).max() < 0.06
    for column in flat.T:
        counts, _ = np.histogram(column, 20, (-1, 1))
        assert counts.sum() == 5000
        assert ((counts - 250) ** 2 / 250).sum() < 53  # chi-square, 19 degrees, p = 1e-4


def test_uniform_numbers_of_the_space_are_uniform_in_the_environments_own_units():
    """B022: bounds [0, 5]; stored in the same units as the policy's."""
    action = dataclasses.replace(numbers(1), low=np.zeros(1), high=np.full(1, 5.0))
    agent = small(acts=False, action=action)
    read = action_reader(spaces.Box(0.0, 5.0, (1,)), action)
    drawn = [x.action.numpy() for x in agent.draws(noise_of(agent, 4000, 1))]
    answers = np.concatenate([np.stack(read(x)) for x in drawn])
    assert answers.min() >= 0 and answers.max() <= 5
    assert answers.mean() == pytest.approx(2.5, abs=0.1)
    assert answers.std() == pytest.approx(5 / np.sqrt(12), abs=0.1)


@pytest.mark.parametrize(("random_steps", "ends"), [(None, 700), (0, 0), (90, 90)])
def test_the_warm_up_ends_at_its_environment_steps(random_steps, ends):
    """B217: a function of them alone, so that a resumed run does not begin it again."""
    algo = SACOptions(learning_starts=700, random_steps=random_steps)
    for agent in (small(algo, acts=False), saved_and_loaded(algo)):
        noise = noise_of(agent, 1, 5)
        for env_steps in (0, 1, 89, 90, 91, 699, 700, 10**6, 3):
            agent.set_exploration(env_steps)
            assert (agent.draws(noise)[0].action is not None) == (env_steps < ends)


def saved_and_loaded(algo: SACOptions) -> Any:
    before = small(algo, acts=False)
    before.set_exploration(10**6)
    after = small(algo, seed=1, acts=False)
    after.load_state_dict(before.state_dict())
    return after


def test_what_is_drawn_does_not_depend_on_how_many_environments_there_are():
    agent = small(acts=False)
    few, many = (agent.draws(noise_of(agent, 3, columns)) for columns in (2, 6))
    assert all(torch.equal(x.action, y.action[:2]) for x, y in zip(few, many, strict=True))


def test_networks_run_in_the_warm_up_only_if_they_remember():
    calls = []
    for model in ("plain", "lstm"):
        agent = small(acts=False, **MODELS[model])
        forward = agent.actor.forward
        vars(agent.actor)["forward"] = lambda *x, f=forward: (calls.append(1), f(*x))[1]
        inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
        (draw,) = agent.draws(noise_of(agent, 1, 5))
        action, _, after = agent.act(inputs, state, draw)
        assert torch.equal(action, draw.action)
        assert len(calls) == (model == "lstm")
        if model == "lstm":
            assert all(x.any() for x in tree_leaves(after))


@every_algo
def test_evaluations_are_greedy_or_explore_and_never_warm_up(name):
    agent = small(ALGOS[name], acts=False)
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    greedy, _, _ = agent.act(inputs, state, None)
    sure = agent.evaluation(stochastic=False)
    assert (sure.uniforms, sure.normals) == (0, 0) and sure.model is agent.model
    assert sure.draws(np.empty((2, 5, 0), np.float32)) == [None, None]
    assert torch.equal(sure.act(inputs, state, None)[0], greedy)
    unsure = agent.evaluation(stochastic=True)
    assert (unsure.uniforms, unsure.normals) == (0, D)
    noise = noise_of(agent, 1, 5)
    (draw,) = unsure.draws(noise[..., D:])
    found, _, _ = unsure.act(inputs, state, draw)
    agent.set_exploration(10**6)
    expected, _, _ = agent.act(inputs, state, agent.draws(noise)[0])
    assert torch.equal(found, expected) and not torch.equal(found, greedy)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("model", ["plain", "lstm", "lstm, shared"])
@pytest.mark.parametrize("name", ["ddpg", "ou", "sac"])
def test_outside_of_a_run_it_answers_in_the_environments_units(name, model, deterministic):
    agent = small(ALGOS[name], acts=False, **MODELS[model])
    box = spaces.Box(-2.0, 2.0, SHAPE)
    policy = Policy(agent, spec(), spaces.Box(-np.inf, np.inf, (3,)), box, seed=0)
    state = None
    for _ in range(3):
        observation = np.ones(3, np.float32)
        action, state = policy.predict(observation, state, deterministic=deterministic, reward=0.0)
        assert action in box and np.abs(action).max() > 0.02
