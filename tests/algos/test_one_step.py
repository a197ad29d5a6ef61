"""One update equals a reference in NumPy and float64, written from the papers alone."""

import gymnasium
import numpy as np
import pytest
import torch
from small_parts import ChanceEnv, collected, make, parameters, rows_of

from rlpyt.rows import Row

GAMMA, LAMBDA, VALUE, ENTROPY, EPS = 0.97, 0.9, 0.6, 0.03, 1e-5
Weights = dict[str, np.ndarray]


def advantages(rows: Row, value: np.ndarray, lam: float) -> np.ndarray:
    """[T, B]: the discounted sum of TD errors up to the episode's or the window's end."""
    T, B = value.shape[0] - 1, value.shape[1]
    last = rows.terminated | rows.truncated
    result = np.zeros((T, B))
    for b in range(B):
        for i in range(T):
            weight = 1.0
            for k in range(i, T):
                if last[k, b]:
                    break
                after = 0.0 if rows.terminated[k + 1, b] else value[k + 1, b]
                result[i, b] += weight * (rows.reward[k + 1, b] + GAMMA * after - value[k, b])
                weight *= GAMMA * lam
    return result


class Trunk:
    """Two layers, tanh between them: [N, d] -> [N, outputs], and the way back."""

    def __init__(self, weights: Weights, trunk: str, head: str) -> None:
        hidden = f"{trunk}.encoder.mlp.layers.0"
        self.names = (f"{hidden}.weight", f"{hidden}.bias", f"{head}.weight", f"{head}.bias")
        self.w1, self.b1, self.w2, self.b2 = (weights[name] for name in self.names)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.x, self.h = x, np.tanh(x @ self.w1.T + self.b1)
        return self.h @ self.w2.T + self.b2

    def back(self, d: np.ndarray) -> Weights:
        """Gradients, from that of the outputs [N, outputs]."""
        inner = (d @ self.w2) * (1 - self.h**2)
        return dict(
            zip(self.names, (inner.T @ self.x, inner.sum(0), d.T @ self.h, d.sum(0)), strict=True)
        )


class Reference:
    """Loss and gradient of an actor-critic with a trunk each, over the live rows of a window."""

    def __init__(self, rows: Row, weights: Weights, lam: float, normalize: bool) -> None:
        self.live = ~(rows.terminated | rows.truncated)[:-1].ravel()
        self.x = rows.observation.astype(np.float64)
        self.action = rows.action[:-1].reshape(len(self.live), *rows.action.shape[2:])[self.live]
        value = Trunk(weights, "critic", "value_head.linear")(self.x)[..., 0]
        self.target = (advantages(rows, value, lam) + value[:-1]).ravel()[self.live]
        a = advantages(rows, value, lam).ravel()[self.live]
        self.advantage = (a - a.mean()) / a.std() if normalize else a
        self.old = self.policy(weights)[0]

    def inputs(self) -> np.ndarray:
        return self.x[:-1].reshape(-1, self.x.shape[-1])[self.live]

    def policy(self, weights: Weights) -> tuple[np.ndarray, Trunk, np.ndarray]:
        """Log-probabilities [N] of the actions taken, the trunk, its outputs [N, A]."""
        trunk = Trunk(weights, "actor", "policy_head.linear")
        outputs = trunk(self.inputs())
        if "policy_head.log_std" in weights:
            std = np.exp(weights["policy_head.log_std"])
            z = (self.action - outputs) / std
            return (-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1), trunk, outputs
        p = np.exp(outputs) / np.exp(outputs).sum(-1, keepdims=True)
        return np.log(p[np.arange(len(p)), self.action]), trunk, p

    def gradient(self, weights: Weights, clip: float) -> Weights:
        """Of the mean of -min(r A, clip(r) A) + c_v (V - target)^2 - c_e H."""
        n = len(self.action)
        log_prob, trunk, outputs = self.policy(weights)
        ratio, a = np.exp(log_prob - self.old), self.advantage
        passes = np.where(a > 0, ratio <= 1 + clip, ratio >= 1 - clip)
        d_log_prob = -np.where(passes, ratio * a, 0.0)[:, None] / n
        result: Weights = {}
        if "policy_head.log_std" in weights:
            variance = np.exp(2 * weights["policy_head.log_std"])
            move = self.action - outputs
            d_outputs = d_log_prob * move / variance
            d_log_std = (d_log_prob * (move**2 / variance - 1)).sum(0) - ENTROPY
            result["policy_head.log_std"] = d_log_std
        else:
            p, log_p = outputs, np.log(outputs)
            entropy = -(p * log_p).sum(-1, keepdims=True)
            chosen = np.eye(p.shape[1])[self.action]
            d_outputs = d_log_prob * (chosen - p) + ENTROPY * p * (log_p + entropy) / n
        result |= trunk.back(d_outputs)
        critic = Trunk(weights, "critic", "value_head.linear")
        error = critic(self.inputs())[:, 0] - self.target
        return result | critic.back(VALUE * 2 * error[:, None] / n)


def clipped(gradient: Weights, max_norm: float) -> Weights:
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    return {name: g * min(1.0, max_norm / norm) for name, g in gradient.items()}


def adam(reference: Reference, before: Weights, lr: float, clip: float, steps: int) -> Weights:
    """Weights after steps on the reference's gradients of norm 0.5 at most (Adam, algorithm 1)."""
    weights = dict(before)
    mean = {name: np.zeros_like(w) for name, w in before.items()}
    square = {name: np.zeros_like(w) for name, w in before.items()}
    for step in range(1, steps + 1):
        gradient = clipped(reference.gradient(weights, clip), 0.5)
        for name, g in gradient.items():
            mean[name] = 0.9 * mean[name] + 0.1 * g
            square[name] = 0.999 * square[name] + 0.001 * g**2
            m, v = mean[name] / (1 - 0.9**step), square[name] / (1 - 0.999**step)
            weights[name] = weights[name] - lr * m / (np.sqrt(v) + EPS)
    return weights


COMMON = {"gamma": GAMMA, "value_coef": VALUE, "entropy_coef": ENTROPY, "optimizer_eps": EPS}
ACTIONS = {"categorical": None, "gaussian": gymnasium.spaces.Box(-1.0, 1.0, (2,))}


def initial(parts) -> tuple[Weights, Row]:
    """Weights in float64, and a window with endings of both kinds."""
    rows = rows_of(collected(parts))
    assert rows.terminated[1:-1].any() and rows.truncated[1:-1].any()
    return {name: p.double().numpy() for name, p in parameters(parts).items()}, rows


def compare(parts, expected: Weights, before: Weights) -> None:
    found = parameters(parts)
    assert found.keys() == expected.keys()
    for name, p in found.items():
        assert np.abs(expected[name] - before[name]).max() > 1e-4, f"{name} has not moved"
        np.testing.assert_allclose(p.numpy(), expected[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("max_norm", [0.1, 1e9])
@pytest.mark.parametrize("kind", ACTIONS)
def test_a2c_takes_the_step_of_the_reference(kind, max_norm):
    lr = 3e-3
    options = {"gae_lambda": LAMBDA, "lr": lr, "max_grad_norm": max_norm}
    parts = make("a2c", lambda: ChanceEnv(ACTIONS[kind]), **COMMON, **options)
    before, rows = initial(parts)
    reference = Reference(rows, before, LAMBDA, normalize=False)
    gradient = clipped(reference.gradient(before, np.inf), max_norm)
    expected = {}
    for (
        name,
        g,
    ) in gradient.items():  # RMSprop as in TensorFlow: mean square from 1, eps in the root
        square = 0.99 + 0.01 * g**2
        expected[name] = before[name] - lr * g / np.sqrt(square + EPS)
    parts.algorithm.update(parts.sampler.window, 0)
    found = parameters(parts)
    for name, p in found.items():
        np.testing.assert_allclose(p.numpy(), expected[name], rtol=0, atol=1e-6, err_msg=name)
    moved = max(np.abs(expected[name] - before[name]).max() for name in before)
    assert moved > 100 * 1e-6


@pytest.mark.parametrize("kind", ACTIONS)
def test_ppo_takes_the_steps_of_the_reference(kind):
    """Three epochs of one minibatch with a small clip: ratios move, and some are clipped."""
    lr, clip, epochs = 5e-3, 0.01, 3
    options = {"gae_lambda": LAMBDA, "lr": lr, "clip_coef": clip, "update_epochs": epochs}

    def env() -> ChanceEnv:
        return ChanceEnv(ACTIONS[kind])

    parts = make("ppo", env, minibatch_size=64, max_grad_norm=0.5, **COMMON, **options)
    before, rows = initial(parts)
    reference = Reference(rows, before, LAMBDA, normalize=True)
    expected = adam(reference, before, lr, clip, epochs)
    ratio = np.exp(reference.policy(expected)[0] - reference.old)
    assert 0.1 < (np.abs(ratio - 1) > clip).mean() < 1  # the clip has been at work
    parts.algorithm.update(parts.sampler.window, 0)
    compare(parts, expected, before)


def corrected(
    rows: Row, value: np.ndarray, ratio: np.ndarray, lam: float, clips: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """V-trace's targets (Espeholt et al., 2018, eq. 1) and what its policy gradient has beside rho.

    Args: value: [T+1, B]; ratio: [T, B], of present to acting probability.    Returns: [T, B] each.
    """
    T, B = ratio.shape
    last = rows.terminated | rows.truncated
    target, advantage = value.copy(), np.zeros((T, B))
    for b in range(B):
        for i in range(T):
            trace = 1.0
            for k in range(i, T):
                if last[k, b]:
                    break
                after = 0.0 if rows.terminated[k + 1, b] else value[k + 1, b]
                error = rows.reward[k + 1, b] + GAMMA * after - value[k, b]
                target[i, b] += trace * min(clips[0], ratio[k, b]) * error
                trace *= GAMMA * lam * min(clips[1], ratio[k, b])
        for i in range(T):
            row = i + 1  # whose v is that of a state in which the episode may be over
            after = lam * target[row, b] + (1 - lam) * value[row, b]
            after = 0.0 if rows.terminated[row, b] else after
            advantage[i, b] = rows.reward[row, b] + GAMMA * after - value[i, b]
    return target[:-1], advantage


class OffPolicyReference(Reference):
    """The same of rows that older weights answered."""

    def __init__(
        self, rows: Row, weights: Weights, lam: float, clips: tuple[float, float], epochs: bool
    ) -> None:
        super().__init__(rows, weights, lam, normalize=False)
        present, live = self.old, self.live
        acted = rows.info.log_prob[:-1].astype(np.float64)
        ratio = np.ones(acted.size)
        ratio[live] = np.exp(present - acted.ravel()[live])
        value = Trunk(weights, "critic", "value_head.linear")(self.x)[..., 0]
        target, a = corrected(rows, value, ratio.reshape(acted.shape), lam, clips)
        self.target, a = target.ravel()[live], a.ravel()[live]
        if epochs:  # the ratio to who acted is in the objective
            self.old = acted.ravel()[live]
            self.advantage = (a - a.mean()) / a.std()
        else:  # the ratio to itself is 1; rho weighs the gradient
            self.advantage = np.minimum(clips[0], ratio[live]) * a


def moved_on(parts) -> tuple[Weights, Row]:
    """Rows of the first weights, and the weights that the learner has come to since, in float64."""
    _, rows = initial(parts)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in parts.agent.model.parameters():
            p += 0.1 * torch.randn(p.shape, generator=generator)
    return {name: p.double().numpy() for name, p in parameters(parts).items()}, rows


@pytest.mark.parametrize("clips", [(1.0, 1.0), (1.2, 0.9)])
@pytest.mark.parametrize("kind", ACTIONS)
def test_impala_takes_the_step_of_the_reference(kind, clips):
    lr = 3e-3
    options = {"vtrace_lambda": LAMBDA, "rho_clip": clips[0], "c_clip": clips[1], "lr": lr}
    parts = make("impala", lambda: ChanceEnv(ACTIONS[kind]), max_grad_norm=0.1, **COMMON, **options)
    before, rows = moved_on(parts)
    reference = OffPolicyReference(rows, before, LAMBDA, clips, epochs=False)
    gradient = clipped(reference.gradient(before, np.inf), 0.1)
    expected = {  # RMSprop as in PyTorch: mean square from 0, eps beside the root
        name: before[name] - lr * g / (np.sqrt(0.01 * g**2) + EPS) for name, g in gradient.items()
    }
    parts.algorithm.update(parts.sampler.window, 0)
    found = parameters(parts)
    for name, p in found.items():
        # Where a gradient is about eps its step is as uncertain as it is.
        sure = np.abs(gradient[name]) > 10 * EPS
        assert sure.mean() > 0.5
        wanted = np.where(sure, expected[name], p.numpy())
        np.testing.assert_allclose(p.numpy(), wanted, rtol=0, atol=2e-5, err_msg=name)
    assert max(np.abs(expected[name] - before[name]).max() for name in before) > 100 * 2e-5


@pytest.mark.parametrize("clips", [(1.0, 1.0), (1.2, 0.9)])
@pytest.mark.parametrize("kind", ACTIONS)
def test_appo_takes_the_steps_of_the_reference(kind, clips):
    """Three epochs of one minibatch: some rows are outside of the clip from the beginning on."""
    lr, clip, epochs = 5e-3, 0.1, 3
    options = {"vtrace_lambda": LAMBDA, "rho_clip": clips[0], "c_clip": clips[1], "lr": lr}
    options |= {"clip_coef": clip, "update_epochs": epochs, "max_grad_norm": 0.5}
    parts = make("appo", lambda: ChanceEnv(ACTIONS[kind]), minibatch_size=64, **COMMON, **options)
    before, rows = moved_on(parts)
    reference = OffPolicyReference(rows, before, LAMBDA, clips, epochs=True)
    outside = np.abs(np.exp(reference.policy(before)[0] - reference.old) - 1) > clip
    assert 0.1 < outside.mean() < 0.9
    expected = adam(reference, before, lr, clip, epochs)
    parts.algorithm.update(parts.sampler.window, 0)
    compare(parts, expected, before)
