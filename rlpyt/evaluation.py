"""Unbiased evaluation: how many episodes each environment plays is fixed beforehand.

Counting whichever episodes end first would favour short ones. The training environments, states,
noise and statistics are not touched: an evaluation has its own environments and starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlpyt.logging.episodes import Episode, Episodes
from rlpyt.rows import Row
from rlpyt.samplers.sampler import Sampler


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one evaluation, raw returns and lengths, in order of columns."""

    returns: np.ndarray  # [episodes] float64
    lengths: np.ndarray  # [episodes] int64
    unfinished: int = 0  # episodes that the step limit ended

    @property
    def mean(self) -> float:
        return float(self.returns.mean()) if len(self.returns) else float("nan")

    @property
    def std(self) -> float:
        return float(self.returns.std()) if len(self.returns) else float("nan")

    @property
    def alike(self) -> bool:
        """Whether several episodes gave one return in one length: is there any chance at all?"""
        several = len(self.returns) > 1
        return several and bool(np.ptp(self.returns) == 0 and np.ptp(self.lengths) == 0)

    def metrics(self) -> dict[str, float]:
        return {
            "eval/return_mean": self.mean,
            "eval/return_std": self.std,
            "eval/return_min": float(self.returns.min(initial=np.inf)),
            "eval/return_max": float(self.returns.max(initial=-np.inf)),
            "eval/length_mean": float(self.lengths.mean()) if len(self.lengths) else float("nan"),
            "eval/episodes": len(self.returns),
        }


class Stopped(Exception):
    """An evaluation was asked to end before its episodes had."""


class Evaluator:
    """Plays episodes with its own sampler.

    Args:
        make_sampler: of the evaluation's environments, B of them, made when first needed; it acts
            greedily where its noise is None.
        episodes: in all; column b plays episodes // B, the first episodes % B one more.
        max_steps: an episode that has taken so many when a window ends is truncated there, with
            the return so far. (The environments reset whatever row is last, as `InProcess` does.)
    """

    def __init__(self, make_sampler: Callable[[], Sampler], episodes: int, max_steps: int) -> None:
        self.episodes, self.max_steps = episodes, max_steps
        self._make_sampler = make_sampler
        self._sampler: Sampler | None = None

    @property
    def sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = self._make_sampler()
        return self._sampler

    def evaluate(
        self,
        on_row: Callable[[], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Evaluation:
        """Play all episodes from the same starts each time.

        Args:
            on_row: called after each window of one row (for video; the window's horizon is 1).
            stop: asked after each window; True raises `Stopped`.
        """
        sampler = self.sampler
        num_envs = sampler.window.num_envs
        quota = [
            self.episodes // num_envs + (b < self.episodes % num_envs) for b in range(num_envs)
        ]
        counter, unfinished = Episodes(num_envs), 0
        age = np.zeros(num_envs, np.int64)  # steps of each column's open episode
        done: list[list[Episode]] = [[] for _ in quota]
        sampler.reset()
        while any(len(mine) < wanted for mine, wanted in zip(done, quota, strict=True)):
            window = sampler.collect()
            if on_row is not None:
                on_row()
            if stop is not None and stop():
                raise Stopped
            rows = window.rows
            first = rows.first[::-1]  # from the boundary row backwards
            age = np.where(first.any(0), first.argmax(0), age + window.horizon)
            late = (age >= self.max_steps) & ~rows.last[-1]
            rows.truncated[-1] |= late
            for episode in counter.count(rows, game_over=game_over(rows)):
                b = episode.column
                if len(done[b]) < quota[b]:
                    done[b].append(episode)
                    unfinished += bool(late[b]) and episode.length == age[b]
        found = [episode for mine in done for episode in mine]
        return Evaluation(
            np.array([episode.raw_return for episode in found]),
            np.array([episode.length for episode in found], np.int64),
            unfinished,
        )

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None


def game_over(rows: Row) -> np.ndarray | None:
    """Where whole games end, [T+1, B], for environments whose episodes end at a lost life."""
    return rows.env_info.get("game_over") if rows.env_info else None
