"""What is shown of a sweep: a live table in a terminal, a line for each end elsewhere."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rlpyt.launch.journal import Record, State
from rlpyt.launch.progress import Progress, reason
from rlpyt.logging.block import Line
from rlpyt.logging.displays import Display, Plain
from rlpyt.logging.text import format_duration, format_return, wrap

EVERY_END = 24  # up to so many runs each one's end is a line where nothing can be redrawn
PARTS = 20  # of a larger sweep, lines
BAR = 16
STYLES = {
    "finished": "green",
    "failed": "bold red",
    "cut": "yellow",
    "running": "cyan",
    "queued": "dim",
    "pruned": "dim",
}
_ORDER = ("running", "failed", "cut", "finished", "pruned", "queued")


@dataclass
class Row:
    """One run as it is shown."""

    record: Record
    progress: Progress
    left_seconds: float | None = None

    @property
    def state(self) -> State:
        return self.record.state


class Screen:
    """Shows rows.

    Args:
        display: where to.
        total: how many runs there will be, if that is known.
    """

    def __init__(self, display: Display, total: int | None) -> None:
        self._display, self._total, self._said = display, total, 0

    @property
    def live(self) -> bool:
        """Whether `draw` shows anything."""
        return self._display.live

    def say(self, text: str) -> None:
        """A sentence that stays."""
        with self._read_on():
            for line in wrap(text, self._display.width):
                self._display.say(line)

    def draw(self, rows: Sequence[Row], head: str) -> None:
        """Redraw the table."""
        height = shutil.get_terminal_size().lines
        with self._read_on():
            self._display.show(table(rows, head, self._display.width, height - 2))

    def ended(self, row: Row, counts: Counter[str], left: float | None) -> None:
        """Say that a run ended: if it failed always, else in a sweep that is not too long."""
        record = row.record
        if record.state == "failed":
            last = f": {reason(record.tail)}" if record.tail else ""
            self.say(f"failed   {record.job.name} (exit code {record.code}){last}")
            return
        done = counts["finished"] + counts["pruned"]
        total = self._total or sum(counts.values())
        if self.live or record.state not in ("finished", "pruned"):
            return
        if total <= EVERY_END:
            result = _return(row.progress)
            shown = f"  return {result}" if result else ""
            when = format_duration(record.seconds)
            self.say(f"{done}/{total}".ljust(8) + f" {record.job.name}{shown}  {when}")
        elif done * PARTS // total > self._said * PARTS // total:
            self.say(f"{_counted(counts, total)}{_left(left)}")
        self._said = done

    def close(self) -> None:
        """Leave the table where it is."""
        with self._read_on():
            self._display.close()

    @contextmanager
    def _read_on(self) -> Iterator[None]:
        """Show nothing any more where nobody reads it (| head): the runs go on."""
        try:
            yield
        except OSError:
            self._display = Plain(None)


def table(rows: Sequence[Row], head: str, width: int, height: int) -> list[Line]:
    """The rows that matter most, in so many lines at most: what runs, what failed, what is next."""
    ranked = sorted(rows, key=lambda row: _ORDER.index(row.state))
    room = max(1, height - 3)
    shown, rest = (ranked, []) if len(ranked) <= room + 1 else (ranked[:room], ranked[room:])
    longest = max((len(row.record.job.name) for row in shown), default=0)
    names = max(16, min(longest, width - BAR - 40))
    lines: list[Line] = [[(f" {head}", "bold")]]
    titles = ("run".ljust(names), "state".ljust(9), "progress".ljust(BAR + 6), "  return", "left")
    lines.append([(f" {'  '.join(titles)}", "dim")])
    lines += [_line(row, names) for row in shown]
    if rest:
        counts = Counter(row.state for row in rest)
        more = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts[state])
        lines.append([(f" … and {more}", "dim")])
    return lines


def as_text(rows: Sequence[Row], width: int) -> list[str]:
    """All rows, without a head."""
    lines = table(rows, "", width, len(rows) + 9)[1:]
    return ["".join(text for text, _ in line) for line in lines]


def fit(line: str, width: int) -> str:
    """As much of a line as a terminal has room for."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _line(row: Row, names: int) -> Line:
    record, progress = row.record, row.progress
    name = record.job.name
    name = name if len(name) <= names else f"…{name[1 - names :]}"  # names differ at their ends
    place = f"slot {record.slot}" if record.state == "running" else record.state
    done = min(1.0, progress.env_steps / record.job.env_steps) if record.job.env_steps else 0.0
    filled = int(done * BAR)
    bar = "━" * filled + "─" * (BAR - filled)
    queued = record.state == "queued"
    line: Line = [
        (f" {name.ljust(names)}  ", "dim" if queued else ""),
        (f"{place:9}  ", STYLES.get(row.state, "")),
        (" " * (BAR + 6) if queued else f"{bar} {100 * done:3.0f} %", ""),
        (f"  {_return(progress):>8}", ""),
    ]
    if row.left_seconds is not None:
        line.append((f"  {format_duration(row.left_seconds)}", "dim"))
    elif record.state == "failed":
        line.append((f"  exit {record.code}: {reason(record.tail)}", "red"))
    return line


def summary(rows: Sequence[Row], elapsed: float | None = None, left: float | None = None) -> str:
    """How far a sweep is, in a line."""
    text = _counted(Counter(row.state for row in rows), len(rows))
    return text + (f" · {format_duration(elapsed)}" if elapsed else "") + _left(left)


def _counted(counts: Counter[str], total: int) -> str:
    done = counts["finished"] + counts["pruned"]
    others = [f"{counts[s]} {s}" for s in ("running", "failed", "cut") if counts[s]]
    return " · ".join([f"{done}/{total} finished", *others])


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f" · {format_duration(seconds)} left"


def _return(progress: Progress) -> str:
    value = progress.train_return if progress.eval_return is None else progress.eval_return
    return "" if value is None else format_return(value)
