"""What the trained network and the target are fed and give, and how they begin."""

from __future__ import annotations

import pytest
import torch
from small_q import (
    MODELS,
    chance_inputs,
    draw_of,
    exploring,
    greedy_of,
    small_agent,
)

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.options import DQNOptions
from rlpyt.arrays import tree_leaves, tree_map


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
