"""Where the time of a run goes: samples of the stack, on a timer that follows processor time.

A tracing profiler would slow small Python functions far more than large tensor operations. A
sample every few milliseconds costs nothing noticeable and charges an operation of torch or NumPy
to the line that called it.
"""

from __future__ import annotations

import collections
import linecache
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Self

from rlpyt.errors import UsageError

INTERVAL_SECONDS = 0.005
LINES = 10
# (end of the file's path, function) -> the part of a run; the outermost that is found counts.
_PARTS = {
    ("rlpyt/evaluation.py", "evaluate"): "evaluation",
    ("rlpyt/checkpoint.py", "save"): "checkpoints",
    ("rlpyt/runner.py", "save"): "checkpoints",
    ("rlpyt/runner.py", "_log"): "logging",
    ("rlpyt/agents/policy_gradient.py", "act"): "act",
    ("rlpyt/algos/ppo.py", "update"): "learn",
    ("rlpyt/algos/a2c.py", "update"): "learn",
    ("rlpyt/algos/impala.py", "update"): "learn",
    ("rlpyt/algos/appo.py", "update"): "learn",
    ("rlpyt/build.py", "build"): "start",
}
_OURS = str(Path(__file__).parents[1])


class Profiler:
    """Samples the main thread while entered."""

    def __init__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("--profile works in the main thread alone")
        self._parts: collections.Counter[str] = collections.Counter()
        self._lines: collections.Counter[tuple[str, int]] = collections.Counter()
        self._seconds = 0.0
        self._begun = 0.0
        self._previous: Any = None

    def __enter__(self) -> Self:
        self._begun = time.perf_counter()
        self._previous = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._previous)
        self._seconds += time.perf_counter() - self._begun

    def shares(self) -> dict[str, float]:
        """Share of the samples by part of the run, largest first."""
        total = max(1, self._parts.total())
        return {part: round(n / total, 3) for part, n in self._parts.most_common()}

    def report(self, env_steps: int) -> str:
        """A few lines for a person: the parts, then the lines of code that took most."""
        total = max(1, self._parts.total())
        parts = " · ".join(f"{part} {share:.0%}" for part, share in self.shares().items())
        speed = env_steps / max(self._seconds, 1e-9)
        rows = [f"profile  {self._seconds:.1f} s, {speed:,.0f} steps/s over all of it: {parts}"]
        for (file, line), n in self._lines.most_common(LINES):
            where = f"{_short(file)}:{line}"
            rows.append(f"  {n / total:5.1%}  {where:<34} {linecache.getline(file, line).strip()}")
        return "\n".join(rows)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        part, line = "other", None
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_OURS):
                # Instructions that the compiler added have no line.
                line = line or (file, frame.f_lineno or frame.f_code.co_firstlineno)
                name = file[len(_OURS) - 5 :]  # rlpyt/...
                found = "env" if name.startswith("rlpyt/vector/") else None
                part = _PARTS.get((name, frame.f_code.co_name), found) or part
            frame = frame.f_back
        self._parts[part] += 1
        if line is not None:
            self._lines[line] += 1


def _short(file: str) -> str:
    return file.removeprefix(_OURS).lstrip("/")
