"""SAC with a network of state values (Haarnoja et al., 2018a)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from slow_q_value import (
    Adam,
    Perceptron,
    Reference,
    Squashed,
    actor_of,
    critics_of,
    moved,
    names_of,
)
from small_q import items
from small_q_value import chance_window, drawn, everything, gradients, learner, small_agent

from rlpyt.algos.options import SACOptions

N, UPDATES = 12, 4
COMMON: dict[str, Any] = {
    "gamma": 0.9,
    "lr": 3e-3,
    "actor_lr": 2e-3,
    "optimizer_eps": 1e-2,
    "batch_size": N,
    "target_tau": 0.3,
    "prioritized": True,
}
CASES: dict[str, SACOptions] = {
    "as published": SACOptions(**COMMON, temperature=1.0, reward_scale=5.0),
    "learned temperature, two steps, delay of 2": SACOptions(**COMMON, n_step=2, policy_delay=2),
    "sequences": SACOptions(**COMMON, train_rows=4, n_step=2, burn_in=2, temperature=0.3),
}
VALUE = tuple(f"value.layers.{k}.{kind}" for k in (0, 1) for kind in ("weight", "bias"))


def value_of(weights: Any) -> Perceptron:
    return Perceptron(*(weights[name][0] for name in VALUE))


class ValueReference(Reference):
    """The critics' update of algorithm 1 of the paper, in NumPy and float64."""

    def joint(self, nets: Any, draws: Any, alpha: float) -> tuple[Any, np.ndarray]:
        """The gradient of critics and V, and the items' priorities."""
        critics, actor = critics_of(nets["critics"]), actor_of(nets["actor"])
        value, target = value_of(nets["critics"]), value_of(nets["target_critics"])
        names = names_of(nets["critics"])
        grads = [[np.zeros_like(nets["critics"][n][c]) for n in names] for c in range(len(critics))]
        slopes = [np.zeros_like(nets["critics"][n]) for n in VALUE]
        errors: list[list[float]] = [[] for _ in self.weight]
        for t, i in self.trained:
            scale = self.weight[i] / len(self.trained)
            reward, discount, m = self.following(t, i)
            wanted, sizes = reward + discount * target(self.x[m, i]), []
            for c, critic in enumerate(critics):
                error = critic(np.concatenate([self.x[t, i], self.action[t, i]])) - wanted
                sizes.append(abs(float(error[0])))
                for total, g in zip(grads[c], critic.back(error * scale)[0], strict=True):
                    total += g.reshape(total.shape)
            errors[i].append(float(np.mean(sizes)))
            noise = draws["action"][t - self.o.trained.start, i]
            policy = Squashed(actor(self.x[t, i]), noise)
            read = np.concatenate([self.x[t, i], policy.u])
            soft = min(float(critic(read)[0]) for critic in critics) - alpha * policy.log_prob
            error = value(self.x[t, i]) - soft
            for total, g in zip(slopes, value.back(error * scale)[0], strict=True):
                total += g.reshape(total.shape)
        gradient, priority = self.ended(nets, names, grads, errors)
        return gradient | dict(zip(VALUE, slopes, strict=True)), priority


def weights(network: Any) -> dict[str, np.ndarray]:
    return {name: p.detach().double().numpy().copy() for name, p in network.named_parameters()}


def networks(agent: Any) -> dict[str, Any]:
    found = {"actor": agent.actor, "critics": agent.critics, "target_critics": agent.target_critics}
    return {name: weights(network) for name, network in found.items()}


def of_states(options: Any = None, **given: Any) -> tuple[Any, Any]:
    options = options or SACOptions()
    agent = small_agent(options, value_network=True, **given)
    return learner(options, agent=agent)


@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_reference(name: str) -> None:
    """8.4: critics, V and its target, priorities, actor, temperature."""
    options = CASES[name]
    agent = small_agent(options, activation="tanh", value_network=True)
    with torch.no_grad():
        agent.actor.linear.weight *= 0.3  # so that deviations are not clamped
    window = chance_window(agent, options, columns=N, seed=2)
    weight = np.linspace(0.4, 1.0, N, dtype=np.float32)
    algorithm, _ = learner(options, window, agent, weights=weight)
    reference = ValueReference(window.rows, options, weight)
    nets, before = networks(agent), networks(agent)
    critics_step = Adam(options.lr, options.optimizer_eps, 0.0)
    actor_step = Adam(options.actor_lr or 0.0, options.optimizer_eps, 0.0)
    temperature_step = Adam(options.lr, options.optimizer_eps, 0.0)
    log_alpha = {"": np.array(0.0)}
    draw = algorithm.draw
    for k in range(UPDATES):
        found = draw(items(window))
        algorithm.draw = lambda _, found=found: found
        draws = {"action": found.action.numpy(), "subset": None}
        metrics = algorithm.learn(items(window).replace(weight=torch.from_numpy(weight)), 0)
        price = float(np.exp(log_alpha[""])) if options.temperature is None else options.temperature
        gradient, priority = reference.joint(nets, draws, price)
        np.testing.assert_allclose(metrics[len(algorithm.names) :], priority, rtol=2e-4, atol=2e-5)
        nets["critics"] = critics_step.step(nets["critics"], gradient)
        if (k + 1) % options.policy_delay == 0:
            gradient, entropy = reference.actor(nets, draws, price)
            nets["actor"] = actor_step.step(nets["actor"], gradient)
            log_alpha = temperature_step.step(log_alpha, {"": np.array(entropy + 2)})
        nets["target_critics"] = moved(nets["target_critics"], nets["critics"], options)
    for network, tensors in networks(agent).items():
        for tensor, w in tensors.items():
            expected = nets[network][tensor]
            np.testing.assert_allclose(w, expected, rtol=0, atol=3e-6, err_msg=tensor)
            assert np.abs(expected - before[network][tensor]).max() > 1e-4, tensor
    if options.temperature is None:
        assert float(algorithm.temperature()) == pytest.approx(np.exp(log_alpha[""]), rel=1e-5)


@pytest.mark.parametrize("model", [{}, {"memory": "lstm"}, {"memory": "gru", "share_trunk": True}])
def test_targets_are_of_the_target_of_v_alone(model: dict[str, Any]) -> None:
    """Other target critics, or another policy, make no other targets; another V' does."""
    sequences = {"burn_in": 2, "train_rows": 4, "n_step": 2} if model else {}
    algorithm, replay = of_states(SACOptions(**sequences), **model)
    agent = algorithm.agent
    batch, draws = drawn(algorithm, replay)
    assert draws.following is None
    wanted = algorithm.target(batch, draws)
    with torch.no_grad():
        for network in (agent.target_critics.ensemble, agent.actor.linear):
            for parameter in network.parameters():
                parameter.mul_(2.0)
    assert torch.equal(algorithm.target(batch, draws), wanted)
    agent.target_critics.value.layers[1].bias.data += 1.0
    moved_by = (algorithm.target(batch, draws) - wanted)[..., 0]
    torch.testing.assert_close(moved_by, batch.discount, rtol=1e-4, atol=1e-5)


def test_the_loss_of_v_moves_v_alone() -> None:
    """B184: neither the critics that it learns from nor the policy."""
    algorithm, replay = of_states()
    batch, draws = drawn(algorithm, replay)
    found = gradients(algorithm, algorithm.value_loss(batch, draws))
    assert not found["actor"].any() and not found["target 0"].any()
    critics = algorithm.learner.parameters
    by_name = dict(zip(critics.names, critics.parameters, strict=True))
    touched = {name for name, p in by_name.items() if p.grad is not None and p.grad.any()}
    assert touched == {f"critics.{name}" for name in VALUE}


def test_it_goes_on_from_its_state() -> None:
    one, replay = of_states(SACOptions(lr=1e-2))
    two, _ = of_states(SACOptions(lr=1e-2), seed=1)
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
