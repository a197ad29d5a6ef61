"""R2D1 as its paper has it: one sequence and one row at a time, for the tests of algorithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from small_q import ACTIONS
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.options import R2D1Options
from rlpyt.algos.q_targets import Draws
from rlpyt.arrays import tree_map
from rlpyt.rows import Window


def h(x: float, eps: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x if eps else x


def h_inverse(x: float, eps: float) -> float:
    if not eps:
        return x
    root = (math.sqrt(1 + 4 * eps * (abs(x) + 1 + eps)) - 1) / (2 * eps)
    return math.copysign(root**2 - 1, x)


def log_softmax(values: list[float], temperature: float) -> list[float]:
    top = max(values)
    total = sum(math.exp((v - top) / temperature) for v in values)
    return [(v - top) / temperature - math.log(total) for v in values]


def unroll(
    model: Any, agent: QLearningAgent, options: R2D1Options, window: Window, i: int, draws: Any
) -> list[tuple[Tensor, Tensor]]:
    """z [A, K] of every row of sequence i, one at a time; without gradient while burning in.

    Beside it what actions are compared by [A]: of implicit quantiles at evenly spaced fractions.
    """
    noise, fractions = draws
    inputs = agent.read(window.inputs())
    state = tree_map(lambda x: x[0, i : i + 1], window.states)
    if options.zero_state:
        state = tree_map(torch.zeros_like, state)
    rows = []
    for t in range(options.item_length):
        if window.rows.first[t, i]:
            state = tree_map(torch.zeros_like, state)
        behind = t - options.burn_in
        row = tree_map(lambda x, t=t: x[t, i : i + 1], inputs)
        with torch.set_grad_enabled(behind >= 0):
            compared, after = model(row, state, noise, None)
            z = compared
            if fractions is not None and behind >= 0:
                z, _ = model(row, state, noise, fractions[behind, i : i + 1])
        rows.append((z[0], agent.returns.value(compared[0].detach())))
        state = after
    return rows


def best(value: Tensor, window: Window, t: int, i: int) -> int:
    """The action of greatest value among those allowed."""
    allowed = range(ACTIONS)
    if window.rows.mask is not None and window.rows.mask[t, i].any():
        allowed = [a for a in allowed if window.rows.mask[t, i, a]]
    return max(allowed, key=lambda a: float(value[a]))


def reference(
    agent: QLearningAgent,
    options: R2D1Options,
    window: Window,
    draws: Draws | None = None,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss and the priorities [N], one sequence and one row at a time."""
    draws, rows, returns = draws or Draws(), window.rows, agent.returns
    eps, losses, priorities = options.value_rescale, [], []
    for i in range(window.num_envs):
        z = unroll(agent.model, agent, options, window, i, (draws.online, draws.fractions))
        with torch.no_grad():
            its = (draws.target, draws.target_fractions)
            z_target = unroll(agent.target, agent, options, window, i, its)
        errors = []
        for t in range(options.burn_in, options.burn_in + options.train_rows):
            if rows.last[t, i]:
                continue
            reward, j = 0.0, t
            while True:
                j += 1
                r = float(rows.reward[j, i])
                r = float(np.sign(r)) if options.reward_clip == "sign" else r
                reward += options.gamma ** (j - t - 1) * r
                if rows.last[j, i] or j - t == options.n_step:
                    break
            discount = 0.0 if rows.terminated[j, i] else options.gamma ** (j - t)
            _, chooser = z[j] if options.double else z_target[j]
            action = best(chooser, window, j, i)
            taken, following = z[t][0][rows.action[t, i]], z_target[j][0][action]
            if options.values == "expected":
                target = h(reward + discount * h_inverse(float(following), eps), eps)
                delta = taken[0] - target
                error, size = abs(delta.item()), options.huber_delta
                if options.loss == "squared" or error <= size:
                    loss = 0.5 * delta**2
                else:
                    loss = size * (delta.abs() - 0.5 * size)
            else:
                with torch.no_grad():
                    r, d = torch.tensor(reward), torch.tensor(discount)
                    target = returns.target(following, r.float(), d.float())
                tau = None
                if draws.fractions is not None:
                    tau = draws.fractions[t - options.burn_in, i]
                loss, error = returns.loss(taken, target, tau)
                error = float(error)
            losses.append(loss * (1.0 if weight is None else weight[i]))
            errors.append(error)
        eta = options.priority_eta
        mean = sum(errors) / max(1, len(errors))
        priorities.append(eta * max(errors, default=0.0) + (1 - eta) * mean)
    loss = torch.stack(losses).sum() / len(losses)
    return loss, torch.tensor(priorities)
