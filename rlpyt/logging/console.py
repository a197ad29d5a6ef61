"""What a person sees of a run: one live block in a terminal, a few lines in a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TextIO

from rlpyt.logging.block import Progress, block, plain_line
from rlpyt.logging.displays import Mode, choose
from rlpyt.logging.text import wrap

REDRAW_SECONDS = 0.25  # a redraw takes 2 ms
# Of the whole length, where a line is printed when nothing can be redrawn: 15 lines at most.
EARLY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
TENTHS = tuple(i / 10 for i in range(1, 10))
EARLY_SECONDS = 5.0  # short runs skip the early ones


class Console:
    """Progress of a run of `total_steps`. Nothing that happens to the output stops training.

    Args:
        total_steps: env steps at which the run ends.
        header: lines that are printed first.
        env_steps: where the run stands now (more than 0 when resumed).
        solved_return: shows "solved at" once the last 100 episodes or an evaluation reach it.
        history: (env_steps, metrics) of a resumed run's earlier lines.
        mode: "plain" never redraws; "quiet" prints nothing.
        stream: standard output by default; standard error where that holds the results.
    """

    def __init__(
        self,
        total_steps: int,
        header: Sequence[str] = (),
        *,
        env_steps: int = 0,
        solved_return: float | None = None,
        history: Iterable[tuple[int, Mapping[str, float]]] = (),
        mode: Mode = "auto",
        stream: TextIO | None = None,
    ) -> None:
        self._display = choose(mode, stream)
        self._progress = Progress(total_steps, env_steps, solved_return=solved_return)
        for x, metrics in history:
            self._progress.take(x, metrics)
        self._progress.steps_per_second = None
        self._progress.shares = {}
        self._start, self._start_steps = time.monotonic(), env_steps
        self._drawn = self._start - REDRAW_SECONDS
        self._marks = [x * total_steps for x in (*EARLY, *TENTHS) if x * total_steps > env_steps]
        self._closed = False
        for text in header:
            self.message(text)

    def update(self, env_steps: int, metrics: Mapping[str, float] | None = None) -> None:
        """Say where training stands, as often as once a window; metrics where a line was logged."""
        self._progress.env_steps = env_steps
        if metrics:
            self._progress.take(env_steps, metrics)
        now = time.monotonic()
        if self._display.live:
            if now - self._drawn >= REDRAW_SECONDS:
                self._draw(now)
        elif self._is_due(now):
            self._drawn = now
            self._say(plain_line(self._timed(now)))

    def evaluation(self, env_steps: int, mean: float, std: float, episodes: int) -> None:
        """Show the return of an evaluation that ended."""
        self._progress.activity = ""
        self._progress.evaluate(env_steps, mean, std, episodes)
        self._draw(time.monotonic())

    def activity(self, text: str = "") -> None:
        """Show what takes the time now ("evaluating", "saving"); "" for training.

        Where nothing can be redrawn, only what comes after the last step is said.
        """
        self._progress.activity = text
        if self._display.live:
            self._draw(time.monotonic())
        elif text and self._progress.env_steps >= self._progress.total_steps:
            self._say(text)

    def message(self, text: str) -> None:
        """Print a line that stays, above the block."""
        for line in text.splitlines():
            for row in wrap(line, self._display.width):
                self._say(row)

    def close(self, lines: Sequence[str] = ()) -> None:
        """Leave the last state on the screen, give the terminal back, print the final lines."""
        if self._closed:
            return
        self._closed = True
        p = self._timed(time.monotonic())
        p.finished = p.env_steps >= p.total_steps
        if self._display.live:
            self._draw(time.monotonic())
        elif p.env_steps > self._start_steps:
            self._say(plain_line(p))
        self._guard(self._display.close)
        for line in lines:
            self.message(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _timed(self, now: float) -> Progress:
        """The progress with its clocks set; the time left comes from this process's own speed."""
        p = self._progress
        p.elapsed_seconds = now - self._start
        done = p.env_steps - self._start_steps
        if done > 0 and p.elapsed_seconds > 0:
            speed = done / p.elapsed_seconds
            p.left_seconds = max(0.0, (p.total_steps - p.env_steps) / speed)
            if p.steps_per_second is None and p.elapsed_seconds > 1:
                p.steps_per_second = speed
        return p

    def _is_due(self, now: float) -> bool:
        reached = [x for x in self._marks if x <= self._progress.env_steps]
        del self._marks[: len(reached)]
        tenth = any(x >= TENTHS[0] * self._progress.total_steps for x in reached)
        return tenth or (bool(reached) and now - self._drawn >= EARLY_SECONDS)

    def _draw(self, now: float) -> None:
        self._drawn = now
        lines = block(self._timed(now), self._display.width)
        self._guard(lambda: self._display.show(lines))

    def _say(self, line: str) -> None:
        self._guard(lambda: self._display.say(line))

    def _guard(self, call: Callable[[], None]) -> None:
        """A closed pipe or a lost terminal ends the output, not the run."""
        try:
            call()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                self._display.close()
            self._display = choose("quiet", None)
