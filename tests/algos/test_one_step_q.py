"""Updates of Q-learning equal a reference in NumPy and float64, written from the papers alone.

Three updates, with the target network copied after the second: DQN's transitions are sequences of
one trained row. Recurrent sequences have their reference in `test_r2d1.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_q import ACTIONS, OneWindow, fill_with_chance, items, small_agent, spec

from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions, QLearningOptions, R2D1Options
from rlpyt.algos.q_targets import Draws
from rlpyt.algos.r2d1 import R2D1
from rlpyt.rows import Inputs, Row, Window, example_row

N, UPDATES = 16, 3
Weights = dict[str, np.ndarray]


class Rows:
    """A window's rows, of which so many are live."""

    def __init__(self, live: int) -> None:
        self.rows = self
        self.last = np.zeros((live + 1, 1), np.bool_)


class Network:
    """Two layers, tanh between them: [..., d] -> [..., A], and the way back."""

    def __init__(self, weights: Weights) -> None:
        hidden, head = "trunk.encoder.mlp.layers.0", "head.advantage.layers.0"
        self.names = (f"{hidden}.weight", f"{hidden}.bias", f"{head}.weight", f"{head}.bias")
        self.w1, self.b1, self.w2, self.b2 = (weights[name] for name in self.names)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.x, self.h = x, np.tanh(x @ self.w1.T + self.b1)
        return self.h @ self.w2.T + self.b2

    def back(self, d: np.ndarray) -> Weights:
        """Gradients, from that of the outputs [N, A]."""
        inner = (d @ self.w2) * (1 - self.h**2)
        return dict(
            zip(self.names, (inner.T @ self.x, inner.sum(0), d.T @ self.h, d.sum(0)), strict=True)
        )


def clipped(gradient: Weights, max_norm: float) -> Weights:
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    return {name: g * min(1.0, max_norm / norm) for name, g in gradient.items()}


def h(x: float, eps: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x if eps else x


def h_inverse(x: float, eps: float) -> float:
    """Pohlen et al. (2018), proposition A.2 (iii)."""
    if not eps:
        return x
    root = (math.sqrt(1 + 4 * eps * (abs(x) + 1 + eps)) - 1) / (2 * eps)
    return math.copysign(root**2 - 1, x)


def gradient(
    rows: Row, options: Any, online: Weights, target: Weights, weight: np.ndarray
) -> tuple[Weights, np.ndarray]:
    """Of the weighted mean loss over live trained rows, and every sequence's priority [N]."""
    x, mask = rows.observation.astype(np.float64), rows.mask
    last = rows.terminated | rows.truncated
    q, q_target = Network(online)(x), Network(target)(x)  # [L, N, A]
    d, errors = np.zeros_like(q), [[] for _ in range(N)]
    first = getattr(options, "burn_in", 0)
    for i in range(N):
        for t in range(first, first + getattr(options, "train_rows", 1)):
            if last[t, i]:
                continue
            reward, m = 0.0, t
            while m - t < options.n_step and not last[m, i]:
                reward += options.gamma ** (m - t) * float(rows.reward[m + 1, i])
                m += 1
            allowed = np.flatnonzero(mask[m, i]) if mask[m, i].any() else np.arange(ACTIONS)
            chooser = q if options.double else q_target
            best = allowed[chooser[m, i, allowed].argmax()]
            discount = 0.0 if rows.terminated[m, i] else options.gamma ** (m - t)
            bootstrap = discount * h_inverse(q_target[m, i, best], options.value_rescale)
            error = q[t, i, rows.action[t, i]] - h(reward + bootstrap, options.value_rescale)
            slope = error if options.loss == "squared" else np.clip(error, -0.7, 0.7)
            d[t, i, rows.action[t, i]] = weight[i] * slope
            errors[i].append(abs(error))
    live = sum(map(len, errors))
    eta = getattr(options, "priority_eta", 1.0)
    priority = [eta * max(e, default=0) + (1 - eta) * sum(e) / max(1, len(e)) for e in errors]
    flat = Network(online)
    flat(x.reshape(-1, x.shape[-1]))
    return flat.back(d.reshape(-1, ACTIONS) / live), np.array(priority)


COMMON: dict[str, Any] = {
    "gamma": 0.9,
    "lr": 3e-3,
    "optimizer_eps": 1e-2,
    "max_grad_norm": 0.5,
    "huber_delta": 0.7,
    "batch_size": N,
    "learning_starts": 0,
    "replay_ratio": 1.0,
    "target_update_updates": 2,
    "prioritized": True,
}
CASES: dict[str, QLearningOptions] = {
    "dqn": DQNOptions(**COMMON),
    "one network": DQNOptions(**{**COMMON, "double": False, "loss": "squared"}),
    "three steps": DQNOptions(**{**COMMON, "n_step": 3}),
    "rmsprop": DQNOptions(**{**COMMON, "optimizer": "rmsprop", "max_grad_norm": 0.0}),
    "soft target": DQNOptions(**{**COMMON, "target_update_updates": 1, "target_tau": 0.3}),
    "r2d1": R2D1Options(**COMMON, burn_in=2, train_rows=5, n_step=2),
}


@pytest.mark.parametrize("name", CASES)
def test_q_learning_takes_the_steps_of_the_reference(name: str) -> None:
    options = CASES[name]
    agent = small_agent(options, mask=True, activation="tanh")
    window = Window(example_row(spec(mask=True)), options.item_length - 1, N)
    fill_with_chance(window.storage, seed=2, end=0.3)
    if isinstance(options, DQNOptions):  # a transition is drawn only where its first row is live
        window.rows.terminated[0] = window.rows.truncated[0] = False
        window.rows.first[1] = False
    weight = np.linspace(0.4, 1.0, N, dtype=np.float32)
    replay: Any = OneWindow(window, weight)
    kind: Any = R2D1 if isinstance(options, R2D1Options) else DQN
    algorithm = kind(agent, options, replay, 1000, torch.Generator())

    def weights(network: Any) -> Weights:
        named = network.named_parameters()
        return {name: p.detach().double().numpy().copy() for name, p in named}

    before = online = weights(agent.model)
    target = weights(agent.target)
    assert any(np.abs(online[name] - target[name]).max() > 0.1 for name in online)
    mean = {name: np.zeros_like(w) for name, w in online.items()}
    square = {name: np.zeros_like(w) for name, w in online.items()}
    priorities = []
    for step in range(1, UPDATES + 1):
        found, priority = gradient(window.rows, options, online, target, weight.astype(np.float64))
        priorities.append(priority)
        limit = options.max_grad_norm or np.inf
        stepped = {}
        for name, g in clipped(found, limit).items():
            if options.optimizer == "rmsprop":  # Graves (2013), eq. 38 to 40, without momentum
                square[name] = 0.95 * square[name] + 0.05 * g**2
                mean[name] = 0.95 * mean[name] + 0.05 * g
                root = np.sqrt(square[name] - mean[name] ** 2 + options.optimizer_eps)
                stepped[name] = online[name] - options.lr * g / root
            else:  # Adam, algorithm 1
                mean[name] = 0.9 * mean[name] + 0.1 * g
                square[name] = 0.999 * square[name] + 0.001 * g**2
                m, v = mean[name] / (1 - 0.9**step), square[name] / (1 - 0.999**step)
                stepped[name] = online[name] - options.lr * m / (np.sqrt(v) + options.optimizer_eps)
        online = stepped
        if step % options.target_update_updates == 0:
            tau = options.target_tau
            target = {k: (1 - tau) * target[k] + tau * online[k] for k in online}
    algorithm.update(Rows(UPDATES * options.rows_per_update), 0)
    assert algorithm.learner.updates == UPDATES
    for found, expected in ((weights(agent.model), online), (weights(agent.target), target)):
        for name, w in found.items():
            np.testing.assert_allclose(w, expected[name], rtol=0, atol=1e-6, err_msg=name)
    assert all(np.abs(online[name] - before[name]).max() > 1e-3 for name in online)
    for found, expected in zip(replay.updated, priorities, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [False, True])
def test_with_equal_networks_the_one_that_chooses_makes_no_difference(mask: bool) -> None:
    """8.4: double Q-learning is Q-learning where the target network equals the trained one."""
    found = []
    for double in (True, False):
        options = DQNOptions(double=double)
        agent = small_agent(options, mask=mask)
        agent.target.load_state_dict(agent.model.state_dict())
        window = Window(example_row(spec(mask=mask)), 1, 64)
        fill_with_chance(window.storage)
        replay: Any = OneWindow(window)
        algorithm = DQN(agent, options, replay, 1000, torch.Generator())
        loss, metrics = algorithm.loss(algorithm.read(items(window)), Draws())
        loss.backward()
        found.append((metrics, algorithm.learner.parameters.gradient.clone()))
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.parametrize("kind", [{}, {"dueling": True, "head_sizes": (5,)}])
def test_noisy_layers_without_noise_in_them_are_plain(kind: dict[str, Any]) -> None:
    """8.4: at sigma 0 a draw changes nothing."""
    for sigma, same in ((0.0, True), (0.5, False)):
        agent = small_agent(noisy=True, noisy_sigma=sigma, **kind)
        with torch.no_grad():
            for name, parameter in agent.model.named_parameters():
                if "sigma" in name and not sigma:
                    parameter.zero_()
        inputs = Inputs(torch.randn(6, 3))
        plain, _ = agent.z(inputs, ())
        for shape in ((agent.normals,), (6, agent.normals)):
            noisy, _ = agent.z(inputs, (), torch.randn(shape))
            assert torch.allclose(plain, noisy, atol=1e-6) == same
