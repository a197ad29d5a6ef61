"""The statistics are those of Agarwal et al. (2021), and a curve is where all its runs are."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpyt.errors import UsageError
from rlpyt.view.curves import POINTS, bootstrap_interval, combine, iqm
from rlpyt.view.runs import LoggedRun

SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def run_of(x: list[float], y: list[float], env: str = "CartPole-v1") -> LoggedRun:
    run = LoggedRun(Path("run"), {"env": env})
    run.__dict__["columns"] = {"env_steps": np.array(x, float), "return": np.array(y, float)}
    return run


@given(SCORES)
def test_iqm_is_the_mean_without_the_lowest_and_highest_quarter(scores: list[float]) -> None:
    left, out = sorted(scores), len(scores) // 4
    for _ in range(out):
        left.remove(min(left))
        left.remove(max(left))
    assert math.isclose(iqm(np.array(scores)), sum(left) / len(left), rel_tol=1e-9, abs_tol=1e-6)


def test_iqm_goes_along_its_axis() -> None:
    scores = np.random.default_rng(0).normal(size=(9, 4))
    assert np.allclose(iqm(scores, axis=0), [iqm(column) for column in scores.T])


def test_iqm_ignores_one_bad_seed_of_five() -> None:
    assert iqm(np.array([-1e9, 1.0, 2.0, 3.0, 4.0])) == 2.0


def test_the_interval_is_that_of_resampling_runs_with_replacement() -> None:
    """Two runs: the mean is a, (a + b) / 2 or b with probability 1/4, 1/2, 1/4."""
    scores = np.array([[0.0], [1.0]])
    bounds = {
        level: [float(bound[0]) for bound in bootstrap_interval(scores, "aa", np.mean, level=level)]
        for level in (0.95, 0.4)
    }
    assert bounds == {0.95: [0.0, 1.0], 0.4: [0.5, 0.5]}


def test_the_interval_of_the_mean_agrees_with_the_normal_theory() -> None:
    scores = np.random.default_rng(1).normal(10, 2, size=(400, 1))
    low, high = bootstrap_interval(scores, ["a"] * 400, np.mean)
    error = 1.96 * scores.std() / 20
    assert np.allclose([low[0], high[0]], [scores.mean() - error, scores.mean() + error], atol=0.03)


def test_every_stratum_keeps_its_number_of_runs() -> None:
    """Runs of one environment agree, environments differ: drawn within, nothing varies."""
    scores = np.array([[1.0], [1.0], [5.0], [5.0], [5.0]])
    low, high = bootstrap_interval(scores, ["a", "a", "b", "b", "b"], np.mean)
    assert low[0] == high[0] == pytest.approx(3.4)
    low, high = bootstrap_interval(scores, ["all"] * 5, np.mean)
    assert low[0] < 3.4 < high[0]


def test_a_run_is_drawn_whole_along_the_curve() -> None:
    """With the same draws at every point, the interval of equal columns is equal."""
    scores = np.repeat(np.random.default_rng(0).normal(size=(5, 1)), 3, axis=1)
    low, high = bootstrap_interval(scores, "aaaaa", iqm)
    assert len(set(low)) == len(set(high)) == 1


def test_the_same_runs_have_the_same_interval() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 2))
    first, second = (bootstrap_interval(scores, "aaaaa", iqm) for _ in range(2))
    assert np.array_equal(first, second)


def test_a_curve_is_interpolated_where_all_its_runs_are() -> None:
    runs = [run_of([0, 10, 20, 40], [0, 10, 20, 40]), run_of([5, 25, 30], [0, 0, 0])]
    curve = combine(runs, "env_steps", "return", "mean")
    assert curve.x.tolist() == [5, 10, 20, 25, 30]
    assert curve.center.tolist() == [2.5, 5, 10, 12.5, 15]
    assert curve.runs == 2
    assert (curve.low <= curve.center).all()
    assert (curve.high >= curve.center).all()


def test_one_run_is_its_own_interval() -> None:
    curve = combine([run_of([1, 2], [3, 4])], "env_steps", "return", "iqm")
    assert curve.low.tolist() == curve.center.tolist() == curve.high.tolist() == [3, 4]


def test_long_logs_are_thinned_to_what_a_figure_resolves() -> None:
    x = list(range(5000))
    curve = combine([run_of(x, x)], "env_steps", "return", "mean")
    assert len(curve.x) == POINTS
    assert np.allclose(curve.x, curve.center)


def test_runs_without_a_common_stretch_are_named() -> None:
    runs = [run_of([1, 2], [0, 0]), run_of([3, 4], [0, 0])]
    with pytest.raises(UsageError, match="have no env_steps in common for return"):
        combine(runs, "env_steps", "return", "mean")


def test_an_unknown_statistic_names_the_choice() -> None:
    with pytest.raises(UsageError, match="stat=median is unknown; choose mean or iqm"):
        combine([run_of([1], [1])], "env_steps", "return", "median")
