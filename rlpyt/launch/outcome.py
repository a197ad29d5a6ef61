"""What became of a sweep, as its caller and its reader get it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Record, State
from rlpyt.launch.progress import Log, Progress
from rlpyt.launch.queue import LOGS
from rlpyt.logging.text import format_duration

EXIT_CODES = {"interrupted": 130, "terminated": 75}
SHOWN_FAILURES, SHOWN_LINES = 5, 3


@dataclass(frozen=True)
class SweptRun:
    """What became of one run of a sweep."""

    name: str
    state: State
    code: int | None  # its last exit code
    folder: Path
    command: str
    env_steps: int
    train_return: float | None
    eval_return: float | None
    tail: tuple[str, ...]  # the last lines that it wrote, where it failed


@dataclass(frozen=True)
class Sweep:
    """What became of a sweep."""

    folder: Path
    status: str  # "finished", "interrupted" (Ctrl-C), "terminated" (SIGTERM)
    runs: list[SweptRun]
    seconds: float = 0.0
    utilization: float = 0.0  # of the slots' time, what a run was in one

    @property
    def failed(self) -> list[SweptRun]:
        """The runs that are not done."""
        return [run for run in self.runs if run.state not in ("finished", "pruned")]

    @property
    def code(self) -> int:
        """The exit code of the command."""
        if self.status == "submitted":
            return 0
        return EXIT_CODES.get(self.status, 1 if self.failed else 0)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        runs = [dataclasses.asdict(run) | {"folder": str(run.folder)} for run in self.runs]
        done = len(self.runs) - len(self.failed)
        return {
            "folder": str(self.folder),
            "status": self.status,
            "finished": done,
            "failed": sum(run.state == "failed" for run in self.runs),
            "seconds": round(self.seconds, 3),
            "utilization": round(self.utilization, 4),
            "runs": runs,
        }


def planned(folder: Path, jobs: Sequence[Job]) -> Sweep:
    """A sweep of which nothing was run."""
    return Sweep(folder, "planned", [_swept(Record(job), Progress(), folder) for job in jobs])


def swept(records: dict[str, Record], folder: Path) -> list[SweptRun]:
    """What became of all jobs."""
    return [_swept(x, Log(folder / name).read(), folder) for name, x in records.items()]


def _swept(record: Record, progress: Progress, folder: Path) -> SweptRun:
    return SweptRun(
        record.job.name,
        record.state,
        record.code,
        folder / record.job.name,
        record.job.command(folder),
        progress.env_steps,
        progress.train_return,
        progress.eval_return,
        record.tail,
    )


def farewell(sweep: Sweep, search: bool = False) -> list[str]:
    """What is said at the end.

    Args:
        search: whether the command that made its runs draws more of them.
    """
    done, all_ = len(sweep.runs) - len(sweep.failed), len(sweep.runs)
    took = f"{done} of {all_} runs · {format_duration(sweep.seconds)}"
    took += f" · slots {100 * sweep.utilization:.0f} % taken" if sweep.seconds else ""
    what = sweep.status if sweep.status in EXIT_CODES else "finished"
    lines = [f"{what} {took}", *failures(sweep)]
    if sweep.status in EXIT_CODES:
        retry = f"rlpyt sweep retry {sweep.folder}"
        also = f"{retry} ends what has begun, and draws no more" if search else f"so does: {retry}"
        lines.append(f"the same command goes on; {also}")
    elif not sweep.failed:
        lines.append(f"rlpyt plot {sweep.folder}")
    return lines


def failures(sweep: Sweep) -> list[str]:
    """What is said of the runs that failed."""
    failed = [run for run in sweep.runs if run.state == "failed"]
    lines: list[str] = []
    for run in failed[:SHOWN_FAILURES]:
        lines.append(
            f"failed   {run.name}: exit code {run.code}, {sweep.folder / LOGS / run.name}.log"
        )
        lines += [f"         {line}" for line in run.tail[-SHOWN_LINES:]]
    if len(failed) > SHOWN_FAILURES:
        lines.append(f"         and {len(failed) - SHOWN_FAILURES} more")
    if failed:
        lines.append(f"again with: rlpyt sweep retry {sweep.folder}")
    return lines
