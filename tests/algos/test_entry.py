"""Priorities on entry: the error that the learner would find, from what acting kept."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from slow_r2d1 import h, h_inverse
from small_q import fill_with_chance, items, learner_of_sequences, small_agent, spec

from rlpyt import returns
from rlpyt.agents.q_learning import Draw, QLearningAgent
from rlpyt.algos.entry import Entry
from rlpyt.algos.options import DQNOptions, QLearningOptions, R2D1Options
from rlpyt.algos.q_targets import Draws
from rlpyt.arrays import tree_map
from rlpyt.errors import UsageError
from rlpyt.replays.prioritized import Prioritized
from rlpyt.ring import Ring
from rlpyt.rows import Row, example_row
from rlpyt.storage import as_arrays, zeros

B, WINDOW = 3, 4

TRANSITIONS = DQNOptions(priority_entry="td", gamma=0.9, prioritized=True)
SEQUENCES = R2D1Options(
    priority_entry="td", gamma=0.9, prioritized=True, burn_in=3, train_rows=5, state_interval=4
)


def filled(
    options: QLearningOptions, count: int, *, capacity: int = 40, seed: int = 0, mask: bool = False
) -> tuple[Ring, Row, QLearningAgent]:
    """A ring into which `count` rows went, window by window; all of them; the agent."""
    agent = small_agent(options, mask=mask)
    example = example_row(spec(mask=mask), agent.example_kept())
    stream = zeros(example, (count + 1, B))
    fill_with_chance(stream, seed)
    stream.first[0], stream.reward[0] = True, 0.0
    interval = options.state_interval if isinstance(options, R2D1Options) else 1
    ring = Ring(example, capacity, B, WINDOW, state_interval=interval)
    write(ring, stream)
    return ring, stream, agent


def write(ring: Ring, stream: Row) -> None:
    block = ring.blocks[0]
    for a in range(block.answered, len(stream.reward) - WINDOW, WINDOW):
        block.reserve(WINDOW)
        for n in range(a, a + WINDOW + 1):
            block.at(n).row[:] = stream[n]
        block.answer(WINDOW)


def slow(
    options: QLearningOptions, stream: Row, trained: range, eta: float, start: int, column: int
) -> float:
    """eta max |td| + (1 - eta) mean |td| over the live trained rows of an item."""
    errors, b = [], column
    for t in range(start + trained.start, start + trained.stop):
        if stream.last[t, b]:
            continue
        total, m = 0.0, 0
        while m < options.n_step and not (m and stream.last[t + m, b]):
            m += 1
            reward = float(stream.reward[t + m, b])
            reward = float(np.sign(reward)) if options.reward_clip == "sign" else reward
            total += options.gamma ** (m - 1) * reward
        if not stream.terminated[t + m, b]:
            following = h_inverse(float(stream.info.best[t + m, b]), options.value_rescale)
            total += options.gamma**m * following
        errors.append(abs(h(total, options.value_rescale) - float(stream.info.taken[t, b])))
    mean = sum(errors) / max(1, len(errors))
    return eta * max(errors, default=0.0) + (1 - eta) * mean


CASES: dict[str, tuple[QLearningOptions, dict[str, Any]]] = {
    "transitions": (TRANSITIONS, {"n_step": 1}),
    "transitions of 3 steps": (TRANSITIONS, {"n_step": 3}),
    "clipped": (TRANSITIONS, {"n_step": 2, "reward_clip": "sign"}),
    "rescaled": (TRANSITIONS, {"n_step": 3, "value_rescale": 1e-2}),
    "sequences": (SEQUENCES, {"n_step": 5}),
    "sequences of one step": (SEQUENCES, {"n_step": 1}),
    "sequences without burn-in": (SEQUENCES, {"n_step": 2, "burn_in": 0}),
    "sequences by their mean": (SEQUENCES, {"n_step": 7, "priority_eta": 0.0}),
}


def case(name: str) -> tuple[QLearningOptions, range, float]:
    options, changes = CASES[name]
    options = dataclasses.replace(options, **changes)
    if isinstance(options, R2D1Options):
        burn_in = options.burn_in
        return options, range(burn_in, burn_in + options.train_rows), options.priority_eta
    return options, range(1), 1.0


@pytest.mark.parametrize("name", CASES)
def test_the_error_on_entry_is_that_of_a_loop_over_rows(name):
    """ANCESTOR W24 took row t + m - 1 for the bootstrap, forgot gamma^m and had no n = 1."""
    options, trained, eta = case(name)
    for seed, count in ((0, 30), (1, 100)):  # before and after the ring has gone round
        ring, stream, agent = filled(options, count, seed=seed)
        entry = Entry(ring, agent.returns, options, trained, eta)
        begins, counts = ring.starts(options.item_length)
        rows = begins[0] + ring.state_interval * np.arange(counts[0])
        starts, columns = (x.ravel() for x in np.meshgrid(rows, np.arange(B)))
        assert len(starts) > 5
        found = entry(starts, columns)
        expected = [
            slow(options, stream, trained, eta, int(s), int(b))
            for s, b in zip(starts, columns, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert len(set(expected)) > 5


def test_an_items_priority_on_entry_is_what_the_learner_would_give_it():
    """As long as the weights that acted are those of both networks, and nothing is double."""
    for memory in ("none", "lstm"):
        options = dataclasses.replace(SEQUENCES, n_step=3, double=False, burn_in=4)
        made = small_agent(options, memory=memory, mask=True)
        agent = QLearningAgent(made.model, made.returns, B, options)
        length = options.item_length
        example = example_row(spec(mask=True), agent.example_kept())
        initial = agent.model.initial_state(B)
        ring = Ring(
            example, length + 6, B, 1, reads=agent.model.reads, state=initial, state_interval=4
        )
        stream = zeros(example, (length + 10, B))
        fill_with_chance(stream, seed=4)
        stream.first[0], stream.reward[0] = True, 0.0
        block, state = ring.blocks[0], initial
        block.at(0).row[:] = stream[0]
        for n in range(length + 9):
            block.reserve(1)
            if n % 4 == 0:
                tree_map(lambda x, y: x.copy_(y), block.kept_state(n), state)
            drawn = Draw((torch.ones(B, dtype=torch.bool), torch.rand(B)), None)
            with torch.no_grad():
                action, kept, state = agent.act(block.acting_inputs(n), state, drawn)
            block.at(n).row.action[:] = as_arrays(action)
            block.at(n).row.info[:] = as_arrays(kept)
            arrives = stream[n + 1]
            for field in ("observation", "reward", "terminated", "truncated", "first", "mask"):
                getattr(block.at(n + 1).row, field)[:] = getattr(arrives, field)
            block.answer(1)
        window = ring.window(B, length)
        starts, columns = np.full(B, 4), np.arange(B)
        assert ring.gather(window, starts, columns).all()
        algorithm, _ = learner_of_sequences(agent, options, window)
        _, metrics = algorithm.loss(algorithm.read(items(window)), Draws())
        entry = Entry(
            ring, agent.returns, options, range(4, 4 + options.train_rows), options.priority_eta
        )
        found = entry(starts, columns)
        np.testing.assert_allclose(found, metrics[3:].numpy(), rtol=1e-4, atol=1e-4)
        assert found.min() > 0


def test_an_item_without_a_live_row_has_priority_0():
    ring, stream, agent = filled(TRANSITIONS, 30)
    entry = Entry(ring, agent.returns, TRANSITIONS, range(1))
    dead, alive = np.argwhere(stream.last[:20]), np.argwhere(~stream.last[:20])
    assert len(dead) and not entry(dead[:, 0], dead[:, 1]).any()
    assert (entry(alive[:, 0], alive[:, 1]) > 0).all()


def test_rows_behind_an_ending_change_nothing():
    """Whatever is there, NaN included; and of a terminated row not even its value counts."""
    options = dataclasses.replace(TRANSITIONS, n_step=3)
    ring, stream, agent = filled(options, 30)
    entry = Entry(ring, agent.returns, options, range(1))
    ends = [(t, b) for t, b in np.argwhere(stream.last[:25]) if t and not stream.last[t - 1, b]]
    starts, columns = np.array([(t - 1, b) for t, b in ends]).T
    before = entry(starts, columns)
    for t, b in ends:
        slot = (t + 1) % ring.num_slots
        ring.rows.reward[slot, b] = ring.rows.info.best[slot, b] = np.nan
        if stream.terminated[t, b]:
            ring.rows.info.best[t % ring.num_slots, b] += 100.0
    assert np.array_equal(entry(starts, columns), before)
    assert any(stream.truncated[t, b] and not stream.terminated[t, b] for t, b in ends)
    ring.rows.info.best += 1.0
    bootstrapped = np.array([not stream.terminated[t, b] for t, b in ends])
    assert np.array_equal(entry(starts, columns) != before, bootstrapped)


@pytest.mark.parametrize("name", ["transitions of 3 steps", "sequences"])
def test_entries_are_raised_to_alpha_like_every_later_priority(name):
    """ANCESTOR W24 raised updates only. Draws come in proportion to entry^alpha."""
    options, trained, eta = case(name)
    ring, _, agent = filled(options, 100)
    entry = Entry(ring, agent.returns, options, trained, eta)
    alpha = 0.5
    selector = Prioritized(ring, options.item_length, trained, alpha, entry=entry)
    generator = np.random.default_rng(0)
    window = ring.window(2000, options.item_length)
    counts: dict[tuple[int, int], int] = {}
    draws = 20
    for _ in range(draws):
        drawn = selector.draw(window, generator, 1.0)
        for key in zip(drawn.starts.tolist(), drawn.columns.tolist(), strict=True):
            counts[key] = counts.get(key, 0) + 1
    begins, many = ring.starts(options.item_length)
    rows = begins[0] + ring.state_interval * np.arange(many[0])
    starts, columns = (x.ravel() for x in np.meshgrid(rows, np.arange(B)))
    share = entry(starts, columns) ** alpha
    share /= share.sum()
    total = 2000 * draws
    for start, column, p in zip(starts.tolist(), columns.tolist(), share.tolist(), strict=True):
        found = counts.get((start, column), 0)
        assert abs(found - total * p) <= 5 * math.sqrt(total * p) + 1e-9


@pytest.mark.parametrize(
    "changes",
    [{"values": "categorical"}, {"values": "quantile"}, {"munchausen": True}],
)
def test_what_acting_keeps_gives_the_error_of_expected_values_alone(changes):
    options = dataclasses.replace(TRANSITIONS, **changes)
    ring, _, _ = filled(TRANSITIONS, 30)
    with pytest.raises(UsageError, match="--priority-entry max"):
        Entry(ring, returns.make(options), options, range(1))
