"""Metrics on their way to files: averaged as tensors, read once a line, never in training's way."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.logging.csv import CsvFile
from rlpyt.means import Means

QUEUED_LINES = 64  # an hour of lines of a backend that hangs; later ones are dropped and counted
CLOSE_SECONDS = 5.0
NOW = "now/"  # before the tag of a count, in what is saved


class Sink(Protocol):
    """A backend. It is called from one thread of its own; what it raises is counted and said."""

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Take a line; a value may be infinite, never NaN."""
        ...

    def close(self) -> None:
        """Finish; no line follows."""
        ...


class Recorder:
    """The log of a run: progress.csv, and any other sinks.

    A tag's value in a line is the mean of what was recorded since the line before; that of a count
    is what it is then.

    Args:
        run_dir: where progress.csv lies.
        sinks: other backends; neither an exception nor a wait of theirs reaches training.
        env_steps: where the run stands; rows beyond are cut (see `CsvFile`).
        tell: takes a sentence for the user.
    """

    def __init__(
        self,
        run_dir: Path,
        sinks: Sequence[Sink] = (),
        *,
        env_steps: int = 0,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._csv = CsvFile(run_dir / "progress.csv", env_steps)
        self._sinks = [Background(sink) for sink in sinks]
        self._tell = tell
        self._told: set[str] = set()
        self._sums: dict[str, tuple[int, float | Tensor]] = {}
        self._vectors: dict[tuple[str, ...], tuple[int, Tensor]] = {}  # of several tags each
        self._counts: Callable[[], Mapping[str, float]] | None = None  # as they are now

    def record(self, tag: str, value: float | Tensor) -> None:
        """Add a number or a tensor of one element, which is not read (no synchronisation) yet.

        A number that is NaN is a statistic that does not exist now: it is left out.
        """
        count, total = self._sums.get(tag, (0, 0.0))
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise ValueError(f"{tag} has shape {tuple(value.shape)}; record one number a tag")
            value = value.detach().reshape(()).to(_precision(value))
        elif math.isnan(value):
            return
        self._sums[tag] = (count + 1, total + value)

    def record_all(self, values: Mapping[str, float | Tensor]) -> None:
        """Add a value to each of several tags; counts are those of when the line is written."""
        if isinstance(values, Means):
            self._counts = values.counts
            if values.vector is not None:
                count, total = self._vectors.get(values.tags, (0, 0.0))
                vector = values.vector.detach().to(_precision(values.vector))
                self._vectors[values.tags] = (count + 1, total + vector)
            return
        for tag, value in values.items():
            self.record(tag, value)

    def write(self, env_steps: int) -> dict[str, float]:
        """Write a line of what was recorded since the one before, and return it.

        Lines have increasing env_steps; one at the last line's is merged into it.
        """
        if env_steps < self._csv.env_steps:
            raise ValueError(f"a line at {env_steps} env steps after one at {self._csv.env_steps}")
        means = {tag: total / count for tag, (count, total) in self._read().items()}
        if self._counts is not None:
            means |= self._counts()
        line = {tag: x for tag, x in means.items() if not math.isnan(x)}
        self._sums, self._vectors, self._counts = {}, {}, None
        try:
            self._csv.write(env_steps, line)
        except OSError as error:
            self._say_once("progress.csv", f"{error}; training goes on, rows are kept")
        for sink in self._sinks:
            sink.write(env_steps, line)
            if sink.failed:
                self._say_once(sink.name, f"{sink.reason}; training goes on")
        return line

    def sync(self) -> None:
        """Bring progress.csv to the disk, before a checkpoint that counts on its rows."""
        try:
            self._csv.sync()
        except OSError as error:
            self._say_once("progress.csv", f"{error}; training goes on, rows are kept")

    def close(self) -> None:
        for sink in self._sinks:
            sink.close(CLOSE_SECONDS)
            if sink.failed:
                self._tell(f"{sink.name}: {sink.failed} lines are missing ({sink.reason})")
        if self._csv.unwritten:
            self._tell(f"progress.csv: {len(self._csv.unwritten)} rows could not be written")
        self._csv.close()

    def state(self) -> dict[str, np.ndarray]:
        """What was recorded since the last line, [count, sum] of each tag, and counts of now."""
        saved = {tag: np.array(sums, np.float64) for tag, sums in self._read().items()}
        counts = {} if self._counts is None else self._counts()
        return saved | {NOW + tag: np.array(x, np.float64) for tag, x in counts.items()}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state()`."""
        counts = {k.removeprefix(NOW): float(x) for k, x in state.items() if k.startswith(NOW)}
        sums = {tag: x for tag, x in state.items() if not tag.startswith(NOW)}
        self._sums = {tag: (int(count), float(total)) for tag, (count, total) in sums.items()}
        self._vectors, self._counts = {}, (lambda: counts) if counts else None

    def _read(self) -> dict[str, tuple[int, float]]:
        """The sums as numbers: one transfer for each device."""
        for tags, (count, vector) in self._vectors.items():
            for tag, total in zip(tags, vector.unbind(), strict=True):
                before, sum_before = self._sums.get(tag, (0, 0.0))
                self._sums[tag] = (before + count, sum_before + total)
        self._vectors = {}
        tensors = {tag: x for tag, (_, x) in self._sums.items() if isinstance(x, Tensor)}
        numbers: dict[str, float] = {}
        for device in {x.device for x in tensors.values()}:
            here = {tag: x for tag, x in tensors.items() if x.device == device}
            numbers |= zip(here, torch.stack(list(here.values())).tolist(), strict=True)
        return {tag: (n, numbers.get(tag, x)) for tag, (n, x) in self._sums.items()}  # type: ignore[misc]

    def _say_once(self, name: str, what: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self._tell(f"{name}: {what}")


@final
class Silent(Recorder):
    """Takes everything and keeps nothing: of a rank that does not write."""

    def __init__(self) -> None:
        pass

    def record(self, tag: str, value: float | Tensor) -> None:
        pass

    def record_all(self, values: Mapping[str, float | Tensor]) -> None:
        pass

    def write(self, env_steps: int) -> dict[str, float]:
        return {}

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        pass


class Background:
    """A sink behind a bounded queue and a thread: it can raise or hang without anyone waiting."""

    def __init__(self, sink: Sink) -> None:
        self.name = type(sink).__name__
        self.failed = 0  # lines that were refused, or dropped because the queue was full
        self.reason = ""
        self._sink = sink
        self._queue: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(QUEUED_LINES)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def write(self, env_steps: int, values: dict[str, float]) -> None:
        """Hand over a line without waiting."""
        try:
            self._queue.put_nowait((env_steps, values))
        except queue.Full:
            self._fail("does not keep up")

    def close(self, timeout_seconds: float) -> None:
        """Give the sink some time for what is queued."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=timeout_seconds)
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            self._fail("does not answer", self._queue.qsize())

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            try:
                self._sink.write(*line)
            except Exception as error:
                self._fail(f"{type(error).__name__}: {error}")
        try:
            self._sink.close()
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}", 0)

    def _fail(self, reason: str, lines: int = 1) -> None:
        self.failed += lines
        self.reason = self.reason or reason


def _precision(value: Tensor) -> torch.dtype:
    """Double, so that a long mean does not depend on its order; Apple's GPUs have single only."""
    return torch.float32 if value.device.type == "mps" else torch.float64
