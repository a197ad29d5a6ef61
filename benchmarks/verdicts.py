"""Verdicts on scores: above an absolute mark; as good as a published score, or better."""

import math
import statistics
from typing import Any

from experiments import Experiment, Published

ENOUGH = 5  # seeds; of fewer a comparison is preliminary
PRECISE = 0.15  # of what a published score is above random: less precise scores tell nothing


def verdict(experiment: Experiment, scores: list[float]) -> dict[str, Any]:
    """What an experiment's scores, one of each seed, are worth."""
    found, published = floor(experiment, scores), experiment.published
    if published is None:
        return found
    found["published"] = {"mean": published.mean, "seeds": published.seeds, "of": published.source}
    if published.least is not None:
        found |= against_one_run(published, published.least, scores)
    if len(scores) > 1 and not math.isnan(published.sd):
        found |= welch(published, scores)
    return found


def floor(experiment: Experiment, scores: list[float]) -> dict[str, Any]:
    """All seeds but one are above the mark, or below that of a negative control; of few, all."""
    mark = experiment.floor
    passed = sum(score < mark if experiment.below else score >= mark for score in scores)
    needed = len(scores) if len(scores) < 4 else len(scores) - 1
    return {"floor": mark, "floor_verdict": "pass" if passed >= needed else "fail"}


def against_one_run(published: Published, least: float, scores: list[float]) -> dict[str, Any]:
    """Against one published run, or a score without a spread."""
    beats = all(score >= published.mean for score in scores)
    word = "beat" if beats else "match" if statistics.mean(scores) >= least else "below"
    return {"match_bound": least, "match_verdict": word + _preliminary(scores)}


def welch(published: Published, scores: list[float]) -> dict[str, Any]:
    """Welch's one-sided test at 95 %, if the means are known precisely enough to tell.

    A match is a mean of at least published - t SE, and it is beaten from published + t SE on. Where
    SE exceeds 15 % of what the published score is above random actions' the verdict is
    inconclusive, whatever the means: more seeds decide.
    """
    ours = statistics.variance(scores) / len(scores)
    theirs = published.sd**2 / published.seeds
    error = math.sqrt(ours + theirs)
    freedom = (ours + theirs) ** 2 / (
        ours**2 / (len(scores) - 1) + theirs**2 / (published.seeds - 1)
    )
    margin, mean = t_quantile(freedom) * error, statistics.mean(scores)
    if mean >= published.mean + margin:
        word = "beat"
    else:
        word = "match" if mean >= published.mean - margin else "below"
    allowed = PRECISE * abs(published.mean - published.random)
    if not error <= allowed:  # also where `random` is not known
        word = "inconclusive, add seeds"
    return {
        "welch_bound": round(published.mean - margin, 1),
        "standard_error": round(error, 2),
        "standard_error_allowed": round(allowed, 2),
        "match_verdict": word + _preliminary(scores),
    }


def t_quantile(freedom: float) -> float:
    """95 % quantile of Student's t, by Cornish and Fisher's expansion (0.5 % at 2 degrees)."""
    z = 1.6448536
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def _preliminary(scores: list[float]) -> str:
    return "" if len(scores) >= ENOUGH else f" (preliminary: fewer than {ENOUGH} seeds)"
