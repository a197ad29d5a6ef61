"""Curves of several runs as one: mean or interquartile mean, with bootstrap intervals."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpyt.errors import UsageError
from rlpyt.view.runs import LoggedRun

Stat = Literal["mean", "iqm"]
POINTS = 200  # more than a figure's width resolves
REPETITIONS = 2000  # as Agarwal et al. (2021) for curves


@dataclass(frozen=True)
class Curve:
    """A statistic over runs along x, each array [points]; low and high bound its 95 % interval."""

    x: np.ndarray
    center: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: int


def iqm(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean (Agarwal et al., 2021): without the lowest and highest quarter.

    Of n scores floor(n / 4) are left out on either side, as in scipy.stats.trim_mean: below four
    scores it is the mean.
    """
    out = scores.shape[axis] // 4
    middle = np.arange(out, scores.shape[axis] - out)
    return np.take(np.sort(scores, axis), middle, axis).mean(axis)


STATISTICS: dict[str, Callable[..., np.ndarray]] = {"mean": np.mean, "iqm": iqm}


def bootstrap_interval(
    scores: np.ndarray,
    strata: Sequence[Hashable],
    statistic: Callable[..., np.ndarray],
    *,
    level: float = 0.95,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Stratified percentile bootstrap (Agarwal et al., 2021, section 4.1).

    Args:
        scores: [runs, points]; the runs of a column of points are drawn together.
        strata: [runs]; runs are drawn again, with replacement, among those of the same stratum
            (the environment): each keeps its number of runs.
        statistic: over the runs; takes an array and `axis`.

    Returns:
        Lower and upper bound, each [points].
    """
    generator = np.random.default_rng(seed)
    drawn = np.empty((repetitions, len(scores)), np.int64)
    for stratum in dict.fromkeys(strata):
        members = np.flatnonzero([other == stratum for other in strata])
        drawn[:, members] = generator.choice(members, (repetitions, len(members)))
    values = np.stack([statistic(score[drawn], axis=1) for score in scores.T], 1)
    tail = (1 - level) / 2  # values: [repetitions, points]
    low, high = np.quantile(values, [tail, 1 - tail], axis=0)
    return low, high


def combine(runs: Sequence[LoggedRun], x: str, y: str, stat: Stat) -> Curve:
    """The curve of a group of runs, from where all have begun to where the shortest ends.

    Every run counts at every point, so that no step in the curve is a run that joins or leaves.
    Between its lines a run is interpolated linearly.
    """
    if stat not in STATISTICS:
        raise UsageError(f"stat={stat} is unknown; choose mean or iqm")
    points = [run.points(x, y) for run in runs]
    grid = _common_grid([at for at, _ in points])
    if not len(grid):
        raise UsageError(
            f"the runs {', '.join(run.path.name for run in runs)} have no {x} in common for {y}; "
            "plot them apart, or leave one out"
        )
    scores = np.stack([np.interp(grid, at, value) for at, value in points])  # [runs, points]
    strata = [run.facts["env"] for run in runs]
    low, high = bootstrap_interval(scores, strata, STATISTICS[stat])
    return Curve(grid, STATISTICS[stat](scores, axis=0), low, high, len(runs))


def have_common(runs: Sequence[LoggedRun], x: str, y: str) -> bool:
    """Whether there is an x where all of the runs have begun and none has ended."""
    return len(_common_grid([run.points(x, y)[0] for run in runs])) > 0


def _common_grid(ats: Sequence[np.ndarray]) -> np.ndarray:
    """Where any run has a line, within what all cover; evenly spaced if those are too many."""
    if any(len(at) == 0 for at in ats):
        return np.empty(0)
    begin, end = max(at[0] for at in ats), min(at[-1] for at in ats)
    union = np.unique(np.concatenate(ats))
    union = union[(union >= begin) & (union <= end)]
    return union if len(union) <= POINTS else np.linspace(begin, end, POINTS)
