"""The lines that the console shows, as text with styles: no terminal in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlpyt.logging.text import format_count, format_duration, format_return, sparkline

Line = list[tuple[str, str]]  # (text, style) pieces, from left to right

SHARES = ("env", "act", "learn", "wait")
SHARES_WIDTH = len("    env 00 % · act 00 % · learn 00 % · wait 00 %")
MIN_SPARK = 12


class Curve:
    """A return over env steps in bounded memory: full, it averages its points in pairs."""

    def __init__(self, capacity: int = 512) -> None:
        self.first = self.latest = 0.0
        self._points: list[tuple[float, float]] = []  # means of `_stride` values
        self._capacity, self._stride = capacity, 1
        self._open = (0, 0.0, 0.0)  # count and sums of the values that are no point yet

    def __bool__(self) -> bool:
        return bool(self._points) or self._open[0] > 0

    def add(self, env_steps: int, value: float) -> None:
        if not self:
            self.first = value
        self.latest = value
        count, x, y = self._open
        self._open = (count + 1, x + env_steps, y + value)
        if count + 1 == self._stride:
            self._points.append(self._mean())
            self._open = (0, 0.0, 0.0)
        if len(self._points) == self._capacity:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairs]
            self._stride *= 2

    def cells(self, n: int) -> list[float]:
        """At most n means over equal stretches of env steps; an empty stretch repeats the last."""
        points = [*self._points, self._mean()] if self._open[0] else self._points
        begin, end = points[0][0], points[-1][0]
        n = min(n, len(points))
        found: list[list[float]] = [[] for _ in range(n)]
        for x, y in points:
            found[min(n - 1, int(n * (x - begin) / max(end - begin, 1)))].append(y)
        means: list[float] = []
        for cell in found:
            means.append(sum(cell) / len(cell) if cell else means[-1])
        return means

    def _mean(self) -> tuple[float, float]:
        count, x, y = self._open
        return x / count, y / count


@dataclass
class Progress:
    """What is known of a run; `block` and `plain_line` lay it out."""

    total_steps: int
    env_steps: int
    elapsed_seconds: float = 0.0
    left_seconds: float | None = None
    steps_per_second: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    curve: Curve = field(default_factory=Curve)
    evaluation: tuple[float, float, int] | None = None  # mean, standard deviation, episodes
    solved_return: float | None = None
    solved_at: int | None = None
    activity: str = ""
    finished: bool = False

    def take(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Take over the metrics of a line of the log that the console shows."""
        self.steps_per_second = metrics.get("time/steps_per_second", self.steps_per_second)
        self.shares |= {x: metrics[f"time/{x}"] for x in SHARES if f"time/{x}" in metrics}
        if "rollout/return_mean" in metrics:
            self.curve.add(env_steps, metrics["rollout/return_mean"])
        for tag in ("rollout/return_100", "eval/return_mean"):
            self._solved(env_steps, metrics.get(tag))

    def evaluate(self, env_steps: int, mean: float, std: float, episodes: int) -> None:
        self.evaluation = (mean, std, episodes)
        self._solved(env_steps, mean)

    def _solved(self, env_steps: int, value: float | None) -> None:
        if value is None or self.solved_return is None or self.solved_at is not None:
            return
        if value >= self.solved_return:
            self.solved_at = env_steps


def block(progress: Progress, width: int) -> list[Line]:
    """The live block: bar, where the time goes, returns; the widest form that fits."""
    p = progress
    clock: Line = [(f" {_count(p)}  {format_duration(p.elapsed_seconds)}", "")]
    if not p.finished and p.left_seconds is not None:
        clock.append((f"  {format_duration(p.left_seconds)} left", "dim"))
    if p.steps_per_second is not None:
        clock.append((f"  {format_count(p.steps_per_second):>4} steps/s", ""))
    while len(clock) > 1 and _length(clock) + 10 > width:
        clock.pop()
    shares = " · ".join(f"{name} {100 * x:.0f} %" for name, x in p.shares.items())

    below: list[Line] = []
    room = width - _length(clock) - 2
    if shares and room - SHARES_WIDTH >= 20:
        clock.append(("    " + shares, "dim"))
        room -= SHARES_WIDTH
    elif shares:
        below.append([(" time     ", "dim"), (shares, "dim")])
    bar = _bar(p.env_steps / max(1, p.total_steps), max(8, min(40, room)), p.finished)
    return [[(" ", ""), *bar, *clock], *below, _returns(p, width)]


def plain_line(progress: Progress) -> str:
    """One short line without colours or movement."""
    p = progress
    percent = min(100, 100 * p.env_steps // max(1, p.total_steps))
    parts = [
        f"{_count(p)} {percent:>4} %",
        format_duration(p.elapsed_seconds),
    ]
    if p.steps_per_second is not None:
        parts.append(f"{format_count(p.steps_per_second):>4} steps/s")
    if p.curve:
        parts.append(f"return {format_return(p.curve.latest):>5}")
    if p.evaluation:
        parts.append(_evaluation(p.evaluation))
    if p.solved_at is not None:
        parts.append(f"solved at {format_count(p.solved_at)}")
    return " " + "  ".join(parts)


def _bar(fraction: float, width: int, finished: bool) -> Line:
    halves = int(2 * width * min(1.0, fraction))
    done = "━" * (halves // 2) + "╸" * (halves % 2)
    return [(done, "green" if finished else "cyan"), ("─" * (width - len(done)), "dim")]


def _returns(p: Progress, width: int) -> Line:
    if p.curve:
        first = f" return  {format_return(p.curve.first):>5} "
        latest = f" {format_return(p.curve.latest):<5}"
    else:
        first, latest = " return   ", "no episode has ended yet"
    room = width - 1 - len(first + latest)
    notes = _notes(p, short=False)
    if room - _length(notes) < MIN_SPARK:
        notes = _notes(p, short=True)
    while notes and room < _length(notes):
        notes.pop()
    cells = max(0, min(32, room - _length(notes)))
    spark = sparkline(p.curve.cells(cells)) if p.curve and cells else ""
    style = "" if p.curve else "dim"
    return [(first, ""), (spark, "green" if p.finished else "cyan"), (latest, style), *notes]


def _notes(p: Progress, short: bool) -> Line:
    notes: Line = []
    if p.evaluation:
        text = _evaluation(p.evaluation)
        notes.append(("   " + (text.partition(" (")[0] if short else text), "bold"))
    if p.solved_at is not None:
        notes.append((f"   solved at {format_count(p.solved_at)}", "green"))
    if p.activity and not p.finished:
        notes.append((f"   {p.activity}", "dim"))
    return notes


def _count(p: Progress) -> str:
    total = format_count(p.total_steps, 3)
    return f"{format_count(p.env_steps):>{max(4, len(total))}}/{total}"


def _evaluation(evaluation: tuple[float, float, int]) -> str:
    mean, std, episodes = evaluation
    noun = "episode" if episodes == 1 else "episodes"
    return f"eval {mean:.1f} ± {std:.1f} ({episodes} {noun})"


def _length(line: Line) -> int:
    return sum(len(text) for text, _ in line)
