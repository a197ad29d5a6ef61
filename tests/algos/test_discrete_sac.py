"""SAC of one Discrete choice: means over actions, masks, and the entropy that is wanted."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from slow_discrete_sac import DiscreteReference
from slow_q_value import Adam, moved
from small_parts import ChanceEnv
from small_q import ACTIONS, OneWindow, fill_with_chance, items, spec
from small_q_value import everything
from toys import MaskEnv

from rlpyt.agents.continuous import make_agent
from rlpyt.algos.discrete_sac import DiscreteSAC
from rlpyt.algos.options import SACOptions
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import Parts, build
from rlpyt.cli import main
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_networks, make_returns
from rlpyt.rows import Inputs, Window, example_row
from rlpyt.run import LoopOptions, Run

N, UPDATES = 12, 4
COMMON: dict[str, Any] = {
    "gamma": 0.9,
    "lr": 3e-3,
    "actor_lr": 2e-3,
    "optimizer_eps": 1e-2,
    "huber_delta": 0.7,
    "batch_size": N,
    "target_tau": 0.3,
    "prioritized": True,
}
CASES: dict[str, tuple[SACOptions, dict[str, Any]]] = {
    "sac": (SACOptions(**COMMON), {}),
    "masked": (SACOptions(**COMMON, n_step=2), {}),
    "fixed temperature, Huber": (SACOptions(**COMMON, temperature=0.3, critic_loss="huber"), {}),
    "masked, sequences": (SACOptions(**COMMON, train_rows=4, n_step=2, burn_in=2), {}),
    "redq": (SACOptions(**COMMON, critics=5, target_critics=2, policy_delay=2), {}),
    "droq": (
        SACOptions(**COMMON, actor_judge="mean", target_entropy=0.4),
        {"critic_dropout": 0.25},
    ),
    "droq of drawn critics": (SACOptions(**COMMON, critics=4), {"critic_dropout": 0.25}),
}


def small_agent(options: SACOptions, *, mask: bool = False, seed: int = 0, **model: Any) -> Any:
    torch.manual_seed(seed)
    env, returns = spec(mask=mask), make_returns(options)
    given = {"hidden_sizes": (8,), "memory_size": 6, "activation": "tanh", **model}
    networks = make_networks(env, returns, options, ActorQOptions(**given))
    agent: Any = make_agent(env, networks, returns, options)
    with torch.no_grad():
        for parameter in agent.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.5 * torch.randn_like(parameter))
    return agent


def chance_window(agent: Any, options: SACOptions, *, mask: bool, end: float = 0.3) -> Window:
    """Items of chance; of a transition the trained row is live."""
    window = Window(
        example_row(spec(mask=mask)),
        options.item_length - 1,
        N,
        reads=agent.model.reads,
        state=agent.model.initial_state(N),
    )
    fill_with_chance(window.storage, 2, end)
    tree_map(lambda x: x.copy_(torch.randn_like(x)), window.states)
    if len(options.trained) == 1:
        window.rows.terminated[0] = window.rows.truncated[0] = window.rows.first[1] = False
        window.rows.reward[1] = np.random.default_rng(0).normal(size=N)
    return window


def learner(options: SACOptions, *, mask: bool = False, weight: Any = None, **given: Any) -> Any:
    agent = small_agent(options, mask=mask, **given)
    replay: Any = OneWindow(chance_window(agent, options, mask=mask), weight)
    generator = torch.Generator().manual_seed(0)
    return DiscreteSAC(agent, options, replay, 1000, generator), replay


def networks(agent: Any) -> dict[str, Any]:
    found = {"actor": agent.actor, "critics": agent.critics, "target_critics": agent.target_critics}
    return {
        name: {k: p.detach().double().numpy().copy() for k, p in network.named_parameters()}
        for name, network in found.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_reference(name: str) -> None:
    """8.4, for a choice: critics, priorities, actor, temperature, targets."""
    options, model = CASES[name]
    weight = np.linspace(0.4, 1.0, N, dtype=np.float32)
    algorithm, replay = learner(options, mask="masked" in name, weight=weight, **model)
    reference = DiscreteReference(
        replay.window.rows, options, weight, model.get("critic_dropout", 0.0)
    )
    nets, before = networks(algorithm.agent), networks(algorithm.agent)
    critics_step = Adam(options.lr, options.optimizer_eps, 0.0)
    actor_step = Adam(options.actor_lr or 0.0, options.optimizer_eps, 0.0)
    temperature_step = Adam(options.lr, options.optimizer_eps, 0.0)
    log_alpha = {"": np.array(0.0)}
    draw, masks = algorithm.draw, algorithm.masks
    for k in range(UPDATES):
        algorithm.masks = masks
        found = draw(items(replay.window))
        judges = masks(items(replay.window))
        algorithm.draw, algorithm.masks = (lambda _, x=found: x), (lambda *_, x=judges, **__: x)
        draws = dict(tree_map(lambda x: x.numpy(), found.replace(judges=judges)).items())
        given = items(replay.window).replace(weight=torch.from_numpy(weight))
        metrics = algorithm.learn(given, 0)
        price = float(np.exp(log_alpha[""])) if options.temperature is None else options.temperature
        gradient, priority = reference.critics_gradient(nets, draws, price)
        np.testing.assert_allclose(metrics[len(algorithm.names) :], priority, rtol=2e-4, atol=2e-5)
        nets["critics"] = critics_step.step(nets["critics"], gradient)
        if (k + 1) % options.policy_delay == 0:
            gradient, entropy, wanted = reference.actor_gradient(nets, draws, price)
            nets["actor"] = actor_step.step(nets["actor"], gradient)
            log_alpha = temperature_step.step(log_alpha, {"": np.array(entropy - wanted)})
        nets["target_critics"] = moved(nets["target_critics"], nets["critics"], options)
    for network, found in networks(algorithm.agent).items():
        for tensor, w in found.items():
            expected = nets[network][tensor]
            np.testing.assert_allclose(w, expected, rtol=0, atol=3e-6, err_msg=tensor)
            assert np.abs(expected - before[network][tensor]).max() > 1e-4, tensor
    if options.temperature is None:
        assert float(algorithm.temperature()) == pytest.approx(np.exp(log_alpha[""]), rel=1e-5)


# ---------------------------------------------------------------- identities


def test_the_best_policy_of_its_critics_is_their_softmax_at_the_temperature() -> None:
    """There the actor's gradient is 0; elsewhere it is not."""
    algorithm, replay = learner(SACOptions(critics=1, temperature=0.7), hidden_sizes=())
    agent = algorithm.agent
    batch = algorithm.read(items(replay.window))
    draws = algorithm.draw(items(replay.window))
    found = []
    for scale in (0.7, 0.3):
        with torch.no_grad():
            layer = agent.critics.ensemble.layers[0]
            agent.actor.linear.weight.copy_(layer.weight[0] / scale)
            agent.actor.linear.bias.copy_(layer.bias[0, 0] / scale)
        loss, _ = algorithm.actor_loss(batch, draws)
        (slope,) = torch.autograd.grad(loss, agent.actor.linear.weight)
        found.append(float(slope.abs().max()))
    assert found[0] < 1e-6 < 1e-3 < found[1]


def test_where_a_mask_leaves_one_action_the_bootstrap_is_its_value() -> None:
    """No entropy is left there, and no other action is in the mean."""
    algorithm, replay = learner(SACOptions(gamma=0.9), mask=True)
    window = replay.window
    window.rows.mask[:] = np.arange(ACTIONS) == 2
    batch = algorithm.read(items(window))
    target = algorithm.target(batch, algorithm.draw(items(window)))
    z, _ = algorithm.agent.target_z(batch.following, (), None)
    wanted = batch.returns + batch.discount * z[..., 2, 0].amin(0)
    torch.testing.assert_close(target[..., 0], wanted.detach())


def test_masked_actions_are_never_drawn_nor_told() -> None:
    agent = small_agent(SACOptions(learning_starts=50), mask=True)
    torch.manual_seed(0)
    allowed = torch.rand(4000, ACTIONS) < 0.4
    allowed[:, 1] |= ~allowed.any(-1)
    inputs = Inputs(torch.randn(4000, 3), mask=allowed)
    noise = np.random.default_rng(0).random((1, 4000, 1), np.float32)
    for env_steps in (0, 50):
        agent.set_exploration(env_steps)
        (draw,) = agent.draws(noise)
        for given in (draw, None):
            action, _, _ = agent.act(inputs, (), given)
            assert action.dtype == torch.int64 and allowed.gather(1, action[:, None]).all()
    log_p, _ = agent.log_policy(inputs, ())
    assert (log_p.exp()[~allowed] == 0).all() and log_p.isfinite().all()


def test_the_warm_up_is_uniform_and_the_policy_draws_by_its_probabilities() -> None:
    agent = small_agent(SACOptions(learning_starts=50))
    inputs = Inputs(torch.randn(1, 3).expand(20_000, 3))
    noise = np.random.default_rng(0).random((1, 20_000, 1), np.float32)
    p = agent.log_policy(inputs[:1], ())[0].exp()[0]
    for env_steps, wanted in ((0, torch.full((ACTIONS,), 1 / ACTIONS)), (50, p)):
        agent.set_exploration(env_steps)
        action, _, _ = agent.act(inputs, (), agent.draws(noise)[0])
        found = torch.bincount(action, minlength=ACTIONS) / len(action)
        torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=0.015)
    told, _, _ = agent.act(inputs[:1], (), None)
    assert int(told) == int(p.argmax())
    stochastic, _, _ = agent.evaluation(True).act(
        inputs, (), agent.evaluation(True).draws(noise)[0]
    )
    assert torch.equal(stochastic, action) and agent.evaluation(False).draws(noise[..., :0]) == [
        None
    ]


@pytest.mark.parametrize("mask", [False, True])
def test_the_entropy_that_is_wanted_is_a_part_of_the_most_there_can_be(mask: bool) -> None:
    algorithm, replay = learner(SACOptions(entropy_fraction=0.5), mask=mask)
    if mask:
        replay.window.rows.mask[:] = np.arange(ACTIONS) < 3
        replay.window.rows.mask[:, :4] = False  # says nothing: all are allowed
    batch = algorithm.read(items(replay.window))
    _, metrics = algorithm.actor_loss(batch, algorithm.draw(items(replay.window)))
    wanted = (4 * math.log(4) + 8 * math.log(3)) / 12 if mask else math.log(4)
    assert float(metrics[3]) == pytest.approx(0.5 * wanted)
    given, replay = learner(SACOptions(target_entropy=0.2), mask=mask)
    batch = given.read(items(replay.window))
    _, metrics = given.actor_loss(batch, given.draw(items(replay.window)))
    assert float(metrics[3]) == pytest.approx(0.2)


def test_it_goes_on_from_its_state() -> None:
    one, replay = learner(SACOptions(lr=1e-2))
    two, _ = learner(SACOptions(lr=1e-2), seed=1)
    two.replay = replay
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    for _ in range(3):
        one.learn(items(replay.window), 0)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    for made in (one, two):
        for _ in range(3):
            made.learn(items(replay.window), 0)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two), strict=True))


# ---------------------------------------------------------------- runs


def parts_of(env: Any, model: Any = None, num_envs: int = 4, **given: Any) -> Parts:
    small = {
        "horizon": 4,
        "batch_size": 32,
        "replay_ratio": 16.0,
        "replay_size": 2000,
        "learning_starts": 100,
        "lr": 3e-3,
        **given,
    }
    options = ActorQOptions(**{"hidden_sizes": (16,), "memory_size": 6, **(model or {})})
    loop = LoopOptions(seed=1, env_steps=10_000)
    return build(Run(EnvOptions(env, num_envs=num_envs), SACOptions(**small), options, loop))


def train(parts: Parts, env_steps: int) -> dict[str, Any]:
    parts.sampler.reset()
    metrics: Any = {}
    for steps in range(0, env_steps, 4 * parts.sampler.window.horizon):
        parts.agent.set_exploration(steps)
        metrics = parts.algorithm.update(parts.sampler.collect(), steps)
    return {name: float(x) for name, x in metrics.items()}


class Match(gymnasium.Env):
    """The reward is 1 for the action that the observation names."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,))
        self.action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.named = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.named], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        here = np.eye(3, dtype=np.float32)[self.named]
        return here, float(action == 5 + self.named), True, False, {}


def test_it_learns_whom_an_observation_names() -> None:
    """And the temperature rises until the entropy is half of the greatest."""
    parts = parts_of(Match, entropy_fraction=0.5, initial_temperature=0.2, temperature_lr=1e-2)
    metrics = train(parts, 1600)
    assert metrics["policy/entropy"] == pytest.approx(0.5 * math.log(3), abs=0.15)
    assert metrics["policy/target_entropy"] == pytest.approx(0.5 * math.log(3))
    assert parts.evaluator.evaluate().mean == 1.0
    parts.close()


@pytest.mark.parametrize("where", ["info", "observation"])
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_masked_runs_never_take_what_is_not_allowed(where: Any, memory: str) -> None:
    """The environment raises on it; with and without a memory, in warm-up, playing, evaluating."""
    sequences = {"burn_in": 2, "train_rows": 4, "n_step": 2, "state_interval": 2, "batch_size": 8}
    given = {} if memory == "none" else sequences
    parts = parts_of(lambda: MaskEnv(where=where), {"memory": memory}, **given)
    metrics = train(parts, 400)
    assert all(map(math.isfinite, metrics.values())) and "policy/entropy" in metrics
    assert parts.evaluator.evaluate().mean == 6.0
    parts.close()


@pytest.mark.parametrize(
    ("space", "given", "said"),
    [
        (spaces.MultiDiscrete([2, 3]), {}, "choose ppo or a2c"),
        (spaces.Discrete(3), {"values": "quantile"}, "values=quantile and one Discrete choice"),
        (spaces.Discrete(3), {"model": {"batch_norm": True}}, "batch_norm and one Discrete"),
    ],
)
def test_what_is_not_here_is_refused_when_the_run_is_built(space, given, said) -> None:
    with pytest.raises(UsageError, match=said):
        parts_of(lambda: ChanceEnv(space), **given)


def test_a_run_twice_is_the_same_run() -> None:
    def after(seed: int) -> list[Any]:
        parts = parts_of(lambda: MaskEnv(), prioritized=True)
        torch.manual_seed(seed)
        train(parts, 300)
        state = {"agent": dict(parts.agent.state_dict()), "algorithm": parts.algorithm.state()}
        parts.close()
        return [np.asarray(x) for x in tree_leaves(state)]

    assert all(np.array_equal(x, y) for x, y in zip(after(0), after(1), strict=True))


def test_it_begins_at_the_command_line(tmp_path) -> None:
    """By its preset, and where positions alone are seen with a memory; saved, loaded, played."""
    for env, memory in (("CartPole-v1", "none"), ("rlpyt/CartPolePositions-v0", "lstm")):
        short = "--env-steps 400 --learning-starts 200 --replay-size 2k --eval-episodes 1 --quiet"
        where = f"--env {env} --seed 0 --runs {tmp_path} --name run-{memory}"
        assert main(f"train sac {where} {short} --memory {memory}".split()) == 0
        assert main(["eval", str(tmp_path / f"run-{memory}"), "--episodes", "1"]) == 0
