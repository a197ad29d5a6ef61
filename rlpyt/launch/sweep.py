"""A sweep from its jobs to its end: the folder, the plan, the queue, and what is said of them."""

from __future__ import annotations

import dataclasses
import errno
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.launch import hold, journal, reports
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Journal, Record
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.outcome import Sweep, failures, farewell, swept
from rlpyt.launch.place import Place, ThisMachine
from rlpyt.launch.progress import EVALUATION, Log
from rlpyt.launch.queue import Queue
from rlpyt.launch.source import Source
from rlpyt.launch.table import Row, Screen, as_text, fit, summary
from rlpyt.logging.displays import Mode, choose
from rlpyt.logging.text import wrap


def run_sweep(
    folder: Path,
    jobs: Sequence[Job],
    options: QueueOptions,
    *,
    mode: Mode = "auto",
    cwd: Path | None = None,
    place: Place | None = None,
    again: bool = False,
    source: Source | None = None,
    total: int | None = None,
    column: str = EVALUATION,
    example: Job | None = None,
) -> Sweep:
    """Run jobs in a folder, and go on with what an earlier queue left there.

    Args:
        folder: the sweep's.
        jobs: all that are known.
        options: of the queue.
        mode: "quiet" shows nothing, "plain" never redraws.
        cwd: where the runs run; None is here.
        place: of the runs; None is this machine.
        again: try again what failed, however often it did.
        source: brings more jobs, and watches all of them.
        total: how many runs there will be; None: as many as there are jobs.
        column: of progress.csv, which the source watches.
        example: what the source's jobs are like.
    """
    make(folder)
    with ExitStack() as stack:
        stack.enter_context(hold.held(folder))
        records = journal.records(journal.read(folder)) if (folder / journal.FILE).exists() else {}
        refuse_other_commands(records, jobs, folder)
        book = Journal(folder)
        stack.callback(book.close)
        screen = Screen(choose(mode, None), total or len(jobs))
        stack.callback(screen.close)
        count = total or len(jobs)
        screen.say(f"sweep · {count} run{'s' if count > 1 else ''} · {folder}")
        if before := _before(records):
            screen.say(before)
        if again:
            forgive(records, book)
        known = [records.get(job.name, Record(job)) for job in jobs]
        lacking = [job for job, r in zip(jobs, known, strict=True) if r.lacks(options.retries)]
        lacking += [example] if example else []
        if not lacking:
            return _ended(Sweep(folder, "finished", swept(records, folder)), screen)
        place = place or ThisMachine(options, cwd or Path.cwd())
        opened = place.open(lacking)
        stack.callback(opened.runs.close)
        screen.say(opened.text)
        slots = [str(x) for x in opened.slots] if place.backend == "local" else [place.backend]
        open_queue(book, slots, options, cwd or Path.cwd(), place.backend, place.settings)
        queue = Queue(
            folder,
            book,
            records,
            opened.slots,
            place.again,
            screen,
            options.retries,
            source,
            column,
        )
        status = queue.run(jobs, opened.runs)
        lasted = max(queue.seconds * len(opened.slots), 1e-9)
        busy = min(1.0, queue.busy_seconds / lasted)  # a cluster may have had more slots before
        found = swept(records, folder)
        sweep = Sweep(folder, status, found, queue.seconds, busy)
        return _ended(sweep, screen, search=source is not None)


def look_at(folder: Path, width: int | None = None) -> tuple[Sweep, list[str]]:
    """What became of a sweep so far, and the lines that show it.

    Args:
        width: of the terminal that they are to fit; None cuts none.
    """
    records = journal.records(journal.read(folder))
    reports.take_up(folder, records)
    holder = hold.holder(folder)
    works = holder is not None and holder.alive
    for record in records.values():
        if record.state == "running" and not works:
            record.state = "cut"
        elif record.cluster_job and (folder / record.job.name / "run.json").exists():
            record.state = "running"  # or preempted, and in Slurm's queue again
    logs = {name: Log(folder / name).read() for name in records}
    rows = [Row(record, logs[name]) for name, record in records.items()]
    status = "running" if works else "stopped"
    if records and all(record.state in ("finished", "pruned") for record in records.values()):
        status = "finished"
    head = f"{folder} · {summary(rows)}"
    if holder is not None and (works or not holder.here):
        head += f" · its queue {'is' if works else 'was'} {holder}"
    sweep = Sweep(folder, status, swept(records, folder))
    below = [] if works else failures(sweep)
    if not records and not works:
        below = ["no run was begun here: give the command again that made this folder"]
    elif status == "stopped" and not below and not any(x.cluster_job for x in records.values()):
        below = [f"goes on with: rlpyt sweep retry {folder}"]
    if width is None:
        return sweep, [f" {head}", *as_text(rows, 120), *below]
    shown = [*wrap(head, width), *(fit(line, width) for line in as_text(rows, width))]
    return sweep, [*shown, *(line for text in below for line in wrap(text, width))]


def go_on(folder: Path, options: QueueOptions, *, mode: Mode = "auto") -> Sweep:
    """Go on with the sweep of a folder, and try again what failed."""
    events = journal.read(folder)
    last = _last_queue(events)
    cwd = Path(last.get("cwd", Path.cwd()))
    if not cwd.is_dir():
        cwd = Path.cwd()
    if cwd.resolve() != Path.cwd():
        folder = folder.resolve()  # the runs are given it where they run
    jobs = [record.job for record in journal.records(events).values()]
    if not jobs:
        raise UsageError(
            f"{folder} has no runs to go on with; give the command again that made this folder"
        )
    if last.get("backend") == "slurm":
        from rlpyt.launch.slurm import submit

        return submit(folder, jobs, options, last["settings"], again=True)
    place = place_of(folder, options, last.get("backend", "local"), last.get("settings", {}), cwd)
    return run_sweep(folder, jobs, options, mode=mode, cwd=cwd, place=place, again=True)


def place_of(
    folder: Path,
    options: QueueOptions,
    backend: str,
    settings: Mapping[str, str],
    cwd: Path | None = None,
) -> Place:
    """Where the runs of a sweep have their place, by its name."""
    cwd = cwd or Path.cwd()
    if backend == "local":
        return ThisMachine(options, cwd)
    try:
        from rlpyt.launch.ray import RayCluster
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError(
            "backend=ray needs Ray, which is not installed: pip install 'rlpyt[ray]'"
        ) from None
    return RayCluster(options, settings["address"], folder, cwd)


def options_of(folder: Path) -> QueueOptions:
    """How the queue of a sweep was run last."""
    known = {field.name for field in dataclasses.fields(QueueOptions)}
    kept = _last_queue(journal.read(folder)).get("options", {})
    return QueueOptions(**{name: value for name, value in kept.items() if name in known})


def _last_queue(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((event for event in reversed(events) if event["event"] == "queue"), {})


def make(folder: Path) -> None:
    """Make a sweep's folder, if it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {path.name for path in folder.iterdir()}
    except OSError as error:
        other = "a shorter --name" if error.errno == errno.ENAMETOOLONG else "another --runs"
        raise UsageError(f"{folder} cannot be made ({error.strerror}); choose {other}") from None
    if journal.FILE not in found and found - {hold.LOCK}:
        raise UsageError(
            f"{folder} is there and is no sweep's (it has no {journal.FILE}); choose another "
            "--name or --runs"
        )


def refuse_other_commands(records: dict[str, Record], jobs: Sequence[Job], folder: Path) -> None:
    """Refuse jobs whose names stand for other commands in this folder."""
    for job in jobs:
        known = records.get(job.name)
        if known is not None and known.job.options != job.options:
            raise UsageError(
                f"{folder} holds {job.name} by another command ({shlex.join(known.job.options)}; "
                f"now {shlex.join(job.options)}); choose another --name"
            )


def forgive(records: dict[str, Record], book: Journal) -> None:
    """Have what failed tried again, however often it was."""
    failed = [record for record in records.values() if record.state in ("failed", "cut")]
    book.write_all([{"event": "retry", "run": record.job.name} for record in failed])
    for record in failed:
        record.retry()


def _before(records: dict[str, Record]) -> str:
    """What an earlier queue left, in a line."""
    counts = {
        "finished": sum(record.state == "finished" for record in records.values()),
        "to go on with": sum(record.state in ("cut", "running") for record in records.values()),
        "failed": sum(record.state == "failed" for record in records.values()),
    }
    found = [f"{n} {what}" for what, n in counts.items() if n]
    return f"before   {', '.join(found)}" if found else ""


def open_queue(
    book: Journal,
    slots: Sequence[str],
    options: QueueOptions,
    cwd: Path,
    backend: str = "local",
    settings: Mapping[str, str] | None = None,
) -> None:
    """Have the journal say who runs the sweep now, and how.

    Args:
        settings: of the cluster.
    """
    book.write(
        "queue",
        format=journal.FORMAT,
        pid=os.getpid(),
        identity=journal.identity(os.getpid()),
        command=sys.argv,
        cwd=str(cwd),
        slots=list(slots),
        options=dataclasses.asdict(options),
        backend=backend,
        settings=dict(settings or {}),
    )


def _ended(sweep: Sweep, screen: Screen, search: bool = False) -> Sweep:
    for line in farewell(sweep, search):
        screen.say(line)
    return sweep
