"""SAC with batch normalization and without target networks: CrossQ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from slow_crossq import ACTOR, CRITIC, CrossQReference
from slow_q_value import Adam, Weights
from small_q import items
from small_q_value import SIZE, chance_window, drawn, everything, gradients, learner, small_agent

from rlpyt.algos.options import SACOptions
from rlpyt.samplers.published import acting_tensors

N, UPDATES, WARM_UP = 12, 6, 3
COMMON: dict[str, Any] = {
    "gamma": 0.9,
    "lr": 3e-3,
    "actor_lr": 2e-3,
    "adam_beta1": 0.5,
    "optimizer_eps": 1e-2,
    "batch_size": N,
    "learning_starts": 0,
    "replay_ratio": 1.0,
    "prioritized": True,
}
SEQUENCES: dict[str, Any] = {"train_rows": 4, "n_step": 2}
CASES: dict[str, SACOptions] = {
    "crossq": SACOptions(**COMMON),
    "two steps, delay of 2": SACOptions(**COMMON, n_step=2, policy_delay=2),
    "drawn critics": SACOptions(**COMMON, critics=4),
}


def crossq(options: Any = None, **given: Any) -> tuple[Any, Any]:
    options = options or SACOptions()
    agent = small_agent(options, batch_norm=True, batch_norm_warm_up=2, **given)
    return learner(options, agent=agent)


def state_of(network: Any) -> Weights:
    state = network.state_dict().items()
    return {name: x.detach().double().numpy().copy() for name, x in state}


@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_reference(name: str) -> None:
    """Critics, actor, temperature and running statistics, before and after the warm-up."""
    options = CASES[name]
    warm_up = {"batch_norm": True, "batch_norm_warm_up": WARM_UP}
    agent = small_agent(options, activation="tanh", **warm_up)
    with torch.no_grad():
        agent.actor.linear.weight *= 0.3  # so that deviations are not clamped
    window = chance_window(agent, options, columns=N, seed=2)
    weight = np.linspace(0.4, 1.0, N, dtype=np.float32)
    algorithm, _ = learner(options, window, agent, weights=weight)
    reference = CrossQReference(window.rows, options, weight)
    reference.warm_up = WARM_UP
    steps = {
        "critics": Adam(options.lr, options.optimizer_eps, 0.0, 0.5),
        "actor": Adam(options.actor_lr or 0.0, options.optimizer_eps, 0.0, 0.5),
        "temperature": Adam(options.lr, options.optimizer_eps, 0.0),
    }
    nets = {"critics": state_of(agent.critics), "actor": state_of(agent.actor)}
    before = {name: dict(net) for name, net in nets.items()}
    log_alpha = {"": np.array(0.0)}
    draw = algorithm.draw
    for k in range(UPDATES):
        found = draw(items(window))
        algorithm.draw = lambda _, found=found: found
        draws = {
            x: None if (y := getattr(found, x)) is None else y.numpy()
            for x in ("following", "action", "subset")
        }
        metrics = algorithm.learn(items(window).replace(weight=torch.from_numpy(weight)), 0)
        price = float(np.exp(log_alpha[""]))
        gradient, priority, running = reference.joint(nets, draws, price)
        np.testing.assert_allclose(metrics[len(algorithm.names) :], priority, rtol=2e-4, atol=2e-5)
        moved = steps["critics"].step({x: nets["critics"][x] for x in CRITIC}, gradient)
        nets["critics"] |= moved | running
        if (k + 1) % options.policy_delay == 0:
            gradient, entropy, running = reference.climb(nets, draws, price)
            moved = steps["actor"].step({x: nets["actor"][x] for x in ACTOR}, gradient)
            nets["actor"] |= moved | running
            step = {"": np.array(entropy + SIZE)}
            log_alpha = steps["temperature"].step(log_alpha, step)
    for part, network in (("critics", agent.critics), ("actor", agent.actor)):
        for tensor, w in state_of(network).items():
            expected = nets[part][tensor]
            np.testing.assert_allclose(w, expected, rtol=1e-6, atol=4e-6, err_msg=tensor)
            assert np.abs(expected - before[part][tensor]).max() > 1e-4, tensor
    assert float(algorithm.temperature()) == pytest.approx(np.exp(log_alpha[""]), rel=1e-5)


def test_there_are_no_target_networks() -> None:
    algorithm, replay = crossq()
    algorithm.learn(items(replay.window), 0)
    assert algorithm.agent.target_critics is None and not algorithm.targets
    assert not any("target" in name for name in algorithm.agent.state_dict())


def test_rows_and_those_that_follow_are_normalized_as_one_batch() -> None:
    """The control: each for itself, critics say otherwise."""
    algorithm, replay = crossq()
    batch, draws = drawn(algorithm, replay)
    agent: Any = algorithm.agent
    z, _ = algorithm.compared(batch, draws)
    alone, _ = agent.z(batch.inputs, (), batch.action, counted=batch.live)
    running, _ = agent.z(batch.inputs, (), batch.action)
    assert not torch.allclose(z, alone, atol=1e-3) and not torch.allclose(z, running, atol=1e-3)
    following = batch.replace(following=batch.inputs)
    algorithm.following_action = lambda *_: (batch.action, torch.zeros_like(batch.returns))
    same, _ = algorithm.compared(following, draws)
    torch.testing.assert_close(same, alone)


@pytest.mark.parametrize("loss", ["critics", "actor"])
def test_of_a_dead_row_nothing_is_learned_whatever_it_holds(loss: str) -> None:
    """Neither by the losses nor by the statistics, nor of what follows it."""
    options = SACOptions(**SEQUENCES)
    agent = small_agent(options, batch_norm=True, batch_norm_warm_up=0)
    window = chance_window(agent, options, end=0.0)
    window.rows.truncated[2] = True
    window.rows.first[3] = True
    found = []
    for action, reward in ((0.3, 1.0), (-0.9, np.nan)):
        window.rows.action[2], window.rows.reward[3] = action, reward
        algorithm, replay = learner(options, window, agent)
        batch, draws = drawn(algorithm, replay)
        inputs = batch.inputs.replace(observation=batch.inputs.observation.clone())
        inputs.observation[2] = (
            9 * action
        )  # as critics read it: the row before bootstraps from its own
        value, _ = getattr(algorithm, f"{loss.rstrip('s')}_loss")(
            batch.replace(inputs=inputs), draws
        )
        norms = algorithm.statistics[loss == "actor"]._norms
        found.append([value, gradients(algorithm, value)[loss], *(x.newest.clone() for x in norms)])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_acting_is_by_the_running_statistics_and_knows_no_neighbours() -> None:
    algorithm, replay = crossq(SACOptions(lr=1e-2))
    agent: Any = algorithm.agent
    agent.set_exploration(10**6)
    inputs = algorithm.read(items(replay.window)).inputs[0]
    for _ in range(2):
        among, _, _ = agent.act(inputs, (), None)
        alone = torch.cat([agent.act(inputs[i : i + 1], (), None)[0] for i in range(len(among))])
        torch.testing.assert_close(among, alone)
        algorithm.learn(items(replay.window), 0)
    before, _, _ = agent.act(inputs, (), None)
    for norm in agent.actor.norms:
        norm.running[0] += 1.0
    assert not torch.allclose(agent.act(inputs, (), None)[0], before)


def test_who_acts_elsewhere_is_given_the_running_statistics() -> None:
    algorithm, _ = crossq()
    given = {x.data_ptr() for x in acting_tensors(algorithm.agent)}
    assert {norm.running.data_ptr() for norm in algorithm.agent.actor.norms} <= given


def test_it_goes_on_from_its_state() -> None:
    """Statistics and their count, too: the second is past the warm-up when it is loaded."""
    one, replay = crossq(SACOptions(lr=1e-2, policy_delay=3))
    two, _ = crossq(SACOptions(lr=1e-2, policy_delay=3), seed=1)
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    for _ in range(4):
        one.learn(items(replay.window), 0)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    for made in (one, two):
        for _ in range(4):
            made.learn(items(replay.window), 0)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two), strict=True))
    assert int(two.agent.critics.ensemble.batch_norms[0].updates) == 8


def test_an_update_that_fails_leaves_the_statistics_as_they_were() -> None:
    algorithm, replay = crossq()
    algorithm.learn(items(replay.window), 0)
    norms = algorithm.statistics[0]._norms
    before = [norm.running.clone() for norm in norms]
    replay.window.rows.reward[1, 3] = np.nan
    with pytest.raises(FloatingPointError, match=r"gradient of critics\.\S+ is not finite"):
        algorithm.learn(items(replay.window), 0)
    assert all(torch.equal(x, norm.running) for x, norm in zip(before, norms, strict=True))
    assert all(int(norm.updates) == 1 for norm in norms)
