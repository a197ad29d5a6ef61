"""The states that actors and critics are fed while acting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_actor import (
    ALGOS,
    MODELS,
    SHAPE,
    D,
    chance_action,
    chance_inputs,
    equal,
    noise_of,
)
from small_actor import small_agent as small
from small_parts import ChanceEnv
from stepping import in_process, saved

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.noise import ACTION_NOISE, Noise
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rows import example_row
from rlpyt.samplers.sampler import Sampler
from rlpyt.tree_format import like

every_algo = pytest.mark.parametrize("name", ALGOS)


def test_an_evaluation_leaves_the_critics_memory_alone():
    agent = small(memory="lstm")
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    _, _, learning = agent.act(inputs, state, None)
    _, _, after = agent.evaluation(False).act(inputs, state, None)
    assert equal(after.actor, learning.actor)
    assert not any(x.any() for x in after.critics) and all(x.any() for x in learning.critics)


@every_algo
@pytest.mark.parametrize("model", ["lstm", "gru", "lstm, shared"])
def test_states_of_acting_are_those_of_one_pass_over_the_sequence(name, model):
    """Sequences begin with what each network was fed there; B136, B145."""
    agent = small(ALGOS[name], **MODELS[model])
    inputs = chance_inputs(agent, 7, 5)
    state = tree_map(torch.randn_like, agent.model.initial_state(5))
    fed = agent.states(state)
    after = state
    for t, draw in enumerate(agent.draws(noise_of(agent, 7, 5))):
        _, _, after = agent.act(inputs[t], after, draw)
    _, actor = agent.actor(inputs, fed[0])
    _, critics = agent.z(inputs, fed[1], chance_action(agent, 7, 5))
    for found, expected in zip(agent.states(after), (actor, critics), strict=True):
        for x, y in zip(tree_leaves(found), tree_leaves(expected), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)
    assert (len(tree_leaves(after.actor)) == 0) == agent.shares_trunk


@pytest.mark.parametrize("name", ["ou", "sac"])
def test_the_state_fed_to_a_first_row_is_the_initial_one(name):
    agent = small(ALGOS[name], memory="gru")
    inputs = chance_inputs(agent, 5)
    first = inputs.first
    assert first.any() and not first.all()
    fresh = agent.model.initial_state(5)
    spoilt = tree_map(lambda x: torch.full_like(x, 3.0), fresh)
    (draw,) = agent.draws(noise_of(agent, 1, 5))
    found, expected = (agent.act(inputs, state, draw) for state in (spoilt, fresh))
    for x, y in zip(tree_leaves(found[2]), tree_leaves(expected[2]), strict=True):
        assert torch.equal(x[first], y[first])
        assert not torch.isclose(x[~first], y[~first]).all(1).any()
    assert torch.equal(found[0][first], expected[0][first])


@pytest.mark.parametrize("model", ["plain", "lstm", "lstm, shared"])
@pytest.mark.parametrize("name", ["ddpg", "ou", "sac"])
def test_a_state_comes_back_from_a_checkpoint(name, model):
    agent = small(ALGOS[name], **MODELS[model])
    state = agent.model.initial_state(5)
    if tree_leaves(state):
        state = tree_map(torch.randn_like, state)
    back = like(agent.model.initial_state(5), saved(state))
    assert type(back) is type(state)
    inputs = chance_inputs(agent, 5)
    found, expected = (agent.act(inputs, x, None) for x in (back, state))
    assert equal(found[0], expected[0])
    assert equal(found[2], expected[2])


@pytest.mark.parametrize("model", ["plain", "lstm", "lstm, shared"])
@pytest.mark.parametrize("name", ["td3", "ou", "sac"])
def test_a_ring_holds_what_was_answered_and_fed(name, model):
    """Rows and states of two windows, as the agent gives them again; from warm-up to policy."""
    agent = small(ALGOS[name], acts=False, **MODELS[model])
    envs = in_process(lambda _: ChanceEnv(spaces.Box(-2.0, 2.0, SHAPE)), 3)
    state = agent.model.initial_state(3)
    row = example_row(envs.spec, agent.example_kept())
    interval = 4
    kept = agent.kept_state(state)
    memories = agent.states(state)[1 if agent.shares_trunk else 0 :]
    assert len(tree_leaves(kept)) == len(tree_leaves(memories))  # and no process
    ring = Ring(row, 40, 3, 8, reads=agent.model.reads, state=kept, state_interval=interval)
    window = RingWindow(ring.blocks[0], state)
    noise = Noise(0, ACTION_NOISE, range(3), agent.uniforms, agent.normals)
    sampler = Sampler(envs, agent, window, noise)
    sampler.reset()
    for w, env_steps in enumerate((0, 10**6)):
        agent.set_exploration(env_steps)
        sampler.collect()
        given = noise.rows(8 * w, 8)
        with torch.inference_mode():
            for t, draw in enumerate(agent.draws(given)):
                if t % interval == 0:
                    assert equal(ring.blocks[0].kept_state(8 * w + t), agent.kept_state(state))
                action, _, state = agent.act(window.acting_inputs(t), state, draw)
                assert np.array_equal(window.rows.action[t], action.numpy())
        assert np.abs(window.rows.action[:-1]).max() <= 1
        if w == 0:
            assert np.array_equal(window.rows.action[:-1], 2 * given[..., :D] - 1)
    envs.close()
