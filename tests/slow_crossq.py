"""CrossQ in NumPy and float64, from its formulas alone: batches of live rows, gradients by hand.

Networks have one hidden layer of tanh between two batch renormalizations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from slow_q_value import Reference, Squashed, Weights

MOMENTUM, EPSILON, R_MAX, D_MAX = 0.99, 1e-3, 3.0, 5.0


class Renorm:
    """Ioffe (2017), algorithm 1, of rows [n, d], and the way back.

    Args:
        running: [2, d] mean and variance.
        updates: that were made; the correction begins with number `warm_up`.
    """

    def __init__(self, weight: Any, bias: Any, running: Any, updates: int, warm_up: int) -> None:
        self.weight, self.bias = weight.ravel(), bias.ravel()
        self.running = running.reshape(2, -1).copy()
        self.updates, self.warm_up = updates, warm_up

    def learn(self, x: np.ndarray) -> np.ndarray:
        mean, variance = x.mean(0), x.var(0)
        self.std, before = np.sqrt(variance + EPSILON), np.sqrt(self.running[1] + EPSILON)
        self.r, d = np.ones_like(mean), np.zeros_like(mean)
        if self.updates >= self.warm_up:
            self.r = np.clip(self.std / before, 1 / R_MAX, R_MAX)
            d = np.clip((mean - self.running[0]) / before, -D_MAX, D_MAX)
        self.u = (x - mean) / self.std
        self.normed = self.u * self.r + d
        self.after = MOMENTUM * self.running + (1 - MOMENTUM) * np.stack([mean, variance])
        return self.weight * self.normed + self.bias

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.std, self.u = np.sqrt(self.running[1] + EPSILON), None
        self.normed = (x - self.running[0]) / self.std
        return self.weight * self.normed + self.bias

    def back(self, d: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Gradients of weight and bias, and of the rows."""
        own = [(d * self.normed).sum(0), d.sum(0)]
        d = d * self.weight
        if self.u is None:
            return own, d / self.std
        d = d * self.r
        return own, (d - d.mean(0) - self.u * (d * self.u).mean(0)) / self.std


class Network:
    """Rows [n, d] -> [n, outputs]."""

    def __init__(self, norms: list[Renorm], w1: Any, b1: Any, w2: Any, b2: Any) -> None:
        self.norms, self.w1, self.b1 = norms, w1, b1.ravel()
        self.w2, self.b2 = w2, b2.ravel()

    def __call__(self, x: np.ndarray, learns: bool) -> np.ndarray:
        first, second = (norm.learn if learns else norm for norm in self.norms)
        self.x = first(x)
        self.h = np.tanh(self.x @ self.w1.T + self.b1)
        self.y = second(self.h)
        return self.y @ self.w2.T + self.b2

    def back(self, d: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Gradients of w1, b1, w2, b2, then of both norms, and of the inputs."""
        second, inner = self.norms[1].back(d @ self.w2)
        inner = inner * (1 - self.h**2)
        first, outer = self.norms[0].back(inner @ self.w1)
        own = [inner.T @ self.x, inner.sum(0), d.T @ self.y, d.sum(0)]
        return [*own, *first, *second], outer


KINDS = ("weight", "bias")
NORMS = [f"{k}.{kind}" for k in (0, 1) for kind in KINDS]
ACTOR = [f"{layer}.{kind}" for layer in ("hidden.layers.0", "linear") for kind in KINDS]
ACTOR += [f"norms.{name}" for name in NORMS]
CRITIC = [f"ensemble.layers.{k}.{kind}" for k in (0, 1) for kind in KINDS]
CRITIC += [f"ensemble.batch_norms.{name}" for name in NORMS]


class CrossQReference(Reference):
    """The gradients of one update, and the running statistics after it.

    Networks are dictionaries of weights, of `…running` and of `…updates`.
    """

    warm_up = 0

    def network(self, weights: Weights, names: list[str], c: int, prefix: str) -> Network:
        """The actor, or critic c."""
        w = [weights[name][c] if "ensemble" in name else weights[name] for name in names]
        norms = [
            Renorm(
                *(weights[f"{prefix}.{k}.{kind}"][c] for kind in KINDS),
                weights[f"{prefix}.{k}.running"][:, c],
                int(weights[f"{prefix}.{k}.updates"]),
                self.warm_up,
            )
            for k in (0, 1)
        ]
        return Network(norms, *w[:4])

    def actor_of(self, nets: dict[str, Weights]) -> Network:
        return self.network(nets["actor"], ACTOR, 0, "norms")

    def critics_of(self, nets: dict[str, Weights]) -> list[Network]:
        count = len(nets["critics"][CRITIC[0]])
        prefix = "ensemble.batch_norms"
        return [self.network(nets["critics"], CRITIC, c, prefix) for c in range(count)]

    def joint(self, nets: Any, draws: Any, alpha: float) -> tuple[Weights, np.ndarray, Weights]:
        """The critics' gradient, every item's priority, and their statistics after the update."""
        actor, critics, start = self.actor_of(nets), self.critics_of(nets), self.o.trained.start
        found = [self.following(t, i) for t, i in self.trained]
        reward, discount, m = (np.array(x) for x in zip(*found, strict=True))
        columns = np.array([i for _, i in self.trained])
        state = self.x[m, columns]
        noise = np.stack([draws["following"][t - start, i] for t, i in self.trained])
        drawn = Squashed(actor(state, learns=False), noise)
        now = np.stack([np.concatenate([self.x[t, i], self.action[t, i]]) for t, i in self.trained])
        both = np.concatenate([now, np.concatenate([state, drawn.u], -1)])
        z = np.stack([critic(both, learns=True)[:, 0] for critic in critics])  # [C, 2n]
        taken, after = np.split(z, 2, 1)
        if draws["subset"] is not None:
            after = after[draws["subset"]]
        target = reward + discount * (after.min(0) - alpha * drawn.log_prob)
        slopes = (taken - target) * self.weight[columns] / len(columns)
        grads = [
            critic.back(np.concatenate([slope, np.zeros_like(slope)])[:, None])[0]
            for critic, slope in zip(critics, slopes, strict=True)
        ]
        gradient = {
            name: np.stack([g[k] for g in grads]).reshape(nets["critics"][name].shape)
            for k, name in enumerate(CRITIC)
        }
        priority = np.zeros(self.x.shape[1])
        priority[columns] = np.abs(taken - target).mean(0)  # of items with one trained row
        return gradient, priority, self.after(nets["critics"], "ensemble.batch_norms", critics)

    def climb(self, nets: Any, draws: Any, alpha: float) -> tuple[Weights, float, Weights]:
        """The actor's gradient, its entropy, and its statistics after the update."""
        actor, critics, start = self.actor_of(nets), self.critics_of(nets), self.o.trained.start
        x = np.stack([self.x[t, i] for t, i in self.trained])
        noise = np.stack([draws["action"][t - start, i] for t, i in self.trained])
        drawn = Squashed(actor(x, learns=True), noise)
        z = np.stack([critic(np.concatenate([x, drawn.u], -1), learns=False) for critic in critics])
        size, chosen = drawn.u.shape[-1], z[..., 0].argmin(0)
        slopes = np.stack([critic.back(np.ones_like(z[0]))[1][:, -size:] for critic in critics])
        averages = draws["subset"] is not None
        slope = slopes.mean(0) if averages else slopes[chosen, np.arange(len(x))]
        back = drawn.back(-slope / len(x), np.full(len(x), alpha / len(x)))
        grads, _ = actor.back(back)
        shaped = zip(ACTOR, grads, strict=True)
        gradient = {name: np.reshape(g, nets["actor"][name].shape) for name, g in shaped}
        return gradient, -drawn.log_prob.mean(), self.after(nets["actor"], "norms", [actor])

    def after(self, weights: Weights, prefix: str, networks: list[Network]) -> Weights:
        found = {}
        for k in (0, 1):
            running = np.stack([network.norms[k].after for network in networks], 1)
            name = f"{prefix}.{k}"
            found[f"{name}.running"] = running.reshape(weights[f"{name}.running"].shape)
            found[f"{name}.updates"] = weights[f"{name}.updates"] + 1
        return found
