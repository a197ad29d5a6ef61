"""Returns beyond the atoms are told of, once, and none that atoms hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import make

from rlpyt.algos.options import D4PGOptions, DQNOptions, SACOptions
from rlpyt.logging.beyond import Beyond, beyond
from rlpyt.rows import Row
from rlpyt.training import train

GAMMA = 0.9
REWARDS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30)
EPISODES = st.lists(st.tuples(REWARDS, st.booleans()), min_size=1, max_size=5)


def rows_of(episodes: list[tuple[list[float], bool]]) -> Row:
    """One column of episodes, each with its rewards and whether it terminated; [N, 1]."""
    columns: dict[str, list[Any]] = {"reward": [], "first": [], "terminated": [], "truncated": []}
    for rewards, terminated in episodes:
        n = len(rewards)
        columns["reward"] += [0.0, *rewards]
        columns["first"] += [True] + n * [False]
        columns["terminated"] += n * [False] + [terminated]
        columns["truncated"] += n * [False] + [not terminated]
    arrays = {name: np.array(x)[:, None] for name, x in columns.items()}
    arrays["reward"] = arrays["reward"].astype(np.float32)
    return Row(observation=None, cut=None, action=None, **arrays)


def returns_of(rewards: list[float], after: float) -> list[float]:
    """Of every row of an episode, from its last to its first; `after` follows its end."""
    found, value = [], after
    for reward in reversed(rewards):
        value = reward + GAMMA * value
        found.append(value)
    return found


def told(episodes: Any, v_min: float, v_max: float, cut: int = 7, **options: Any) -> list[str]:
    lines: list[str] = []
    kind = D4PGOptions if "reward_scale" in options else DQNOptions
    atoms = {"values": "categorical", "v_min": v_min, "v_max": v_max}
    look = Beyond(kind(gamma=GAMMA, **{**atoms, **options}), lines.append)
    rows = rows_of(episodes)
    for begin in range(0, len(rows.reward) - 1, cut):
        look.look(rows[begin : begin + cut + 1])
    return lines


@given(EPISODES, st.integers(1, 40), st.sampled_from([-1.0, 0.0, 1.0]))
def test_of_returns_that_atoms_hold_nothing_is_told(episodes: Any, cut: int, share: float) -> None:
    """Whatever follows a truncation, if atoms hold it."""
    most = max(abs(x) for rewards, _ in episodes for x in returns_of(rewards, 0.0)) + 1e-9
    after = 0.0 if all(end for _, end in episodes) else share * most
    every = [x for r, end in episodes for x in returns_of(r, 0.0 if end else after)]
    v_min, v_max = min(*every, after, 0.0) - 1e-9, max(*every, after, 0.0) + 1e-9
    assert told(episodes, v_min, v_max, cut) == []


def test_nothing_is_told_of_an_episode_that_is_over() -> None:
    """Where all atoms are above 0 what would follow its end lies beyond them."""
    episodes = [([90.0], True), ([90.0], True)]
    assert told(episodes, 50.0, 100.0) == []
    assert told(episodes, 50.0, 89.0) != []  # the control


def test_infinite_rewards_warn_of_nothing_else() -> None:
    """Warnings are errors here."""
    told([([float("inf"), -float("inf"), 1.0], False)], -1.0, 1.0)


@given(EPISODES, st.integers(1, 40))
def test_an_episode_whose_return_atoms_do_not_hold_is_told_of(episodes: Any, cut: int) -> None:
    """That of its beginning, where it terminates."""
    ended = [returns_of(rewards, 0.0)[-1] for rewards, end in episodes if end]
    greatest, least = max(ended, default=0.0), min(ended, default=0.0)
    if greatest > 0.1:
        lines = told(episodes, -99.0, greatest - 0.1, cut)
        assert len(lines) == 1 and "raise --v-max" in lines[0]
    if least < -0.1:
        lines = told(episodes, least + 0.1, 99.0, cut)
        assert len(lines) == 1 and "lower --v-min" in lines[0]


def test_it_is_told_before_an_episode_ends_where_no_end_can_mend_it() -> None:
    endless = [([1.0] * 30, False)]
    assert told(endless, 0.0, 10.0) == []
    assert "return of 5.217 or more was seen, and v_max=5:" in told(endless, 0.0, 5.0, 40)[0]
    assert told([([-1.0] * 500, False)], -10.0, 0.0) == []
    (line,) = told([([0.0] * 200 + [-1.0] * 20, False)], -5.0, 0.0, 1)  # not from the beginning
    assert "v_min=-5: lower returns are learned as -5" in line


def test_rewards_are_what_the_learner_reads() -> None:
    large = [([30.0], True)]
    assert "--reward-clip sign" in told(large, 0.0, 10.0)[0]
    assert told(large, 0.0, 10.0, reward_clip="sign") == []
    assert told(large, 0.0, 10.0, reward_scale=0.1) == []
    assert told(large, 0.0, 2.9, reward_scale=0.1)


def test_where_there_are_no_atoms_nobody_looks() -> None:
    assert beyond(DQNOptions(), print) is None
    assert beyond(SACOptions(values="categorical"), print) is None
    assert beyond(D4PGOptions(), print) is not None


@pytest.mark.parametrize(("v_max", "times"), [(10.0, 1), (100.0, 0)])
def test_a_run_tells_of_it_once(v_max: float, times: int, tmp_path: Path, capsys: Any) -> None:
    run = make("rainbow", tmp_path, env_steps=400, eval_episodes=0, eval_interval=0)
    run = dataclasses.replace(run, algo=dataclasses.replace(run.algo, v_max=v_max))
    train(run, mode="plain")
    assert capsys.readouterr().out.count("or more was seen, and v_max=10") == times
