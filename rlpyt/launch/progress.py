"""How far a run is, and what is to be done with its folder, from what lies there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder
from rlpyt.logging import csv

TRAIN, EVALUATION = "rollout/return_mean", "eval/return_mean"
TAIL_LINES, LINE_LETTERS = 20, 500
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
Need = Literal["train", "resume", "nothing", "wait"]


@dataclass
class Progress:
    """What a run's log says."""

    env_steps: int = 0
    train_return: float | None = None
    eval_return: float | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)  # of the column that is watched


class Log:
    """Reads a run's progress.csv when it has changed.

    Args:
        folder: the run's; it need not be there yet.
        column: what `Progress.curve` follows.
    """

    def __init__(self, folder: Path, column: str = EVALUATION) -> None:
        self._path, self._column = folder / "progress.csv", column
        self._stamp: tuple[int, int] | None = None
        self._progress = Progress()

    def read(self) -> Progress:
        """The newest state; the one before where the file cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                self._progress = self._parse()
                self._stamp = stamp
        return self._progress

    def _parse(self) -> Progress:
        found = Progress()
        for env_steps, values in csv.read_lines(self._path):
            found.env_steps = env_steps
            found.train_return = values.get(TRAIN, found.train_return)
            found.eval_return = values.get(EVALUATION, found.eval_return)
            if self._column in values:
                found.curve.append((env_steps, values[self._column]))
        return found


class Output:
    """What a run prints, from an attempt's beginning on.

    Args:
        path: the file; it holds what earlier attempts printed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0

    def tail(self, code: int | None) -> list[str]:
        """The last lines of a run that failed, and what its exit code adds to them."""
        lines: list[str] = []
        with contextlib.suppress(OSError), open(self.path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._start, end - (1 << 14)))
            text = file.read().decode(errors="replace")
            lines = [x for line in text.splitlines() if (x := _readable(line)).strip()]
        if code == 0:
            lines.append("ended with exit code 0 before its end; does the environment exit?")
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"{-code}"
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            lines.append(f"killed by {name}{hint}")
        return lines[-TAIL_LINES:]


def reason(tail: Sequence[str]) -> str:
    """The one of a failed run's last lines that says most: not where an environment's error was."""
    places = ("in environment ", "while environment ")
    return next((line for line in reversed(tail) if not line.startswith(places)), "")


def _readable(line: str) -> str:
    """A line without what would move a terminal's cursor, and the middle of a very long one."""
    line = _CONTROL.sub("", line)
    half = LINE_LETTERS // 2
    return line if len(line) <= LINE_LETTERS else f"{line[:half]} … {line[-half:]}"


def need(folder: Path) -> Need:
    """What a run in this folder needs: to begin, to be gone on with, nothing, or to be waited for.

    A folder that its run did not come to write anything into is removed.
    """
    if not folder.exists():
        return "train"
    if not (folder / "run.json").exists():
        return "train" if _remove_empty(folder) else "wait"
    if is_held(folder):
        return "wait"
    return "nothing" if is_finished(folder) else "resume"


def is_finished(folder: Path) -> bool:
    """Whether its run came to its end: exit code 0 is also what `os._exit(0)` leaves."""
    return status(folder) == "finished"


def was_stopped(folder: Path, seconds: float) -> bool:
    """Whether a signal ended its run of several ranks, saved, in the last so many seconds.

    Of these torchrun's exit code, 1, says nothing.
    """
    try:
        record, since = RunFolder(folder).read(), time.time() - seconds
        told = record["status"] in ("interrupted", "terminated")
        several = (record["resolved"] or {}).get("ranks", 1) > 1
        return told and several and (folder / "run.json").stat().st_mtime >= since
    except (UsageError, OSError):
        return False


def status(folder: Path) -> str:
    """What run.json says of how a run ended; "" where it says nothing."""
    try:
        return str(RunFolder(folder).read()["status"])
    except UsageError:
        return ""


def is_held(folder: Path) -> bool:
    """Whether some process trains this run now."""
    try:
        file = os.open(folder / ".lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        pass
    finally:
        os.close(file)
    return False


def _remove_empty(folder: Path) -> bool:
    """Remove a folder that holds nothing but what a run was killed in writing."""
    try:
        inside = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be read as a run's folder ({error.strerror}); move it away"
        ) from None
    if inside - {".run.json.part"}:
        raise UsageError(
            f"{folder} holds files and no run.json, so that no run can be made there; move it away"
        )
    with contextlib.suppress(OSError):
        (folder / ".run.json.part").unlink(missing_ok=True)
        folder.rmdir()
    return not folder.exists()
