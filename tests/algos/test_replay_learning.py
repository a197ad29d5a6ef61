"""When algorithms learn from a replay, how much, and how the target follows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_q import OneWindow, fill_with_chance, small_agent, spec
from small_runs import make

from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions
from rlpyt.algos.target_network import TargetNetwork
from rlpyt.build import build
from rlpyt.rows import Window, example_row

ITEMS = 8


class Rows:
    """A window's rows, of which so many are live."""

    def __init__(self, live: int) -> None:
        self.rows = self
        self.first = self.last = np.zeros((live + 1, 1), np.bool_)
        self.observation = np.zeros((live + 1, 1, 3), np.float32)


def learner(total: int = 1000, **given: Any) -> tuple[DQN, OneWindow]:
    """DQN with a window of chance for a replay, and an update for every ITEMS rows trained."""
    options = DQNOptions(**{"batch_size": ITEMS, "learning_starts": 0, "lr": 1e-2, **given})
    agent = small_agent(options)
    window = Window(example_row(spec()), 1, ITEMS)
    fill_with_chance(window.storage)
    weights = np.linspace(0.5, 1.0, ITEMS, dtype=np.float32) if options.prioritized else None
    replay: Any = OneWindow(window, weights)
    return DQN(agent, options, replay, total, torch.Generator().manual_seed(0)), replay


def counting(algorithm: DQN) -> list[int]:
    """Replaces the updates by their number after each window."""
    made: list[int] = []
    algorithm.learn = lambda *_: torch.zeros(4 + ITEMS)
    due = algorithm.due

    def counted(window: Any, env_steps: int) -> int:
        made.append(due(window, env_steps))
        return made[-1]

    algorithm.due = counted
    return made


# ---------------------------------------------------------------- how much is trained


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.sampled_from([0.25, 1.0, 3.0, 8.0, 12.5]),
    st.integers(0, 40),
)
def test_rows_are_trained_at_the_replay_ratio_from_the_step_where_learning_starts(
    lives: list[int], ratio: float, starts: int
) -> None:
    """However windows cut the steps; what is no whole update is carried to the next window."""
    algorithm, _ = learner(replay_ratio=ratio, learning_starts=starts)
    made, steps = counting(algorithm), 0
    for live in lives:
        found = algorithm.update(Rows(live), steps)
        steps += live
        counted = max(0, steps - starts)
        assert sum(made) == Fraction(ratio) * counted // ITEMS
        assert found["replay/ratio"] == pytest.approx(sum(made) * ITEMS / max(1, counted))
        assert 0 <= algorithm.credit < ITEMS


def test_what_passes_before_the_replay_is_ready_is_not_made_up_for() -> None:
    algorithm, replay = learner(replay_ratio=4.0)
    made = counting(algorithm)
    replay.ready = False
    for steps in range(0, 400, 4):
        algorithm.update(Rows(4), steps)
    replay.ready = True
    algorithm.update(Rows(4), 400)
    assert made == [0] * 100 + [2]


def test_credit_goes_on_where_it_was_saved() -> None:
    lives = [3, 4, 1, 4, 2, 4, 4]
    whole, _ = learner(replay_ratio=2.5)
    expected = counting(whole)
    for i, live in enumerate(lives):
        whole.update(Rows(live), 10 * i)
    for cut in range(len(lives)):
        made = []
        state: Any = None
        for part in (range(cut), range(cut, len(lives))):
            algorithm, replay = learner(replay_ratio=2.5)
            replay.state, replay.load = dict, lambda state: None
            if state is not None:
                algorithm.load(state)
            counts = counting(algorithm)
            for i in part:
                algorithm.update(Rows(lives[i]), 10 * i)
            state, made = algorithm.state(), made + counts
        assert made == expected


# ---------------------------------------------------------------- the target network


@pytest.mark.parametrize(("ratio", "rows"), [(2.0, 4), (6.0, 4), (1.0, 2)])
@pytest.mark.parametrize("interval", [1, 7])
def test_the_target_is_updated_after_every_so_many_updates_wherever_windows_end(
    ratio: float, rows: int, interval: int
) -> None:
    """B166: 1 update in a window, 3, or one in 4 windows; 7 is a multiple of neither."""
    algorithm, _ = learner(replay_ratio=ratio, target_update_updates=interval)
    learning, online = algorithm, algorithm.learner.parameters.vector
    learn, copies = learning.learn, []

    def watched(*inputs: Any) -> Any:
        before = learning.target.vector.clone()
        metrics = learn(*inputs)
        follows = algorithm.learner.updates % interval == 0
        assert torch.equal(learning.target.vector, online if follows else before)
        assert follows or not torch.equal(learning.target.vector, online)
        copies.append(follows)
        return metrics

    learning.learn = watched
    for w in range(60):
        algorithm.update(Rows(rows), w * rows)
    assert len(copies) == algorithm.learner.updates == int(ratio * rows * 60 / ITEMS) > 2 * interval
    assert sum(copies) == len(copies) // interval


def test_a_soft_target_moves_by_its_share_of_the_way() -> None:
    algorithm, _ = learner(target_update_updates=1, target_tau=0.25, replay_ratio=2.0)
    for w in range(5):
        before = algorithm.target.vector.double()
        algorithm.update(Rows(4), 4 * w)
        expected = 0.75 * before + 0.25 * algorithm.learner.parameters.vector.double()
        torch.testing.assert_close(algorithm.target.vector.double(), expected)


def test_where_the_target_is_in_its_turn_is_saved() -> None:
    """B166, B217: 5 of 7 updates before the stop, the copy after 2 more."""
    one, two = (learner(target_update_updates=7, replay_ratio=2.0)[0] for _ in range(2))
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    for w in range(5):
        one.update(Rows(4), 4 * w)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    for w in range(5, 7):
        assert not torch.equal(two.target.vector, two.learner.parameters.vector)
        two.update(Rows(4), 4 * w)
    assert torch.equal(two.target.vector, two.learner.parameters.vector)


def test_the_target_takes_over_what_the_trained_network_counts_itself() -> None:
    """A buffer of a user's network is no parameter; it is copied whole, whatever the share."""
    algorithm, _ = learner(target_update_updates=2, target_tau=0.25, replay_ratio=2.0)
    agent = algorithm.agent
    for network in (agent.model, agent.target):
        network.register_buffer("counted", torch.zeros(3))
    algorithm.target = TargetNetwork(agent.target, algorithm.learner)
    agent.model.get_buffer("counted").fill_(5.0)
    algorithm.update(Rows(4), 0)
    assert not agent.target.get_buffer("counted").any()
    algorithm.update(Rows(4), 4)
    assert torch.equal(agent.target.get_buffer("counted"), torch.full((3,), 5.0))


def test_the_learning_rate_is_that_of_the_windows_first_step() -> None:
    for schedule in ("constant", "linear"):
        algorithm, _ = learner(lr_schedule=schedule, replay_ratio=2.0)
        step, rates = algorithm.learner.optimizer.step, []

        def noted(lr: float, step: Any = step, rates: list[float] = rates) -> None:
            rates.append(lr)
            step(lr)

        algorithm.learner.optimizer.step = noted
        for env_steps in (0, 500, 996, 1000, 1500):
            algorithm.update(Rows(4), env_steps)
        falls = [1.0, 0.5, 0.004, 0.0, 0.0] if schedule == "linear" else [1.0] * 5
        assert rates == pytest.approx([1e-2 * share for share in falls])


# ---------------------------------------------------------------- importance weights


def test_beta_is_linear_and_stays_at_its_end() -> None:
    """B131."""
    algorithm, _ = learner(prioritized=True, priority_beta=0.4, priority_beta_end=0.9)
    expected = {0: 0.4, 250: 0.525, 500: 0.65, 1000: 0.9, 1001: 0.9, 10**9: 0.9}
    for env_steps, beta in [*expected.items(), *reversed(expected.items())]:
        assert algorithm.beta(env_steps) == pytest.approx(beta)


def test_updates_are_weighted_with_the_beta_of_their_windows_first_step() -> None:
    algorithm, replay = learner(prioritized=True, replay_ratio=2.0)
    for steps in range(0, 1004, 4):
        algorithm.update(Rows(4), steps)
    assert replay.betas == pytest.approx([0.4 + 0.6 * s / 1000 for s in range(0, 1004, 4)])
    assert replay.betas[-1] == 1.0 and len(replay.updated) == 251


# ---------------------------------------------------------------- steps and statistics


@pytest.mark.parametrize("limit", [1e-3, 1e9, 0.0])
def test_gradients_are_clipped_by_norm_which_is_logged_before(limit: float) -> None:
    """B175."""
    free, _ = learner(max_grad_norm=0.0, replay_ratio=2.0)
    norm = float(free.update(Rows(4), 0)["loss/gradient_norm"])
    algorithm, _ = learner(max_grad_norm=limit, replay_ratio=2.0)
    assert float(algorithm.update(Rows(4), 0)["loss/gradient_norm"]) == norm > 0.01
    moved = float(algorithm.learner.parameters.gradient.norm())
    assert moved == pytest.approx(limit if limit == 1e-3 else norm, rel=1e-3)


def test_every_row_is_counted_once_by_the_normalizer_also_before_learning_starts() -> None:
    options = DQNOptions(normalize_observation=True, learning_starts=100, batch_size=ITEMS)
    agent = small_agent(options, normalize=True)
    replay: Any = OneWindow(Window(example_row(spec()), 1, ITEMS))
    algorithm = DQN(agent, options, replay, 1000, torch.Generator())
    rows, draw = [], np.random.default_rng(0)
    for w in range(12):
        window = Rows(5)
        window.observation[:] = draw.normal(2.0, 3.0, window.observation.shape)
        algorithm.update(window, 5 * w)
        rows.append(window.observation[:-1].reshape(-1, 3).astype(np.float64))
    seen, normalizer = np.concatenate(rows), agent.normalizer
    assert normalizer is not None and int(normalizer.count) == len(seen) == 60
    np.testing.assert_allclose(normalizer.get_buffer("mean0"), seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.get_buffer("scale0"), 1 / seen.std(0), rtol=1e-5)


@pytest.mark.parametrize("kind", ["dqn", "rainbow", "iqn"])
def test_compiled_updates_are_those_of_eager_ones_and_traced_once(kind, graphs) -> None:
    """D5, B253: over windows and copies of the target."""
    found = []
    for mode in ("off", "on"):
        parts = build(make(kind, Path("runs"), compile=mode))
        parts.sampler.reset()
        learning: Any = parts.algorithm
        steps, traced = 0, []
        while learning.learner.updates < 45:  # two copies
            parts.agent.set_exploration(steps)
            window = parts.sampler.collect()
            parts.algorithm.update(window, steps)
            steps += int((~window.rows.last[:-1]).sum())
            traced += [len(graphs)] if learning.learner.updates else []
        assert len(set(traced)) == 1 and (traced[0] > 0) == (mode == "on")
        found.append((learning.learner.parameters.vector, learning.target.vector))
        parts.close()
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)
