"""R2D1 from the environments on: what is drawn, and that a memory learns by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_q import SMALL
from toys import CountEnv, MemoryEnv

from rlpyt.algos.options import R2D1Options
from rlpyt.arrays import tree_map
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.functional.n_step import n_step
from rlpyt.functional.q_values import sequence_priority
from rlpyt.models.options import QNetworkOptions
from rlpyt.replays.prioritized import FLOOR, Prioritized
from rlpyt.rows import Inputs, Row
from rlpyt.run import LoopOptions, Run
from rlpyt.storage import as_arrays


def built(env: Any, *, model: dict[str, Any] | None = None, **options: Any) -> Parts:
    small = {
        "horizon": 4,
        "batch_size": 16,
        "replay_size": 240,
        "learning_starts": 100,
        "state_interval": 4,
        "burn_in": 4,
        "train_rows": 6,
        "n_step": 2,
        "gamma": 0.9,
    }
    algo = R2D1Options(**{**small, **options})
    network = QNetworkOptions(**{**SMALL, "memory": "lstm", **(model or {})})
    loop = LoopOptions(seed=0, env_steps=100_000)
    return build(Run(EnvOptions(env, num_envs=4), algo, network, loop))


@pytest.mark.parametrize("prioritized", [False, True])
def test_drawn_sequences_are_whole_and_begin_with_the_state_of_acting(prioritized):
    """ANCESTOR W26: sequences straddled the write head, the newest rows behind the oldest.

    The state at a sequence's first row is that of acting, bit for bit, from its episode's start on,
    also where that is gone from the ring.
    """
    options = {"prioritized": prioritized, "priority_entry": "td" if prioritized else "max"}
    parts = built(lambda rank=0: CountEnv(9 + rank, gap=3, column=rank), **options)
    parts.sampler.reset()
    told, drawn = [], []
    for _ in range(45):
        told.append(tree_map(np.copy, parts.sampler.collect().rows[:4]))
        if parts.replay.ready:
            at, window = parts.replay.draw(), parts.replay.window
            items = window.rows.observation, window.rows.action, as_arrays(window.states)
            drawn.append((at.starts, at.columns, tree_map(np.copy, items)))
    rows = tree_map(lambda *x: np.concatenate(x), told[0], *told[1:])
    assert len(rows.reward) > 2 * parts.replay.ring.num_slots
    states = acted_states(parts, rows)
    within = np.arange(parts.algorithm.options.item_length)[:, None]
    for starts, columns, (observation, action, kept) in drawn:
        assert np.array_equal(observation, rows.observation[starts + within, columns])
        assert np.array_equal(action, rows.action[starts + within, columns])
        for found, expected in zip(kept, states, strict=True):
            assert np.array_equal(found[0], expected[starts, columns])
    assert (
        len(drawn) > 30 and len({(s, b) for x in drawn for s, b in zip(*x[:2], strict=True)}) > 60
    )
    parts.close()


def test_new_sequences_enter_with_the_priority_that_the_options_say():
    """Exponent, share of the greatest error, trained rows, steps, discount: all are the run's."""
    options: dict[str, Any] = {"priority_alpha": 0.7, "priority_eta": 0.3}
    parts = built(
        lambda rank=0: CountEnv(9 + rank, gap=3, column=rank),
        prioritized=True,
        priority_entry="td",
        **options,
    )
    parts.sampler.reset()
    told = [tree_map(np.copy, parts.sampler.collect().rows[:4]) for _ in range(10)]
    rows: Row = tree_map(
        torch.from_numpy, tree_map(lambda *x: np.concatenate(x), told[0], *told[1:])
    )
    summed, discount, m = n_step(rows.reward, rows.terminated, rows.last, 0.9, 2)
    bootstrap = rows.info.best.gather(0, m + torch.arange(len(m))[:, None])
    target = parts.agent.returns.target(bootstrap[..., None], summed, discount)
    error = (target[..., 0] - rows.info.taken[: len(m)]).abs()
    selector = parts.replay.selector
    assert isinstance(selector, Prioritized) and selector.ready
    (block,) = selector.state()["blocks"]
    assert block["first"] == 0 and len(block["leaves"]) == 8
    for i, leaves in enumerate(block["leaves"]):
        trained = slice(4 * i + 4, 4 * i + 10)
        live = ~rows.last[trained]
        expected = sequence_priority(error[trained], live, 0.3).clamp(min=FLOOR) ** 0.7
        assert leaves == pytest.approx(expected.numpy(), rel=1e-4)
    parts.close()


def acted_states(parts: Parts, rows: Row) -> list[np.ndarray]:
    """The states [T, B, size] as fed at each row, stepped anew from the first."""
    model, states = parts.agent.model, []
    state = model.initial_state(4)
    previous = np.zeros(4, np.int64)
    for t in range(len(rows.reward)):
        states.append(as_arrays(state))
        row = tree_map(torch.from_numpy, rows[t])
        inputs = Inputs(row.observation, row.reward, row.first, torch.from_numpy(previous))
        with torch.inference_mode():
            _, state = model(inputs, state, None, None)
        previous = rows.action[t]
    return [np.stack(x) for x in zip(*states, strict=True)]


def test_an_agent_with_memory_learns_what_one_without_cannot():
    """A cue is shown at an episode's first row and asked for later; without memory half is right.

    Sequences overlap, cross endings and are drawn by priority; the target network follows.
    """
    found = {}
    for memory in ("none", "lstm"):
        parts = built(
            lambda: MemoryEnv(2, 3),
            model={"memory": memory, "memory_size": 16},
            burn_in=4,
            train_rows=8,
            n_step=3,
            gamma=0.9,
            replay_size=8000,
            batch_size=16,
            replay_ratio=6.0,
            lr=3e-3,
            prioritized=True,
            priority_entry="td",
            target_update_updates=50,
            epsilon_steps=2000,
            learning_starts=200,
        )
        parts.sampler.reset()
        env_steps = 0
        while env_steps < 6000:
            parts.agent.set_exploration(env_steps)
            window = parts.sampler.collect()
            parts.algorithm.update(window, env_steps)
            env_steps += int((~window.rows.last[:-1]).sum())
        found[memory] = parts.evaluator.evaluate().mean
        parts.close()
    assert found["none"] < 0.75 and found["lstm"] > 0.95
