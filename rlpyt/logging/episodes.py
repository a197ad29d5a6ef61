"""Episode returns and lengths, counted from rows alone: nothing else reports or doubles them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rlpyt.rows import Row

RECENT = 100  # episodes in `rollout/return_100`, as in the Gymnasium leaderboard's "solved"

Segment = tuple[int, int, float, int]  # row it ended with, column, return, length
Infos = Mapping[tuple[int, int], Mapping[str, float]]  # (row, column) -> numbers


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode that ended, with its undiscounted, unclipped, unscaled return."""

    column: int
    env_steps: int  # of the whole run, when it ended
    raw_return: float
    length: int
    info: Mapping[str, float] = field(default_factory=dict)


class Episodes:
    """Env steps and episodes of B columns, over windows of rows that follow each other.

    A window's row 0 is the boundary row of the window before and was counted there; so every row
    is counted once, when it arrives, and every action once, when the row that follows it is here.

    Args:
        num_envs: B.
        partial: rows begin within an episode of each column, which is not reported.
    """

    def __init__(self, num_envs: int, partial: bool = False) -> None:
        self.env_steps = 0
        self.total = 0  # episodes that ended in the whole run
        self.recent: deque[Episode] = deque(maxlen=RECENT)
        self._return = np.zeros(num_envs)  # of the open episode of each column
        self._length = np.zeros(num_envs, np.int64)
        self._partial = np.full(num_envs, partial)  # whether the open episode of a column is one
        self._line = _Line()

    def count(
        self, rows: Row, *, game_over: np.ndarray | None = None, infos: Infos | None = None
    ) -> list[Episode]:
        """Count a window; its episodes come in the order in which they ended.

        A `cut` row drops what its column has open, or what it seemed to end on the row before;
        the action that was lost was no step. An episode that ended on an earlier window's
        boundary row stays reported: cuts leave rows that are already last as they are.

        Args:
            rows: numpy, [T+1, B]: T answered rows and the boundary row.
            game_over: [T+1, B]; with episodes that end at a lost life, True where the whole game
                is over; returns are then the whole game's. A truncated row ends the game too.
            infos: (row, column) -> numbers that came with the end of an episode.
        """
        last, reward, cut = rows.last, rows.reward[1:], rows.cut[1:]
        if not len(reward):
            return []
        if not np.count_nonzero(last[1:]) and not np.count_nonzero(cut):
            # As most windows are where learning takes turns with a few rows: row 0 may be dead.
            return self._go_on(reward, len(reward) - last[0])

        ended = last[1:] & ~rows.first[1:]  # first and last at once: only a cut
        if game_over is not None:
            ended &= (game_over[1:] > 0) | rows.truncated[1:]  # > 0: NaN where info has no value
        live = ~last[:-1] & ~cut
        events = ended | cut
        if not events.any():
            return self._go_on(reward, live.sum(0))

        env_steps = self.env_steps + live.sum(1).cumsum()  # [T], when each row arrived
        self.env_steps = int(env_steps[-1])
        episodes = []
        empty = rows.first[:-1] & last[:-1]  # of no episode: behind these a cut ends nothing
        self._line.add_cut(int(np.count_nonzero(cut & ~empty)))
        found = self._whole(self._segments(reward, live, events, cut), events)
        for t, b, raw_return, length in found:
            info = {name: float(x[t + 1, b]) for name, x in dict(rows.env_info).items()}
            info |= (infos or {}).get((t + 1, b), {})
            present = {name: x for name, x in info.items() if x == x}
            episodes.append(Episode(b, int(env_steps[t]), raw_return, length, present))
        self.total += len(episodes)
        self.recent.extend(episodes)
        self._line.add(episodes)
        return episodes

    def open(self) -> tuple[np.ndarray, np.ndarray]:
        """Return and length so far of each column's unfinished episode, both [B]."""
        return self._return.copy(), self._length.copy()

    def line(self, gather: Callable[[Any], list[Any]] = lambda own: [own]) -> dict[str, float]:
        """The statistics of a line of the log; the next call covers the episodes after this one.

        `_mean`, `_min`, `_max`, `episodes` and `info_<name>`: the episodes since the line before.
        `episodes_cut`: those that were cut since then, after a step at least. `_100`: the last 100
        episodes. A statistic of no episode is absent.

        Args:
            gather: what each process gives that trains the same agent (`Ranks.gather`).
        """
        line, self._line = self._line, _Line()
        own = [(x.env_steps, x.raw_return, x.length) for x in self.recent]
        everywhere = gather((line.sums, own))
        tags = _Line.of([sums for sums, _ in everywhere]).tags()
        every = chain.from_iterable(newest for _, newest in everywhere)
        recent = sorted(every, key=lambda x: x[0])[-RECENT:]  # by when they ended, by nothing else
        if recent:
            tags["rollout/return_100"] = _mean([raw_return for _, raw_return, _ in recent])
            tags["rollout/length_100"] = _mean([length for *_, length in recent])
        return tags

    def state(self) -> dict[str, np.ndarray]:
        """Everything that the statistics of later rows depend on, as arrays."""
        recent = self.recent
        return {
            "counts": np.array([self.env_steps, self.total], np.int64),
            "return": self._return.copy(),
            "length": self._length.copy(),
            "partial": self._partial.copy(),
            "recent_column": np.array([x.column for x in recent], np.int64),
            "recent_env_steps": np.array([x.env_steps for x in recent], np.int64),
            "recent_return": np.array([x.raw_return for x in recent], np.float64),
            "recent_length": np.array([x.length for x in recent], np.int64),
            **{f"line/{name}": np.array(sums) for name, sums in self._line.sums.items()},
        }

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state()`."""
        self.env_steps, self.total = (int(x) for x in state["counts"])
        self._return[:] = state["return"]
        self._length[:] = state["length"]
        self._partial[:] = state.get("partial", False)
        names = ("recent_column", "recent_env_steps", "recent_return", "recent_length")
        columns = [state[name].tolist() for name in names]
        self.recent = deque((Episode(*x) for x in zip(*columns, strict=True)), maxlen=RECENT)
        lines = {name: x for name, x in state.items() if name.startswith("line/")}
        self._line = _Line({name.removeprefix("line/"): x.tolist() for name, x in lines.items()})

    def _go_on(self, reward: np.ndarray, live: np.ndarray) -> list[Episode]:
        """Count a window in which no episode ended: reward [T, B], live rows [B]."""
        self._return += reward.sum(0, np.float64)
        self._length += live
        self.env_steps += int(live.sum())
        return []

    def _whole(self, found: list[Segment], events: np.ndarray) -> list[Segment]:
        """Leave out episodes whose beginning is not among the rows: the first of some columns.

        Args:
            events: [T, B], where an episode ended, or was cut.
        """
        if not self._partial.any():
            return found
        first, partial = events.argmax(0), self._partial.copy()
        self._partial &= ~events.any(0)
        return [x for x in found if not (partial[x[1]] and x[0] == first[x[1]])]

    def _segments(
        self, reward: np.ndarray, live: np.ndarray, events: np.ndarray, cut: np.ndarray
    ) -> list[Segment]:
        """Cut each column, all [T, B], behind its events; carry what stays open.

        Returns:
            (t, column, return, length) of each episode that ended and was not cut, by t.
        """
        horizon, size = len(reward), reward.size
        at = np.flatnonzero(events.T).tolist()  # positions b * T + t: column after column
        dropped = set(np.flatnonzero(cut.T).tolist())
        starts = sorted({*range(0, size, horizon), *(i + 1 for i in at if i + 1 < size)})
        returns = np.add.reduceat(reward.T.ravel().astype(np.float64), starts).tolist()
        lengths = np.add.reduceat(live.T.ravel().astype(np.int64), starts).tolist()
        happened, found = set(at), []
        ends = (*(i - 1 for i in starts[1:]), size - 1)  # of the segments, each in one column
        for start, end, total, length in zip(starts, ends, returns, lengths, strict=True):
            column, t = divmod(end, horizon)
            if start % horizon == 0:
                total += self._return[column].item()
                length += self._length[column].item()
            open_on = end not in happened
            if t == horizon - 1:
                self._return[column] = total if open_on else 0.0
                self._length[column] = length if open_on else 0
            lost = end in dropped or (t < horizon - 1 and end + 1 in dropped)
            if not open_on and not lost:
                found.append((t, column, total, length))
        return sorted(found)


class _Line:
    """Count, sum, least and greatest of each statistic since the line before: flat in memory."""

    def __init__(self, sums: dict[str, list[float]] | None = None) -> None:
        self.sums = sums or {}

    @classmethod
    def of(cls, lines: Iterable[dict[str, list[float]]]) -> _Line:
        """The line of several processes' episodes."""
        whole = cls()
        for name, (count, total, least, greatest) in chain.from_iterable(x.items() for x in lines):
            sums = whole.sums.get(name, [0.0, 0.0, least, greatest])
            whole.sums[name] = [
                sums[0] + count,
                sums[1] + total,
                min(sums[2], least),
                max(sums[3], greatest),
            ]
        return whole

    def add(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self._add("return", episode.raw_return)
            self._add("length", episode.length)
            for name, x in episode.info.items():
                self._add(f"info_{name}", x)

    def add_cut(self, count: int) -> None:
        if count:
            self.sums["cut"] = [self.sums.get("cut", [0.0])[0] + count, 0.0, 0.0, 0.0]

    def tags(self) -> dict[str, float]:
        episodes = self.sums.get("return", [0.0])[0]
        tags: dict[str, float] = {"rollout/episodes": int(episodes)}
        for name, (count, total, least, greatest) in self.sums.items():
            if name == "cut":
                tags["rollout/episodes_cut"] = int(count)
            elif name.startswith("info_"):
                tags[_tag(name)] = total / count
            else:
                tags[f"rollout/{name}_mean"] = total / count
                tags[f"rollout/{name}_min"] = least
                tags[f"rollout/{name}_max"] = greatest
        return tags

    def _add(self, name: str, x: float) -> None:
        count, total, least, greatest = self.sums.get(name, (0.0, 0.0, x, x))
        self.sums[name] = [count + 1, total + x, min(least, x), max(greatest, x)]


def _tag(name: str) -> str:
    """An info key as a tag: one line, no commas, whatever the environment called it."""
    return "rollout/" + re.sub(r"[^\w.\-/]", "_", name)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
