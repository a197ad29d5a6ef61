"""The rule by which results are said to match what was published (benchmarks/verdicts.py)."""

from __future__ import annotations

import importlib
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import rlpyt

FIVE_OF_A_KIND = [98.0, 99.0, 100.0, 101.0, 102.0]  # standard error 0.7


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(rlpyt.__file__).parents[1] / "benchmarks"))
    return importlib.import_module("verdicts")


def published(rule: Any, score: float, **given: Any) -> Any:
    return rule.Published(
        **{"mean": score, "sd": 5.0, "seeds": 5, "source": "", "random": 0.0} | given
    )


def of(rule: Any, against: Any, scores: list[float]) -> dict[str, Any]:
    return rule.verdict(rule.Experiment("", (), "eval", 0.0, against), scores)


@pytest.mark.parametrize(
    ("score", "word"),
    [(94.0, "beat"), (97.0, "match"), (100.0, "match"), (103.0, "match"), (106.0, "below")],
)
def test_a_mean_within_the_margin_matches_and_one_beyond_it_beats(rule, score, word):
    """SE is sqrt(0.5 + 5) = 2.35, t at 4.8 degrees of freedom 2.03."""
    found = of(rule, published(rule, score), FIVE_OF_A_KIND)
    assert found["match_verdict"] == word
    assert found["standard_error"] == pytest.approx(2.35, abs=0.01)
    assert found["welch_bound"] == pytest.approx(score - 2.03 * 2.35, abs=0.1)


@pytest.mark.parametrize("score", [60.0, 100.0, 140.0])
def test_scores_that_are_not_known_precisely_are_inconclusive_whatever_their_mean(rule, score):
    """SE above 15 % of what the published score is above random actions': never a pass."""
    wide = [score + x for x in (-60.0, -30.0, 0.0, 30.0, 60.0)]  # standard error 21.2
    for random, word in ((score - 142.0, "match"), (score - 141.0, "inconclusive, add seeds")):
        against = published(rule, score, sd=1.0, random=random)
        found = of(rule, against, wide)
        assert (found["match_verdict"] == word) == (mean(wide) == score)
        assert found["standard_error_allowed"] == pytest.approx(0.15 * (score - random), abs=0.01)
    unknown = published(rule, 100.0, random=float("nan"))
    assert of(rule, unknown, FIVE_OF_A_KIND)["match_verdict"] == "inconclusive, add seeds"


def test_few_seeds_are_preliminary_and_one_has_no_spread(rule):
    found = of(rule, published(rule, 100.0), FIVE_OF_A_KIND[:3])
    assert found["match_verdict"].endswith("(preliminary: fewer than 5 seeds)")
    assert "match_verdict" not in of(rule, published(rule, 100.0), [100.0])


def test_one_published_run_is_matched_from_its_own_bound_on(rule):
    against = published(rule, 100.0, sd=float("nan"), seeds=1, least=98.0)
    assert of(rule, against, [100.0] * 5)["match_verdict"] == "beat"
    assert of(rule, against, [99.0, 98.0, 98.0, 98.0, 98.0])["match_verdict"] == "match"
    assert of(rule, against, [97.0] * 5)["match_verdict"] == "below"


@pytest.mark.parametrize(
    ("scores", "below", "word"),
    [
        ([1.0, 1.0, -1.0, 1.0], False, "pass"),
        ([1.0, 1.0, -1.0], False, "fail"),
        ([1.0, -1.0, -1.0, 1.0], False, "fail"),
        ([-1.0, -1.0], True, "pass"),
        ([-1.0, 1.0], True, "fail"),
    ],
)
def test_the_floor_is_passed_by_all_seeds_or_by_all_but_one_of_four_and_more(
    rule, scores, below, word
):
    experiment = rule.Experiment("", (), "eval", 0.0, below=below)
    assert rule.verdict(experiment, scores)["floor_verdict"] == word


def test_every_published_spread_comes_with_what_random_actions_score(rule):
    experiments = importlib.import_module("experiments").EXPERIMENTS
    against = [e.published for e in experiments.values() if e.published and e.published.sd > 0]
    assert against and all(x.mean > x.random for x in against)
