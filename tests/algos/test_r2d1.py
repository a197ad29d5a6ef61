"""R2D1's loss against a slow loop over sequences and rows that follows the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from slow_r2d1 import log_softmax, reference
from small_q import (
    ACTIONS,
    FEW,
    fill_with_chance,
    items,
    learner_of_sequences,
    small_agent,
    spec,
)
from torch import Tensor

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.options import R2D1Options
from rlpyt.algos.q_targets import Draws, draw
from rlpyt.algos.r2d1 import R2D1, Sequences
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.rows import Window, example_row

N = 4


def options_of(**changes: Any) -> R2D1Options:
    small = {"burn_in": 3, "train_rows": 6, "n_step": 2, "gamma": 0.9, "batch_size": N}
    return R2D1Options(**{**small, **FEW, **changes})


def sequences(
    agent: QLearningAgent,
    options: R2D1Options,
    *,
    columns: int = N,
    seed: int = 0,
    end: float = 0.2,
    mask: bool = False,
) -> Window:
    """Sequences of chance with states of chance, as a draw from the replay gives them."""
    window = Window(
        example_row(spec(mask=mask), agent.example_kept()),
        options.item_length - 1,
        columns,
        reads=agent.model.reads,
        state=agent.model.initial_state(columns),
    )
    fill_with_chance(window.storage, seed, end)
    torch.manual_seed(seed)
    tree_map(lambda x: x.copy_(torch.randn_like(x)), window.states)
    return window


def loss_of(
    agent: QLearningAgent,
    options: R2D1Options,
    window: Window,
    draws: Draws | None = None,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, the priorities [N], and the flat gradient."""
    made, _ = learner_of_sequences(agent, options, window)
    batch = made.read(items(window)).replace(weight=weight)
    return differentiated(made, *made.loss(batch, draws or Draws()))


def differentiated(made: R2D1, loss: Tensor, metrics: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    flat = made.learner.parameters
    flat.zero_grad()
    loss.backward()
    return loss.detach(), metrics[3:], flat.gradient.clone()


def assert_follows_the_paper(
    agent: QLearningAgent,
    options: R2D1Options,
    window: Window,
    draws: Draws | None = None,
    weight: Tensor | None = None,
) -> None:
    loss, priorities, gradient = loss_of(agent, options, window, draws, weight)
    expected, expected_priorities = reference(agent, options, window, draws, weight)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(priorities, expected_priorities, rtol=1e-4, atol=1e-4)
    made, _ = learner_of_sequences(agent, options, window)
    flat = made.learner.parameters
    flat.zero_grad()
    expected.backward()
    torch.testing.assert_close(gradient, flat.gradient, rtol=1e-3, atol=1e-5)
    assert gradient.abs().sum() > 0


LOSSES: dict[str, dict[str, Any]] = {
    "as published": {"loss": "squared"},
    "one step": {"n_step": 1},
    "many steps": {"n_step": 5},
    "more steps than trained rows": {"n_step": 9, "train_rows": 2},
    "without burn-in": {"burn_in": 0},
    "burnt in for long": {"burn_in": 12},
    "one trained row": {"train_rows": 1},
    "not rescaled": {"value_rescale": 0.0},
    "not double": {"double": False},
    "clipped": {"reward_clip": "sign", "huber_delta": 0.5},
    "zero state": {"zero_state": True},
    "mean priorities": {"priority_eta": 0.0},
}


@pytest.mark.parametrize(
    ("name", "memory"),
    [*((name, memory) for name in LOSSES for memory in ("none", "lstm")), ("as published", "gru")],
)
def test_loss_priorities_and_gradient_are_those_of_a_loop_over_rows(name, memory):
    options = options_of(**LOSSES[name])
    for seed, end, mask in ((0, 0.0, False), (1, 0.2, True), (2, 0.5, False)):
        agent = small_agent(options, mask=mask, memory=memory, seed=seed)
        window = sequences(agent, options, seed=seed, end=end, mask=mask)
        weight = torch.rand(N) if seed else None
        assert_follows_the_paper(agent, options, window, weight=weight)


@pytest.mark.parametrize("how", ["terminated", "truncated", "both"])
@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_an_episode_may_end_at_any_row_of_a_sequence(memory, how):
    """Column i ends at row i, the rows of burn-in, training and tail each in turn."""
    options = options_of(burn_in=4, train_rows=4, n_step=3)
    agent = small_agent(options, memory=memory)
    length = options.item_length
    window = sequences(agent, options, columns=length, end=0.0)
    at = np.arange(length)
    if how != "truncated":
        window.rows.terminated[at, at] = True
    if how != "terminated":
        window.rows.truncated[at, at] = True
    window.rows.first[at[1:], at[:-1]] = True
    window.rows.reward[at[1:], at[:-1]] = 0.0
    assert_follows_the_paper(agent, options, window)


KINDS: dict[str, dict[str, Any]] = {
    "categorical": {"values": "categorical", "value_rescale": 0.0},
    "quantile": {"values": "quantile"},
    "implicit": {"values": "implicit"},
}


@pytest.mark.parametrize("model", [{}, {"memory": "gru"}, {"memory": "lstm", "noisy": True}])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_values_learns_from_sequences(kind, double, model):
    options = options_of(**KINDS[kind], double=double)
    agent = small_agent(options, mask=True, **model)
    window = sequences(agent, options, mask=True)
    draws = draw(agent, torch.Generator().manual_seed(3), options.item_length - 3, N)
    assert_follows_the_paper(agent, options, window, draws)


# ---------------------------------------------------------------- states and resets


@pytest.mark.parametrize("begins", range(9))
@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_nothing_of_an_episode_before_reaches_the_one_that_is_trained(memory, begins):
    """B139, B142. ANCESTOR W25 missed an end at the last row of burn-in, which is `begins` = 8."""
    options = options_of(burn_in=8)
    agent = small_agent(options, memory=memory)
    window = sequences(agent, options, end=0.0)
    window.rows.first[begins], window.rows.reward[begins] = True, 0.0
    if begins:
        window.rows.terminated[begins - 1] = True
    expected = loss_of(agent, options, window)
    other = sequences(agent, options, end=0.0, seed=1)
    tree_map(lambda x, y: x.copy_(y), window.states, other.states)
    history = begins + len(window.storage.reward) - len(window.rows.reward)
    window.storage.observation[:history] = other.storage.observation[:history]
    window.storage.action[:history] = (window.storage.action[:history] + 1) % ACTIONS
    window.rows.reward[:begins] = 7.0
    for x, y in zip(loss_of(agent, options, window), expected, strict=True):
        assert torch.equal(x, y)
    if begins < 5:  # so long ago it may be forgotten
        return
    window.rows.first[begins] = False  # the control
    for x, y in zip(loss_of(agent, options, window), expected, strict=True):
        assert not torch.allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("burn_in", [0, 4])
def test_a_sequence_begins_with_the_state_that_was_kept(burn_in):
    """B140: also without burn-in, and each sequence with its own."""
    options = options_of(burn_in=burn_in)
    agent = small_agent(options, memory="lstm")
    window = sequences(agent, options, end=0.0)
    window.rows.first[:] = False
    _, before, _ = loss_of(agent, options, window)
    tree_map(lambda x: x[:, 2].add_(1.0), window.states)
    _, after, _ = loss_of(agent, options, window)
    same = torch.isclose(before, after, rtol=1e-6)
    assert same.tolist() == [True, True, False, True]
    zeros = options_of(burn_in=burn_in, zero_state=True)
    _, started, _ = loss_of(agent, zeros, window)
    tree_map(lambda x: x.zero_(), window.states)
    _, expected, _ = loss_of(agent, options, window)
    assert torch.equal(started, expected) and not torch.allclose(started, after)


def test_each_network_burns_in_with_its_own_weights_and_without_gradient():
    """B143."""
    options = options_of(burn_in=5, loss="squared")
    agent = small_agent(options, memory="lstm")
    window = sequences(agent, options, end=0.0)
    window.rows.first[:] = False
    made, _ = learner_of_sequences(agent, options, window)
    batch = made.read(items(window))
    online, target = made._burn_in(batch, Draws())
    for network, found in ((agent.model, online), (agent.target, target)):
        state = batch.state
        for t in range(5):
            row = tree_map(lambda x, t=t: x[t], batch.inputs)
            _, state = network(row, state, None, None)
        for x, y in zip(tree_leaves(found), tree_leaves(state), strict=True):
            torch.testing.assert_close(x, y.detach(), rtol=1e-5, atol=1e-6)
            assert not x.requires_grad
    assert not torch.allclose(online[0], target[0], atol=1e-3)
    observed = batch.inputs.observation.requires_grad_()
    state = tree_map(lambda x: x.clone().requires_grad_(), batch.state)
    made.loss(batch.replace(state=state), Draws())[0].backward()
    slope = observed.grad.abs().sum((1, 2))
    assert not slope[:5].any() and slope[5 : 5 + options.train_rows].all()
    assert not slope[5 + options.train_rows :].any()  # rows behind serve targets only
    assert all(x.grad is None for x in tree_leaves(state))
    assert all(p.grad is None or not p.grad.any() for p in agent.target.parameters())


# ---------------------------------------------------------------- endings, masks, weights


def test_truncation_bootstraps_from_the_final_observation_and_termination_from_nothing():
    options = options_of(burn_in=0, train_rows=3, n_step=2)
    agent = small_agent(options)
    for how, bootstraps in (("truncated", True), ("terminated", False)):
        window = sequences(agent, options, end=0.0)
        getattr(window.rows, how)[3], window.rows.first[4] = True, True
        _, before, _ = loss_of(agent, options, window)
        window.rows.observation[4:] += 1.0
        _, same, _ = loss_of(agent, options, window)
        assert torch.equal(before, same)
        window.rows.observation[3] += 1.0
        _, after, _ = loss_of(agent, options, window)
        assert torch.allclose(before, after) != bootstraps


def test_the_next_action_is_one_that_its_row_allows():
    """B173: also in the maximum over next actions."""
    for double in (True, False):
        options = options_of(burn_in=0, train_rows=1, n_step=1, double=double, value_rescale=0.0)
        agent = small_agent(options, mask=True)
        window = sequences(agent, options, end=0.0, mask=True)
        made, _ = learner_of_sequences(agent, options, window)
        z, _ = agent.target_z(made.read(items(window)).inputs, ())
        value = agent.returns.value(z)[1]  # [N, A]
        for allowed in range(ACTIONS):
            window.rows.mask[1] = np.arange(ACTIONS) == allowed
            batch = made.read(items(window))
            target = made._target(batch, batch.inputs, z, (), Draws())[0, :, 0]
            expected = window.tensors.reward[1] + 0.9 * value[:, allowed]
            torch.testing.assert_close(target, expected)


def test_dead_rows_reach_nothing_whatever_they_hold():
    """What follows a final row is NaN here: its reward, and what acting kept."""
    options = options_of()
    for memory in ("none", "lstm"):
        agent = small_agent(options, memory=memory)
        window = sequences(agent, options, end=0.4)
        made, _ = learner_of_sequences(agent, options, window)
        batch = made.read(items(window))
        assert 0.2 < batch.live.float().mean() < 0.9
        expected = differentiated(made, *made.loss(batch, Draws()))
        spoilt = batch.replace(
            returns=torch.where(batch.live, batch.returns, torch.nan),
            discount=torch.where(batch.live, batch.discount, torch.inf),
            action=torch.where(batch.live, batch.action, ACTIONS - 1),
        )
        for x, y in zip(differentiated(made, *made.loss(spoilt, Draws())), expected, strict=True):
            assert torch.equal(x, y)
        window.rows.reward[window.rows.first] = np.nan
        reads_reward = "reward" in agent.model.reads  # which the model nulls there
        for x, y in zip(loss_of(agent, options, window), expected, strict=True):
            assert torch.equal(x, y), reads_reward


def test_sequences_without_a_live_row_count_nothing_and_have_priority_0():
    options = options_of(burn_in=0, train_rows=1, n_step=1)
    agent = small_agent(options)
    window = sequences(agent, options, end=0.0)
    whole, before, _ = loss_of(agent, options, window)
    window.rows.truncated[0, 2:] = True
    window.rows.first[1, 2:] = True
    loss, priorities, _ = loss_of(agent, options, window)
    assert priorities[2:].tolist() == [0.0] * 2 and torch.equal(priorities[:2], before[:2])
    assert not torch.equal(loss, whole)
    window.rows.truncated[0], window.rows.first[1] = True, True
    loss, priorities, gradient = loss_of(agent, options, window)
    assert loss == 0 and not priorities.any() and not gradient.any()


def test_importance_weights_scale_the_loss_and_not_the_priorities():
    options = options_of()
    agent = small_agent(options, memory="lstm")
    window = sequences(agent, options)
    loss, priorities, gradient = loss_of(agent, options, window)
    half, same, halved = loss_of(agent, options, window, weight=torch.full((N,), 0.5))
    torch.testing.assert_close(half, loss / 2)
    torch.testing.assert_close(halved, gradient / 2)
    assert torch.equal(same, priorities)
    only = torch.zeros(N)
    only[3] = 1.0
    one, _, _ = loss_of(agent, options, window, weight=only)
    assert_follows_the_paper(agent, options, window, weight=only)
    assert one < loss


def test_munchausen_learns_from_sequences_as_from_transitions():
    """One trained row without memory is a transition: the bonus and the soft value by hand."""
    options = options_of(
        burn_in=0, train_rows=1, n_step=1, munchausen=True, value_rescale=0.0, loss="squared"
    )
    agent = small_agent(options, mask=True)
    columns = 12
    window = sequences(agent, options, columns=columns, end=0.0, mask=True)
    made, _ = learner_of_sequences(agent, options, window)
    batch = made.read(items(window))
    q, _ = agent.z(batch.inputs, ())
    q_target, _ = agent.target_z(batch.inputs, ())
    t, mask = options.munchausen_temperature, batch.inputs.mask
    losses = []
    for i in range(columns):
        values = [float(x) for x in q_target[0, i, :, 0]]
        log_policy = log_softmax([v for a, v in enumerate(values) if mask[0, i, a]], t)
        action = int(batch.action[0, i])
        taken = dict(zip([a for a in range(ACTIONS) if mask[0, i, a]], log_policy, strict=True))
        if action not in taken:
            continue
        floor = options.munchausen_floor
        bonus = options.munchausen_alpha * min(0.0, max(floor, t * taken[action]))
        following = [float(q_target[1, i, a, 0]) for a in range(ACTIONS) if mask[1, i, a]]
        log_policy = log_softmax(following, t)
        soft = sum(math.exp(p) * (v - t * p) for p, v in zip(log_policy, following, strict=True))
        goal = float(batch.returns[0, i]) + bonus + float(batch.discount[0, i]) * soft
        losses.append((i, 0.5 * (q[0, i, action, 0].item() - goal) ** 2))
    assert len(losses) > 4
    for i, expected in losses:
        only = torch.zeros(columns)
        only[i] = columns
        loss, _ = made.loss(batch.replace(weight=only), Draws())
        assert loss.item() == pytest.approx(expected, rel=1e-4)


# ---------------------------------------------------------------- updates


class Rows:
    """A window's rows of which so many are live."""

    def __init__(self, live: int) -> None:
        self.rows = self
        self.last = np.zeros((live + 1, 1), np.bool_)


def test_an_update_trains_by_the_replay_ratio_and_tells_the_replay_the_priorities():
    """Rows trained are those of burn-in and training, as the original counted them."""
    options = options_of(prioritized=True, replay_ratio=2.0, learning_starts=0, lr=1e-2)
    agent = small_agent(options, memory="lstm")
    window = sequences(agent, options)
    weights = np.linspace(0.5, 1.0, N).astype(np.float32)
    made, replay = learner_of_sequences(agent, options, window, weights=weights)
    batch: Sequences = made.read(items(window)).replace(weight=torch.from_numpy(weights))
    loss, metrics = made.loss(batch, Draws())
    before = made.learner.parameters.vector.clone()
    assert options.rows_per_update == N * 9
    nothing = made.update(Rows(17), 0)
    assert not replay.updated and "loss/q" not in nothing
    found = made.update(Rows(2), 17)  # 38 rows of credit, of which an update takes 36
    assert len(replay.updated) == 1
    np.testing.assert_allclose(replay.updated[0], metrics[3:].numpy(), rtol=1e-5)
    assert found["loss/q"] == pytest.approx(loss.item(), rel=1e-5)
    assert found["loss/error"] == pytest.approx(metrics[2].item(), rel=1e-5)
    assert found["loss/gradient_norm"] > 0
    assert not torch.equal(made.learner.parameters.vector, before)
    made.update(Rows(18 * 36 - 1), 19)
    assert made.learner.updates == 1 + 36


def test_learning_lowers_the_loss_of_a_window():
    """A hundred updates on the same sequences, towards a target network that stands still."""
    options = options_of(learning_starts=0, lr=1e-2, target_update_updates=10**6)
    agent = small_agent(options, memory="lstm")
    window = sequences(agent, options)
    made, _ = learner_of_sequences(agent, options, window)
    losses = [made.learn(items(window), 0)[1].item() for _ in range(100)]
    assert losses[-1] < 0.2 * losses[0]


def test_an_algorithm_goes_on_from_its_state():
    options = options_of(learning_starts=0)
    agents = [small_agent(options, memory="gru", noisy=True) for _ in range(2)]
    assert agents[0].normals
    window = sequences(agents[0], options)
    (one, _), (two, _) = (learner_of_sequences(agent, options, window) for agent in agents)
    for made in (one, two):
        made.replay.state = dict
        made.replay.load = lambda state: None
    one.update(Rows(50), 0)
    agents[1].load_state_dict(agents[0].state_dict())
    two.load(one.state())
    for made in (one, two):
        made.update(Rows(50), 50)
    assert torch.equal(one.learner.parameters.vector, two.learner.parameters.vector)
    assert one.learner.updates == two.learner.updates > 0
