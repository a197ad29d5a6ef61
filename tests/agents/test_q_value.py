"""Critics that are asked, networks that are kept apart, and whom gradients reach."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from small_actor import (
    ALGOS,
    MODELS,
    SHAPE,
    chance_action,
    chance_inputs,
    equal,
    noise_of,
    numbers,
    pixels,
    several,
    spec,
)
from small_actor import small_agent as small
from stepping import in_process
from torch import Tensor, nn

from rlpyt.agents.continuous import DeterministicAgent, make_agent
from rlpyt.agents.q_value import Draw
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import DDPGOptions, SACOptions, TD3Options
from rlpyt.arrays import tree_leaves
from rlpyt.models.flat import Adam
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_networks, make_returns
from rlpyt.noise import ACTION_NOISE, Noise
from rlpyt.rows import Window, example_row
from rlpyt.samplers.sampler import Sampler

every_algo = pytest.mark.parametrize("name", ALGOS)
every_model = pytest.mark.parametrize("model", MODELS)


# ---------------------------------------------------------------- values and targets


@every_model
@every_algo
def test_targets_begin_equal_and_apart(name, model):
    """ANCESTOR W28; B227: both take the weights that an agent is built with, or loads."""
    algo, env = ALGOS[name], spec()
    torch.manual_seed(0)
    networks = make_networks(env, make_returns(algo), algo, ActorQOptions(**MODELS[model]))
    agent: Any = make_agent(env, networks, make_returns(algo), algo)
    pairs = [(agent.critics, agent.target_critics)]
    if isinstance(agent, DeterministicAgent):
        pairs.append((agent.actor, agent.target_actor))
    else:
        assert agent.target_actor is None
    for own, target in pairs:
        ours, theirs = dict(own.named_parameters()), dict(target.named_parameters())
        assert ours.keys() == theirs.keys()
        for key, p in ours.items():
            assert torch.equal(p, theirs[key]) and p.data_ptr() != theirs[key].data_ptr()
            assert p.requires_grad and not theirs[key].requires_grad
    if agent.shares_trunk and agent.target_actor is not None:
        assert agent.target_actor.trunk is agent.target_critics.trunk
        assert agent.actor.trunk is agent.critics.trunk is not agent.target_critics.trunk
    other = small(algo, seed=5, **{**MODELS[model], "hidden_sizes": (256, 256), "memory_size": 64})
    agent.load_state_dict(other.state_dict())
    assert equal([p.data for p in agent.parameters()], [p.data for p in other.parameters()])
    names = {name.split(".")[0] for name in agent.state_dict()}
    assert names == {"model", "target_critics"} | ({"target_actor"} if len(pairs) > 1 else set())


@every_model
@every_algo
def test_values_are_the_networks_own_and_targets_are_others(name, model):
    agent = small(ALGOS[name], **MODELS[model])
    inputs, action = chance_inputs(agent, 4, 5), chance_action(agent, 4, 5)
    fed = agent.states(agent.model.initial_state(5))
    z, state = agent.z(inputs, fed[1], action)
    algo = ALGOS[name]
    assert z.shape == (algo.critics, 4, 5, agent.returns.outputs)
    assert agent.returns.value(z).shape == (algo.critics, 4, 5)
    assert equal((z, state), agent.critics(inputs, fed[1], action))
    target, _ = agent.target_z(inputs, fed[1], action)
    assert not torch.allclose(target, z) and not target.requires_grad
    first, _ = agent.z(inputs, fed[1], action, True, 1)
    torch.testing.assert_close(first, z[:1])
    subset = torch.tensor([algo.critics - 1])
    chosen, _ = agent.target_z(inputs, fed[1], action, subset)
    torch.testing.assert_close(chosen, target[subset])
    if isinstance(agent, DeterministicAgent):
        own, other = agent.action(inputs, fed[0])[0], agent.target_action(inputs, fed[0])[0]
        assert own.shape == other.shape == (4, 5, *SHAPE) and not torch.allclose(own, other)
    else:
        drawn, log_prob, _ = agent.sample(inputs, fed[0], torch.randn(4, 5, *SHAPE))
        assert drawn.shape == (4, 5, *SHAPE) and log_prob.shape == (4, 5)


def losses(agent: Any, inputs: Any, action: Tensor) -> tuple[Tensor, Tensor]:
    """A loss of the critics and one of the actor, as the algorithms make them."""
    fed = agent.states(agent.model.initial_state(inputs.observation_size))
    z, _ = agent.z(inputs.rows, fed[1], action)
    if isinstance(agent, DeterministicAgent):
        chosen, _ = agent.action(inputs.rows, fed[0])
        extra: Any = 0.0
    else:
        chosen, extra, _ = agent.sample(inputs.rows, fed[0], torch.ones(*action.shape))
    judged, _ = agent.z(inputs.rows, fed[1], chosen, True)
    actor = (0.2 * extra - agent.returns.value(judged).mean(0)).mean()
    return z.square().mean(), actor


@dataclasses.dataclass
class Given:
    rows: Any
    observation_size: int


def touched(module: nn.Module) -> set[bool]:
    return {p.grad is not None and bool(p.grad.any()) for p in module.parameters()}


@every_model
@every_algo
def test_the_loss_of_the_actor_moves_no_critic_and_that_of_critics_no_actor(name, model):
    """B184: nor what they share, which the critics alone train; nor any target."""
    agent = small(ALGOS[name], **MODELS[model])
    given = Given(chance_inputs(agent, 4, 5), 5)
    critic, actor = losses(agent, given, chance_action(agent, 4, 5))
    critic.backward()
    assert touched(agent.actor) == {False} and True in touched(agent.critics)
    assert agent.critics.trunk is not agent.actor.trunk or touched(agent.critics) == {True}
    for p in agent.parameters():
        p.grad = None
    actor.backward()
    assert touched(agent.critics) == {False} and True in touched(agent.actor)
    assert all(p.grad is None for p in agent.critics.parameters())
    assert all(p.grad is None for p in agent.target_critics.parameters())


@pytest.mark.parametrize("share", [True, False])
def test_with_images_each_loss_stays_on_its_side_of_the_encoder(share):
    observation = several()
    agent = small(TD3Options(), observation=observation, encoder="minatar", share_trunk=share)
    given = Given(chance_inputs(agent, 4, 5, observation=observation), 5)
    critic, actor = losses(agent, given, chance_action(agent, 4, 5))
    actor.backward()
    encoder = agent.critics.trunk
    assert touched(encoder) == {False} and True in touched(agent.actor)
    assert (agent.actor.trunk is encoder) == share
    assert share or True in touched(agent.actor.trunk)
    critic.backward()
    assert touched(encoder) == {True}


@every_algo
def test_the_gradient_of_frozen_critics_reaches_the_action_as_it_is(name):
    agent = small(ALGOS[name])
    inputs = chance_inputs(agent, 4, 5)
    slopes = []
    for frozen in (False, True):
        action = chance_action(agent, 4, 5).requires_grad_()
        z, _ = agent.z(inputs, (), action, frozen)
        slopes.append(torch.autograd.grad(z.square().sum(), action)[0])
    torch.testing.assert_close(*slopes)
    assert slopes[0].any()


# ---------------------------------------------------------------- how networks are run


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_half_precision_stays_inside_the_networks(name):
    agent, exact = (small(ALGOS[name], memory="lstm", precision=p) for p in ("bf16", "float32"))
    inputs, state = chance_inputs(agent, 5), agent.model.initial_state(5)
    (draw,) = agent.draws(noise_of(agent, 1, 5))
    found, expected = (x.act(inputs, state, draw) for x in (agent, exact))
    assert {x.dtype for x in tree_leaves(found)} == {torch.float32}
    assert not torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[0], expected[0], rtol=0.1, atol=0.1)
    z, _ = agent.z(inputs, agent.states(state)[1], found[0])
    assert z.dtype == torch.float32


def test_observations_are_normalized_on_reading():
    agent, plain = small(normalize=True), small()
    inputs = chance_inputs(agent, 3, 5)
    assert torch.equal(agent.act(inputs[0], (), None)[0], plain.act(inputs[0], (), None)[0])
    agent.normalizer.update(10 * inputs.observation)
    assert not torch.allclose(agent.act(inputs[0], (), None)[0], plain.act(inputs[0], (), None)[0])
    read = agent.read(inputs)
    expected, _ = agent.action(read, ())
    torch.testing.assert_close(agent.act(inputs[0], (), None)[0], expected[0])


def test_a_compiled_update_of_images_is_the_eager_one_in_one_graph(graphs):
    """As `algos/learner.py` compiles it: loss and gradient together, one graph for each learner.

    Of vectors, and of every kind of values, `algos/test_compiled_q_value.py` shows it.
    """
    seen, found = pixels(10, 10, 4), []
    for compile in (False, True):
        agent = small(ALGOS["sac"], observation=seen, encoder="minatar")
        rows = chance_inputs(agent, 1, 16, observation=seen)
        action, noise = chance_action(agent, 1, 16), torch.ones(1, 16, *SHAPE)

        def critic_loss(rows: Any, action: Tensor, agent: Any = agent) -> tuple[Tensor, Tensor]:
            z, _ = agent.z(rows, (), action)
            loss = z.square().mean()
            return loss, loss.detach().view(1)

        def actor_loss(rows: Any, noise: Tensor, agent: Any = agent) -> tuple[Tensor, Tensor]:
            chosen, extra, _ = agent.sample(rows, (), noise)
            z, _ = agent.z(rows, (), chosen, True)
            loss = (0.1 * extra - agent.returns.value(z).mean(0)).mean()
            return loss, loss.detach().view(1)

        learners = [Learner(x, Adam, 0.0, compile) for x in (agent.critics, agent.actor)]
        metrics = []
        for _ in range(3):
            metrics.append(learners[0].step(critic_loss, 1e-2, rows, action))
            metrics.append(learners[1].step(actor_loss, 1e-2, rows, noise))
        vectors = [learner.parameters.vector.clone() for learner in learners]
        found.append((torch.stack(metrics), *vectors))
    assert len(graphs) == 2
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)
    torch.compiler.reset()


def test_a_network_of_the_users_is_trained_and_acts():
    class Own(nn.Module):
        reads = frozenset({"observation"})

        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.linear = nn.Linear(inputs, outputs)

        def initial_state(self, batch: int) -> Any:
            return ()

    class OwnActor(Own):
        def forward(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
            return self.linear(inputs.observation), state

    class OwnCritics(Own):
        def features(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
            return inputs.observation, state

        def forward(
            self, inputs: Any, state: Any, action: Tensor, frozen: bool, chosen: Any
        ) -> tuple[Tensor, Any]:
            return self.linear(torch.cat([inputs.observation, action], -1))[None], state

    algo = DDPGOptions()
    agent = make_agent(spec(), (OwnActor(3, 2), OwnCritics(5, 1)), make_returns(algo), algo)
    inputs = chance_inputs(agent, 5)
    action, _, state = agent.act(inputs, (), Draw(None, torch.zeros(5, 2)))
    assert action.shape == (5, 2) and state == () and agent.model.initial_state(5) == ()
    assert agent.z(inputs, (), action)[0].shape == (1, 5, 1)


def test_it_acts_in_an_environment_of_gymnasiums() -> None:
    """Pendulum: one window of warm-up, one of policy, in a linear window."""
    agent = small(SACOptions(), acts=False, action=numbers(1, bound=2.0))
    envs = in_process(lambda _: gymnasium.make("Pendulum-v1"), 2)
    window = Window(example_row(envs.spec), 20, 2, reads=agent.model.reads)
    noise = Noise(0, ACTION_NOISE, range(2), agent.uniforms, agent.normals)
    sampler = Sampler(envs, agent, window, noise)
    sampler.reset()
    for env_steps in (0, 10**6):
        agent.set_exploration(env_steps)
        rows = sampler.collect().rows
        assert np.abs(rows.action[:-1]).max() <= 1 and np.abs(rows.action[:-1]).min() > 0
        assert np.isfinite(rows.reward).all()
    envs.close()
