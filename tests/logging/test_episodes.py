"""Episode statistics against going through the rows one at a time, with every kind of ending."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlpyt.logging.episodes import Episode, Episodes


def stream(rng: np.random.Generator, n: int, b: int, ends: float, cuts: float) -> dict[str, Any]:
    """n rows of b columns that keep the invariants of rows; rewards are multiples of 1/8."""
    shape = (n, b)
    x = {name: np.zeros(shape, bool) for name in ("terminated", "truncated", "first", "cut")}
    reward = rng.integers(-20, 20, shape).astype(np.float32) / 8
    x["first"][0] = True
    for t in range(n):
        for c in range(b):
            if t and (x["terminated"] | x["truncated"])[t - 1, c]:
                x["first"][t, c] = True
            if t and rng.random() < cuts:  # the row before lost its action
                if not (x["terminated"] | x["truncated"])[t - 1, c]:
                    x["truncated"][t - 1, c] = True
                x["first"][t, c] = x["cut"][t, c] = True
            if not x["first"][t, c] and rng.random() < ends:
                x["terminated" if rng.random() < 0.5 else "truncated"][t, c] = True
    reward[x["first"]] = 0
    return {**x, "reward": reward, "info": rng.random(shape).astype(np.float32)}


def rows(x: dict[str, Any], a: int, b: int) -> Any:
    part = {name: value[a:b].copy() for name, value in x.items()}
    info = {"score": part.pop("info")}
    return SimpleNamespace(**part, last=part["terminated"] | part["truncated"], env_info=info)


def brute_force(x: dict[str, Any], end: int, game_over: np.ndarray | None) -> list[Episode]:
    """Go through rows 0 .. end in order; take back what a cut takes back."""
    last = x["terminated"] | x["truncated"]
    num_envs = last.shape[1]
    open_return, open_length = [0.0] * num_envs, [0] * num_envs
    found: list[tuple[int, Episode]] = []
    steps = 0
    for t in range(1, end + 1):
        steps += int((~last[t - 1]).sum())
        for c in range(num_envs):
            if x["cut"][t, c]:
                found = [f for f in found if not (f[0] == t - 1 and f[1].column == c)]
                open_return[c], open_length[c] = 0.0, 0
                continue
            open_return[c] += float(x["reward"][t, c])
            open_length[c] += not last[t - 1, c]
            over = game_over is None or game_over[t, c] or x["truncated"][t, c]
            if last[t, c] and not x["first"][t, c] and over:
                info = {"score": float(x["info"][t, c])}
                found.append((t, Episode(c, steps, open_return[c], open_length[c], info)))
                open_return[c], open_length[c] = 0.0, 0
    return [episode for _, episode in found]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("lives", [False, True])
def test_episodes_equal_going_through_rows_one_at_a_time(seed: int, lives: bool) -> None:
    rng = np.random.default_rng(seed)
    n, b = int(rng.integers(2, 60)), int(rng.integers(1, 5))
    cuts = [0.0, 0.1, 0.5][seed % 3]
    x = stream(rng, n + 1, b, [0.02, 0.3, 0.8][seed % 3], cuts)
    game_over = rng.random((n + 1, b)) < 0.5 if lives else None
    episodes = Episodes(b)
    found = episodes.count(rows(x, 0, n + 1), game_over=game_over)
    assert found == brute_force(x, n, game_over)
    last = x["terminated"] | x["truncated"]
    assert episodes.env_steps == (~last[:-1]).sum()
    assert episodes.total == len(found)


@pytest.mark.parametrize("seed", range(20))
def test_every_split_into_windows_finds_the_same_episodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = stream(rng, 61, 3, ends=0.2, cuts=0.0)
    whole, parts = Episodes(3), Episodes(3)
    expected = whole.count(rows(x, 0, 61))
    found, a = [], 0
    while a < 60:
        z = min(60, a + int(rng.integers(1, 9)))
        found += parts.count(rows(x, a, z + 1))
        a = z
    assert found == expected
    assert parts.env_steps == whole.env_steps
    assert parts.line() == whole.line()


def test_control_windows_without_the_boundary_row_lose_rewards() -> None:
    x = stream(np.random.default_rng(0), 41, 3, ends=0.2, cuts=0.0)
    parts = Episodes(3)
    found = [e for a in range(0, 40, 10) for e in parts.count(rows(x, a, a + 10))]
    assert found != brute_force(x, 40, None)


def test_a_cut_drops_the_open_episode_and_its_lost_action_is_no_step() -> None:
    x = stream(np.random.default_rng(0), 11, 1, ends=0.0, cuts=0.0)
    x["reward"][1:] = 1
    x["truncated"][4] = x["first"][5] = x["cut"][5] = True
    x["reward"][5] = 0
    x["terminated"][8] = True
    x["first"][9] = True
    x["reward"][9] = 0
    for t in range(1, 11):  # the boundary at every place
        episodes = Episodes(1)
        found = episodes.count(rows(x, 0, t + 1))
        found += episodes.count(rows(x, t, 11)) if t < 10 else []
        if t != 4:  # split there, row 4 would have been live when the first window was counted
            assert [(e.raw_return, e.length, e.env_steps) for e in found] == [(3.0, 3, 7)]
            assert episodes.env_steps == 8


@pytest.mark.parametrize("seed", range(10))
def test_where_rows_begin_within_an_episode_it_is_not_reported(seed: int) -> None:
    """Of each column the first that ends, or is cut, is not; in windows and over a resume."""
    x = stream(np.random.default_rng(seed), 60, 3, ends=0.1, cuts=0.05)
    last = x["terminated"] | x["truncated"]
    over = (last & ~x["first"] | x["cut"])[1:]  # [T, B]
    reported, episodes, whole, found = Episodes(3), Episodes(3, partial=True), [], []
    for a in range(0, 59, 7):
        window = rows(x, a, min(a + 8, 60))
        whole, found = whole + reported.count(window), found + episodes.count(window)
        state, episodes = episodes.state(), Episodes(3)
        episodes.load(state)
    first = [e for e in whole if e.env_steps <= steps_at(x, over, e.column)]
    assert found == [e for e in whole if e not in first]
    assert len(first) <= 3 < len(found)


def steps_at(x: dict[str, Any], over: np.ndarray, column: int) -> int:
    """Environment steps when the first episode of a column ended."""
    last = x["terminated"] | x["truncated"]
    live = ~last[:-1] & ~x["cut"][1:]
    return int(live[: int(over[:, column].argmax()) + 1].sum())


def test_a_cut_just_after_the_boundary_takes_back_no_counted_step() -> None:
    x = stream(np.random.default_rng(0), 7, 1, ends=0.0, cuts=0.0)
    episodes = Episodes(1)
    assert episodes.count(rows(x, 0, 4)) == []  # row 3: arrived, live, unanswered
    assert episodes.env_steps == 3
    x["truncated"][3] = x["first"][4] = x["cut"][4] = True
    x["reward"][4] = 0
    assert episodes.count(rows(x, 3, 7)) == []
    assert episodes.env_steps == 3 + 2


def test_a_dropped_environment_gives_no_episodes_and_no_steps() -> None:
    x = stream(np.random.default_rng(0), 9, 2, ends=0.0, cuts=0.0)
    for name in ("first", "truncated", "cut"):
        x[name][1:, 1] = True
    x["reward"][:, 1] = 0
    x["truncated"][0, 1] = True
    episodes = Episodes(2)
    assert episodes.count(rows(x, 0, 5)) + episodes.count(rows(x, 4, 9)) == []
    assert episodes.env_steps == 8


def test_a_lost_life_ends_no_return_but_a_time_limit_does() -> None:
    x = stream(np.random.default_rng(0), 9, 1, ends=0.0, cuts=0.0)
    x["reward"][:] = 1
    for t, flag in ((2, "terminated"), (5, "terminated"), (8, "truncated")):
        x[flag][t] = True
        x["first"][t + 1 : t + 2] = True
        x["reward"][t + 1 : t + 2] = 0
    game_over = np.full((9, 1), np.nan, np.float32)
    game_over[5] = 1
    found = Episodes(1).count(rows(x, 0, 9), game_over=game_over)
    assert [(e.raw_return, e.length) for e in found] == [(4.0, 4), (2.0, 2)]


def test_returns_are_summed_in_double_precision() -> None:
    x = stream(np.random.default_rng(0), 101, 1, ends=0.0, cuts=0.0)
    x["reward"][1:] = 0.1
    x["reward"][1] = 2.0**24
    x["terminated"][100] = True
    (episode,) = Episodes(1).count(rows(x, 0, 101))
    assert episode.raw_return == pytest.approx(2.0**24 + 99 * float(np.float32(0.1)), abs=1e-6)


@pytest.mark.parametrize("at", [3, 7, 12])
def test_resumed_statistics_equal_uninterrupted_ones(at: int) -> None:
    x = stream(np.random.default_rng(3), 201, 4, ends=0.3, cuts=0.05)
    x["info"][::2] = np.nan
    straight, resumed = Episodes(4), Episodes(4)
    for i in range(20):
        window = rows(x, 10 * i, 10 * i + 11)
        straight.count(window)
        resumed.count(window)
        if i == at:
            fresh = Episodes(4)
            fresh.load(resumed.state())
            resumed = fresh
        if i % 5 == 4:
            assert resumed.line() == straight.line()
    assert resumed.env_steps == straight.env_steps and resumed.total == straight.total
    left, right = resumed.state(), straight.state()
    assert left.keys() == right.keys()
    assert all(np.array_equal(left[name], right[name]) for name in left)


def test_mean_since_the_line_and_mean_of_the_last_100_are_named_apart() -> None:
    episodes = Episodes(1)
    episodes.recent.extend(Episode(0, i, float(i), 1) for i in range(150))
    x = stream(np.random.default_rng(0), 3, 1, ends=0.0, cuts=0.0)
    x["reward"][1:] = 100
    x["terminated"][2] = True
    episodes.count(rows(x, 0, 3), infos={(2, 0): {"a, b\n": True}})
    line = episodes.line()
    assert line["rollout/episodes"] == 1
    assert line["rollout/return_mean"] == 200 and line["rollout/length_mean"] == 2
    assert line["rollout/return_100"] == (sum(range(51, 150)) + 200) / 100
    assert line["rollout/info_a__b_"] == 1 and "rollout/info_score" in line
    again = episodes.line()
    assert again["rollout/episodes"] == 0 and "rollout/return_mean" not in again
    assert again["rollout/return_100"] == line["rollout/return_100"]


def test_an_environment_that_never_ends_has_no_return() -> None:
    episodes = Episodes(2)
    x = stream(np.random.default_rng(0), 11, 2, ends=0.0, cuts=0.0)
    assert episodes.count(rows(x, 0, 11)) == []
    assert episodes.line() == {"rollout/episodes": 0}
    assert episodes.total == 0
    open_return, open_length = episodes.open()
    assert open_length.tolist() == [10, 10]
    assert open_return == pytest.approx(x["reward"][1:].sum(0))


def test_a_window_without_endings_takes_as_few_calls_however_long_and_wide_it_is() -> None:
    def calls(n: int, b: int, ends: float) -> int:
        window = rows(stream(np.random.default_rng(0), n + 1, b, ends, cuts=0.0), 0, n + 1)
        episodes = Episodes(b)
        return calls_of(lambda: episodes.count(window))

    assert calls(128, 8, ends=0.0) == calls(4, 1, ends=0.0) <= 30
    assert calls(128, 8, ends=0.3) > 500  # the control: endings are gone through one by one


def calls_of(function: Callable[[], Any]) -> int:
    """How many functions it calls, Python's and others."""
    count = 0

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_the_last_episodes_are_those_that_ended_last_whatever_they_returned() -> None:
    """Of several processes, many of whose episodes end at the same step."""
    episodes = Episodes(1)
    episodes.recent.extend(Episode(0, 10, float(i), 5) for i in range(100))
    mine = [(10, float(i), 5) for i in range(100)]
    others = [(9, 1000.0, 5), *((11, -1.0, 5) for _ in range(50))]
    found = episodes.line(lambda own: [own, ({}, others)])["rollout/return_100"]
    assert found == pytest.approx((sum(x for _, x, _ in mine[50:]) - 50) / 100)
