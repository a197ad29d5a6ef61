"""Sweeps on a Slurm cluster: an array of jobs, which save when they are preempted and go on.

The command submits and returns. Called again it submits what is lacking: what has finished, waits
in Slurm or runs there is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.job_environment import JobEnvironment

from rlpyt.errors import UsageError
from rlpyt.launch import hold, journal, reports
from rlpyt.launch.children import Children
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Journal, Record
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.outcome import Sweep, swept
from rlpyt.launch.place import look
from rlpyt.launch.progress import Output, need, was_stopped
from rlpyt.launch.queue import LOGS
from rlpyt.launch.starter import module
from rlpyt.launch.sweep import forgive, make, open_queue, refuse_other_commands
from rlpyt.launch.verdict import judge

FILES = "slurm"  # submitit's, in the sweep's folder
REQUEUES = 1000  # of one job; each goes on where the one before saved
SAVE_SECONDS = 60.0  # for a run to save in; Slurm gives signal_delay_s, which is 90
_ASK_SECONDS = 60.0


@dataclass
class ClusterRun:
    """A run as a job of a cluster: it begins, or goes on from its newest checkpoint.

    Slurm's SIGTERM has the run save and end with 75, and submitit's signal has this job do so; in
    either case it is put back into Slurm's queue, from where it goes on.
    """

    folder: str  # the sweep's
    job: Job
    command: tuple[str, ...]  # what runs rlpyt
    cwd: str

    def __call__(self) -> int:
        """Run; returns the exit code."""
        folder, begun = Path(self.folder), time.monotonic()
        name, environment = self.job.name, JobEnvironment()
        run_folder = folder / name
        match need(run_folder):
            case "nothing":
                argv = []
            case "wait":
                raise RuntimeError(f"{run_folder} is being trained by another process")
            case "resume":
                argv = ["resume", str(run_folder)]
            case _:
                argv = self.job.train(folder)
        (folder / LOGS).mkdir(exist_ok=True)
        output = Output(folder / LOGS / f"{name}.log")
        code = self._run(argv, output.path) if argv else 0
        if code == 1 and was_stopped(run_folder, time.monotonic() - begun):
            code = 75
        if code == 75:  # it was told to stop, and saved
            signal.raise_signal(environment._usr_sig())
        state = judge(run_folder, code, time.monotonic() - begun)
        event: dict[str, Any] = {"state": state, "code": code}
        event |= {"seconds": round(time.monotonic() - begun, 3)}
        event |= {"tail": output.tail(code)} if state == "failed" else {}
        reports.write(folder, name, environment.job_id, event)
        return code

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Have the run save and end; what goes on with it."""
        deadline = time.monotonic() + SAVE_SECONDS
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGTERM)
            # Not Popen's own: the call that this signal interrupted may be inside of it.
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while os.waitid(os.P_PID, self._pid, flags) is None and time.monotonic() < deadline:
                time.sleep(0.05)
        return submitit.helpers.DelayedSubmission(
            ClusterRun(self.folder, self.job, self.command, self.cwd)
        )

    def _run(self, argv: Sequence[str], log: Path) -> int:
        with log.open("ab") as file:
            process = subprocess.Popen(
                [*self.command, *argv], cwd=self.cwd, stdout=file, stderr=file, stdin=-3
            )
        self._pid = process.pid
        while process.poll() is None:
            time.sleep(0.05)
        return process.returncode


def submit(
    folder: Path,
    jobs: Sequence[Job],
    options: QueueOptions,
    settings: Mapping[str, str],
    *,
    again: bool = False,
    executor: Any = None,
) -> Sweep:
    """Submit the jobs that are lacking.

    Args:
        folder: the sweep's, on a disk that all machines see.
        jobs: all of the sweep.
        options: of slots the number of runs at once is taken, and their cores and GPUs.
        settings: of sbatch, as submitit names them; `time` in minutes is needed.
        again: try again what failed, however often it did.
        executor: submitit's; None makes one for Slurm.
    """
    make(folder)
    with ExitStack() as stack:
        stack.enter_context(hold.held(folder))
        records = journal.records(journal.read(folder)) if (folder / journal.FILE).exists() else {}
        refuse_other_commands(records, jobs, folder)
        executor = executor or _executor(folder, options, settings)
        book = Journal(folder)
        stack.callback(book.close)
        reports.take_up(folder, records, book)
        if again:
            forgive(records, book)
        alive = _alive() if any(record.cluster_job for record in records.values()) else set()
        lacking = [
            job for job in jobs if _lacks(records.get(job.name), job, folder, options, alive)
        ]
        left = sum(record.cluster_job in alive for record in records.values())
        print(f" sweep · {len(jobs)} runs · {folder}")
        if left:
            print(f" {left} wait or run in Slurm already")
        if lacking:
            children = stack.enter_context(Children(options.python, Path.cwd(), 1, preload=False))
            children.ready()
            look(children, lacking)
            open_queue(book, ["slurm"], options, Path.cwd(), "slurm", settings)
            new = [job for job in lacking if job.name not in records]
            book.write_all([journal.job_event(job) for job in new])
            records.update({job.name: Record(job) for job in new})
            _submit(executor, lacking, folder, options, records, book)
    return Sweep(folder, "submitted", swept(records, folder))


def _submit(
    executor: Any,
    jobs: Sequence[Job],
    folder: Path,
    options: QueueOptions,
    records: dict[str, Record],
    book: Journal,
) -> None:
    command = (options.python or sys.executable, *module(options.ranks))
    where, here = str(folder.resolve()), os.getcwd()
    made = [ClusterRun(where, replace(job, run=None), command, here) for job in jobs]
    with executor.batch():
        submitted = [executor.submit(run) for run in made]
    events = []
    for job, there in zip(jobs, submitted, strict=True):
        records[job.name].state, records[job.name].cluster_job = "queued", there.job_id
        events.append({"event": "submitted", "run": job.name, "job": there.job_id})
    book.write_all(events)
    first = submitted[0].job_id.partition("_")[0]
    print(f" submitted {len(jobs)} runs as job {first}; look with: rlpyt sweep status {folder}")


def _lacks(
    record: Record | None, job: Job, folder: Path, options: QueueOptions, alive: set[str]
) -> bool:
    if record is None:
        return True
    if record.cluster_job in alive or need(folder / job.name) in ("nothing", "wait"):
        return False
    return record.lacks(options.retries)


def _executor(folder: Path, options: QueueOptions, settings: Mapping[str, str]) -> Any:
    if shutil.which("sbatch") is None:
        raise UsageError("backend=slurm: there is no sbatch here; submit from a node that has it")
    if "time" not in settings and "timeout_min" not in settings:
        raise UsageError(
            "backend=slurm: how many minutes may a run take before Slurm ends it? Give --slurm "
            "time=240; one that takes longer saves, and is put back into the queue"
        )
    python = options.python
    executor = submitit.SlurmExecutor(folder / FILES / "%j", REQUEUES, python=python)
    chosen: dict[str, Any] = {
        "job_name": "rlpyt",
        "cpus_per_task": options.cpus_per_run or options.ranks,
    }
    if options.gpus_per_run:
        chosen["gpus_per_node"] = options.gpus_per_run
    if options.slots:
        chosen["array_parallelism"] = options.slots
    chosen |= {key: int(x) if x.isdecimal() else x for key, x in settings.items()}
    try:
        executor.update_parameters(**chosen)
    except (ValueError, TypeError) as error:
        raise UsageError(f"--slurm {' '.join(settings)}: {error}") from None
    return executor


def _alive() -> set[str]:
    """Jobs of this user that wait or run in Slurm, each of an array by itself."""
    command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_ASK_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"squeue does not say which jobs are alive ({error}), and none is to be doubled; try "
            "again"
        ) from None
    return set(done.stdout.split())
