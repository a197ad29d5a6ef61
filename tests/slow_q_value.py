"""DDPG, TD3, D4PG and SAC in NumPy and float64, from their papers alone: targets one row at a time,
gradients by hand. Networks have one hidden layer of tanh and no memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlpyt.algos.options import QValueOptions, SACOptions, TD3Options
from rlpyt.rows import Row

Weights = dict[str, np.ndarray]


class Perceptron:
    """[..., d] -> [..., outputs] by tanh(f(x w1' + b1)) w2' + b2, and the way back.

    f is layer normalization with weight and bias `norm` of what `kept` [..., hidden] multiplies.
    """

    def __init__(self, w1: Any, b1: Any, w2: Any, b2: Any, *norm: Any) -> None:
        self.w1, self.b1, self.w2, self.b2 = w1, b1.ravel(), w2, b2.ravel()
        self.norm = [x.ravel() for x in norm]

    def __call__(self, x: np.ndarray, kept: Any = 1.0) -> np.ndarray:
        self.x, self.kept = x, kept
        inner = kept * (x @ self.w1.T + self.b1)
        if self.norm:
            self.std = np.sqrt(inner.var(-1, keepdims=True) + 1e-5)
            self.normed = (inner - inner.mean(-1, keepdims=True)) / self.std
            inner = self.normed * self.norm[0] + self.norm[1]
        self.h = np.tanh(inner)
        return self.h @ self.w2.T + self.b2

    def back(self, d: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Gradients of w1, b1, w2, b2 (and of the norm) and of the inputs, from the outputs'."""
        inner = (d @ self.w2) * (1 - self.h**2)
        norm = []
        if self.norm:
            flat = (inner * self.normed).reshape(-1, inner.shape[-1])
            norm = [flat.sum(0), inner.reshape(-1, inner.shape[-1]).sum(0)]
            scaled = inner * self.norm[0]
            along = (scaled * self.normed).mean(-1, keepdims=True)
            inner = (scaled - scaled.mean(-1, keepdims=True) - self.normed * along) / self.std
        inner = inner * self.kept
        x, h = self.x.reshape(-1, self.x.shape[-1]), self.h.reshape(-1, self.h.shape[-1])
        flat, flat_inner = d.reshape(-1, d.shape[-1]), inner.reshape(-1, inner.shape[-1])
        grads = [flat_inner.T @ x, flat_inner.sum(0), flat.T @ h, flat.sum(0)]
        return [*grads, *norm], inner @ self.w1


def actor_of(weights: Weights) -> Perceptron:
    names = ("hidden.layers.0.weight", "hidden.layers.0.bias", "linear.weight", "linear.bias")
    return Perceptron(*(weights[name] for name in names))


LAYERS = ("layers.0", "layers.1", "norms.0")
CRITIC = tuple(f"ensemble.{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias"))


def names_of(critics: Weights) -> list[str]:
    return [name for name in CRITIC if name in critics]


def critics_of(weights: Weights) -> list[Perceptron]:
    names = names_of(weights)
    count = len(weights[names[0]])
    return [Perceptron(*(weights[name][c] for name in names)) for c in range(count)]


class Squashed:
    """u = tanh(mean + std noise), the logarithm of its density, and the way back."""

    def __init__(self, output: np.ndarray, noise: np.ndarray) -> None:
        size = output.shape[-1] // 2
        mean, log_std = output[..., :size], output[..., size:]
        assert (log_std > -20).all() and (log_std < 2).all()  # else it would be clamped
        self.std, self.noise = np.exp(log_std), noise
        self.u = np.tanh(mean + self.std * noise)
        density = np.exp(-0.5 * noise**2) / (math.sqrt(2 * math.pi) * self.std)
        self.log_prob = np.log(density / (1 - self.u**2)).sum(-1)

    def back(self, du: np.ndarray, dlog_prob: np.ndarray) -> np.ndarray:
        """The gradient of the network's outputs."""
        dx = du * (1 - self.u**2) + dlog_prob[..., None] * 2 * self.u
        return np.concatenate([dx, dx * self.std * self.noise - dlog_prob[..., None]], -1)


class Reference:
    """The gradients of one update.

    Args:
        rows: [L, N].
        weight: [N] importance weights.
        options: of the algorithm.
        dropout: probability with which units of the critics are dropped.
    """

    def __init__(self, rows: Row, options: Any, weight: np.ndarray, dropout: float = 0.0) -> None:
        self.o: Any = options
        self.stays = 1 - dropout
        self.rows, self.weight = rows, weight.astype(np.float64)
        self.x = rows.observation.astype(np.float64)
        self.action = rows.action.astype(np.float64)
        self.last = rows.terminated | rows.truncated
        self.trained = [
            (t, i)
            for t in options.trained
            for i in range(rows.reward.shape[1])
            if not self.last[t, i]
        ]

    def following(self, t: int, i: int) -> tuple[float, float, int]:
        """The sum of rewards, the discount and the row that is bootstrapped from."""
        o, total, m = self.o, 0.0, t
        while m - t < o.n_step and not self.last[m, i]:
            total += o.gamma ** (m - t) * o.reward_scale * float(self.rows.reward[m + 1, i])
            m += 1
        return total, 0.0 if self.rows.terminated[m, i] else o.gamma ** (m - t), m

    def kept(self, masks: Any, c: int, t: int, i: int) -> Any:
        """What the hidden units of critic c are multiplied with in a row."""
        return 1.0 if masks is None else masks[0][c, t - self.o.trained.start, i] / self.stays

    def asked(self, draws: dict[str, Any], targets: list[Perceptron]) -> list[Perceptron]:
        """The critics that make a target, in the order of their masks."""
        subset = draws["subset"]
        return targets if subset is None else [targets[c] for c in subset]

    def critics(
        self, nets: dict[str, Weights], draws: dict[str, Any], alpha: float
    ) -> tuple[Weights, np.ndarray]:
        """The critics' gradient, and every item's priority [N].

        Args:
            nets: actor, critics, target_actor and target_critics.
            draws: following [T, N, d] normals, subset of critics or None, masks of those that
                learn and of those that make targets, or None.
        """
        o, rows = self.o, self.rows
        critics, targets = critics_of(nets["critics"]), critics_of(nets["target_critics"])
        policy = actor_of(nets["actor" if isinstance(o, SACOptions) else "target_actor"])
        names = names_of(nets["critics"])
        grads = [[np.zeros_like(nets["critics"][name][c]) for name in names]
                 for c in range(len(critics))]  # fmt: skip
        errors: list[list[float]] = [[] for _ in range(rows.reward.shape[1])]
        for t, i in self.trained:
            reward, discount, m = self.following(t, i)
            state, output = self.x[m, i], policy(self.x[m, i])
            noise = draws["following"]
            noise = None if noise is None else noise[t - o.trained.start, i]
            if isinstance(o, SACOptions):
                drawn = Squashed(output, noise)
                action = drawn.u
                reward -= discount * alpha * drawn.log_prob
            else:
                action = np.tanh(output)
            if isinstance(o, TD3Options):
                clip = o.target_noise_clip
                action = np.clip(action + np.clip(o.target_noise * noise, -clip, clip), -1, 1)
            read = np.concatenate([state, action])
            masks = draws.get("targets")
            asked = self.asked(draws, targets)
            z = np.stack([f(read, self.kept(masks, c, t, i)) for c, f in enumerate(asked)])
            wanted = self.target(z, reward, discount)
            sizes = []
            for c, critic in enumerate(critics):
                taken = np.concatenate([self.x[t, i], self.action[t, i]])
                found = critic(taken, self.kept(draws.get("critics"), c, t, i))
                slope, error = self.slope(found, wanted)
                sizes.append(error)
                scale = self.weight[i] / len(self.trained)
                found_grads, _ = critic.back(slope * scale)
                for total, g in zip(grads[c], found_grads, strict=True):
                    total += g.reshape(total.shape)
            errors[i].append(float(np.mean(sizes)))
        return self.ended(nets, names, grads, errors)

    def ended(self, nets: Any, names: Any, grads: Any, errors: Any) -> tuple[Any, np.ndarray]:
        """The gradient of the critics by name, and the items' priorities.

        Args:
            grads: of each critic, in the order of `names`.
            errors: of each item's trained rows.
        """
        gradient = {
            name: np.stack([g[k] for g in grads]).reshape(nets["critics"][name].shape)
            for k, name in enumerate(names)
        }
        eta = self.o.priority_eta
        priority = [eta * max(e, default=0) + (1 - eta) * sum(e) / max(1, len(e)) for e in errors]
        return gradient, np.array(priority)

    def target(self, z: np.ndarray, reward: float, discount: float) -> np.ndarray:
        """What the return should look like, of z [C, K] of the next action."""
        o = self.o
        if isinstance(o, SACOptions) and o.values == "quantile":  # TQC
            pooled = np.sort(z.ravel())[: z.size - o.drop_quantiles * len(z)]
            return reward + discount * pooled
        z = z[np.argmin([self.mean(each) for each in z])]
        if o.values != "categorical":
            return reward + discount * z
        atoms, probabilities = np.linspace(o.v_min, o.v_max, o.num_atoms), softmax(z)
        projected, gap = np.zeros(o.num_atoms), atoms[1] - atoms[0]
        for atom, p in zip(atoms, probabilities, strict=True):
            place = (np.clip(reward + discount * atom, o.v_min, o.v_max) - o.v_min) / gap
            for k in range(o.num_atoms):
                projected[k] += p * max(0.0, 1 - abs(place - k))
        return projected

    def mean(self, z: np.ndarray) -> float:
        if self.o.values == "categorical":
            return float(softmax(z) @ np.linspace(self.o.v_min, self.o.v_max, self.o.num_atoms))
        return float(z.mean())

    def mean_slope(self, z: np.ndarray) -> np.ndarray:
        """The gradient of the mean, by z [K]."""
        if self.o.values != "categorical":
            return np.full_like(z, 1 / len(z))
        p, atoms = softmax(z), np.linspace(self.o.v_min, self.o.v_max, self.o.num_atoms)
        return p * (atoms - p @ atoms)

    def slope(self, z: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, float]:
        """The gradient of the loss by z [K], and the error."""
        o = self.o
        if o.values == "categorical":
            p = softmax(z)
            return p * wanted.sum() - wanted, float(-(wanted * np.log(p)).sum())
        if o.values == "expected":
            error = z - wanted
            slope = error if o.critic_loss == "squared" else np.clip(error, -0.7, 0.7)
            return slope, abs(float(error[0]))
        kappa, slope, loss = o.huber_delta, np.zeros_like(z), 0.0
        for k, (theta, tau) in enumerate(zip(z, (np.arange(len(z)) + 0.5) / len(z), strict=True)):
            for y in wanted:
                u = y - theta
                weight = abs(tau - (u < 0)) / kappa / len(wanted)
                inside = abs(u) <= kappa
                loss += weight * (0.5 * u**2 if inside else kappa * (abs(u) - 0.5 * kappa))
                slope[k] += weight * -np.clip(u, -kappa, kappa)
        return slope, loss

    def actor(
        self, nets: dict[str, Weights], draws: dict[str, Any], alpha: float
    ) -> tuple[Weights, float]:
        """The actor's gradient, and its entropy (0 of a policy without one)."""
        o, actor, critics = self.o, actor_of(nets["actor"]), critics_of(nets["critics"])
        total, entropies = [0.0] * 4, []
        for t, i in self.trained:
            output = actor(self.x[t, i])
            squashed = None
            if isinstance(o, SACOptions):
                squashed = Squashed(output, draws["action"][t - o.trained.start, i])
                entropies.append(-squashed.log_prob)
            action = np.tanh(output) if squashed is None else squashed.u
            critics = critics[:1] if squashed is None else critics
            read, masks = np.concatenate([self.x[t, i], action]), draws.get("judges")
            found = [critic(read, self.kept(masks, c, t, i)) for c, critic in enumerate(critics)]
            slopes = [
                critic.back(self.mean_slope(z))[1][-len(action) :]
                for critic, z in zip(critics, found, strict=True)
            ]
            if squashed is None:
                du = -slopes[0]
                back = du * (1 - action**2)
            else:
                averages = o.values == "quantile" or draws["subset"] is not None
                averages |= o.actor_judge == "mean"
                least = np.argmin([self.mean(z) for z in found])
                du = -(np.mean(slopes, 0) if averages else slopes[least])
                back = squashed.back(du, np.array(alpha))
            gradient, _ = actor.back(back / len(self.trained))
            total = [x + g for x, g in zip(total, gradient, strict=True)]
        names = ("hidden.layers.0.weight", "hidden.layers.0.bias", "linear.weight", "linear.bias")
        shaped = {
            n: np.reshape(g, nets["actor"][n].shape) for n, g in zip(names, total, strict=True)
        }
        return shaped, float(np.mean(entropies)) if entropies else 0.0


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


class Adam:
    """Kingma and Ba (2015), algorithm 1, of gradients that are clipped by their norm."""

    def __init__(self, lr: float, eps: float, max_norm: float, beta1: float = 0.9) -> None:
        self.lr, self.eps, self.max_norm, self.beta1 = lr, eps, max_norm or np.inf, beta1
        self.steps, self.m, self.v = 0, {}, {}

    def step(self, weights: Weights, gradient: Weights) -> Weights:
        norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
        self.steps += 1
        new = {}
        for name, g in gradient.items():
            g = g * min(1.0, self.max_norm / max(norm, 1e-300))
            self.m[name] = self.beta1 * self.m.get(name, 0.0) + (1 - self.beta1) * g
            self.v[name] = 0.999 * self.v.get(name, 0.0) + 0.001 * g**2
            m, v = (
                self.m[name] / (1 - self.beta1**self.steps),
                self.v[name] / (1 - 0.999**self.steps),
            )
            new[name] = weights[name] - self.lr * m / (np.sqrt(v) + self.eps)
        return new


def moved(target: Weights, own: Weights, options: QValueOptions) -> Weights:
    tau = options.target_tau
    return {name: (1 - tau) * target[name] + tau * own[name] for name in target}
