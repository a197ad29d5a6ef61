"""Discrete SAC by loops over rows in float64, for the tests of the algorithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from slow_q_value import Reference, actor_of, critics_of, names_of, softmax
from small_q import ACTIONS


class DiscreteReference(Reference):
    """One update in NumPy and float64: a sum over actions for each row (Christodoulou, 2019)."""

    def log_policy(self, actor: Any, t: int, i: int) -> np.ndarray:
        logits = actor(self.x[t, i])
        allowed = np.ones(ACTIONS, bool) if self.rows.mask is None else self.rows.mask[t, i]
        self.allowed = allowed if allowed.any() else ~allowed
        return np.log(
            softmax(np.where(self.allowed, logits, -1e9)), where=self.allowed, out=np.zeros(ACTIONS)
        )

    def critics_gradient(self, nets: Any, draws: Any, alpha: float) -> tuple[Any, np.ndarray]:
        o, names = self.o, names_of(nets["critics"])
        critics, targets = critics_of(nets["critics"]), critics_of(nets["target_critics"])
        actor = actor_of(nets["actor"])
        grads = [
            [np.zeros_like(nets["critics"][name][c]) for name in names] for c in range(o.critics)
        ]
        errors: list[list[float]] = [[] for _ in self.weight]
        for t, i in self.trained:
            reward, discount, m = self.following(t, i)
            log_p = self.log_policy(actor, m, i)
            p = np.where(self.allowed, np.exp(log_p), 0.0)
            masks = draws["targets"]
            asked = self.asked(draws, targets)
            z = np.stack([f(self.x[m, i], self.kept(masks, c, t, i)) for c, f in enumerate(asked)])
            wanted = reward + discount * float(p @ (z.min(0) - alpha * log_p))
            taken, sizes = int(self.rows.action[t, i]), []
            for c, critic in enumerate(critics):
                error = critic(self.x[t, i], self.kept(draws["critics"], c, t, i))[taken] - wanted
                sizes.append(abs(error))
                slope = np.zeros(ACTIONS)
                slope[taken] = error if o.critic_loss == "squared" else np.clip(error, -0.7, 0.7)
                found, _ = critic.back(slope * self.weight[i] / len(self.trained))
                for total, g in zip(grads[c], found, strict=True):
                    total += g.reshape(total.shape)
            errors[i].append(float(np.mean(sizes)))
        return self.ended(nets, names, grads, errors)

    def actor_gradient(self, nets: Any, draws: Any, alpha: float) -> tuple[Any, float, float]:
        """Its gradient, its entropy, and how much is wanted."""
        o, actor, critics = self.o, actor_of(nets["actor"]), critics_of(nets["critics"])
        total, entropies, most = [0.0] * 4, [], []
        for t, i in self.trained:
            log_p = self.log_policy(actor, t, i)
            p = np.where(self.allowed, np.exp(log_p), 0.0)
            masks = draws["judges"]
            q = np.stack(
                [f(self.x[t, i], self.kept(masks, c, t, i)) for c, f in enumerate(critics)]
            )
            averages = draws["subset"] is not None or o.actor_judge == "mean"
            cost = alpha * log_p - (q.mean(0) if averages else q.min(0))
            actor(self.x[t, i])
            back = p * (cost - p @ cost)  # of a softmax; alpha's own term sums to nothing
            gradient, _ = actor.back(back / len(self.trained))
            total = [x + g for x, g in zip(total, gradient, strict=True)]
            entropies.append(-float(p @ log_p))
            most.append(math.log(self.allowed.sum()))
        names = ("hidden.layers.0.weight", "hidden.layers.0.bias", "linear.weight", "linear.bias")
        shaped = {
            n: np.reshape(g, nets["actor"][n].shape) for n, g in zip(names, total, strict=True)
        }
        wanted = 0.98 * float(np.mean(most)) if o.target_entropy is None else o.target_entropy
        return shaped, float(np.mean(entropies)), wanted
