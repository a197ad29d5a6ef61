"""The journal of a sweep: what was asked for and what became of it, one line an event.

Lines are only ever added, each brought to the disk before anything is done that depends on it. A
queue that is killed leaves at most a last line that is torn; whoever reads leaves it out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from rlpyt.errors import UsageError, reason_of
from rlpyt.launch.jobs import Job

FILE = "journal.jsonl"
FORMAT = 1
State = Literal["queued", "running", "finished", "failed", "cut", "pruned"]
"""cut: stopped before its end, and to be gone on with; pruned: stopped because others do better."""


@dataclass
class Record:
    """What became of a job so far."""

    job: Job
    state: State = "queued"
    failures: int = 0  # since it was last asked to be tried again
    code: int | None = None  # of its last end
    tail: tuple[str, ...] = ()  # the last lines it wrote, where it failed
    seconds: float = 0.0  # in a slot, all attempts together
    pid: int | None = None
    identity: str = ""  # of the process (`identity`)
    slot: int | None = None
    cluster_job: str | None = None  # that it was submitted as, and has not ended

    def end(self, event: Mapping[str, Any]) -> None:
        """Take up the event of an end."""
        self.state, self.code = cast(State, event["state"]), event["code"]
        self.tail = tuple(event.get("tail", ()))
        self.seconds += event["seconds"]
        self.failures += self.state == "failed" or event.get("stranger", False)
        self.pid, self.identity, self.cluster_job = None, "", None

    def lacks(self, retries: int) -> bool:
        """Whether it is to be run: one that failed so often is not, nor one that cannot be."""
        if self.state == "failed":
            return self.code != 2 and self.failures <= retries
        return self.state in ("queued", "running", "cut")

    def retry(self) -> None:
        """Forget that it failed."""
        if self.state in ("failed", "cut"):
            self.state, self.failures = "cut", 0


class Journal:
    """Appends to a sweep's journal; whoever writes holds the sweep (`hold.held`)."""

    def __init__(self, folder: Path) -> None:
        self._path = path = folder / FILE
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # what is torn stays a line of its own
        _sync_folder(folder)

    def write(self, event: str, **fields: Any) -> None:
        """Add an event; it is on the disk when this returns."""
        self.write_all([{"event": event, **fields}])

    def write_all(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Add several at once: bringing a line to the disk takes some milliseconds."""
        now = round(time.time(), 3)
        text = "".join(json.dumps({"time": now, **event}) + "\n" for event in events)
        rest = memoryview(text.encode())
        while rest:
            rest = self._written(rest)
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def _written(self, rest: memoryview) -> memoryview:
        try:
            return rest[os.write(self._file, rest) :]
        except OSError as error:
            why = f"{reason_of(error)}; {self._path} not written: the sweep ends"
            raise OSError(error.errno, f"{why}, and the same command goes on later") from error


def read(folder: Path) -> list[dict[str, Any]]:
    """The events of a sweep's journal; lines that are torn are left out."""
    try:
        text = (folder / FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise UsageError(
            f"{folder} is no sweep: it has no {FILE}; give the folder that `rlpyt sweep` printed"
        ) from None
    except OSError as error:
        raise UsageError(f"{folder / FILE} cannot be read: {error}") from None
    events = list(_whole(text))
    formats = [e.get("format") for e in events if e["event"] == "queue"]
    newer = [x for x in formats if isinstance(x, int) and x > FORMAT]
    if newer:
        raise UsageError(
            f"{folder / FILE} has format {max(newer)}, this rlpyt reads up to {FORMAT}; install a "
            "newer rlpyt"
        )
    return events


def records(events: list[dict[str, Any]]) -> dict[str, Record]:
    """What became of each job, by name."""
    found: dict[str, Record] = {}
    for event in events:
        try:
            _take_up(event, found)
        except (KeyError, TypeError, AttributeError):
            raise UsageError(
                f"{FILE} has a line that no queue wrote: {json.dumps(event)[:200]}; take it out, "
                "or restore a copy of the file"
            ) from None
    return found


def job_event(job: Job) -> dict[str, Any]:
    """What a journal says of a job when it is taken up."""
    about = {"options": job.options, "env_steps": job.env_steps, "kind": job.kind}
    return {"event": "job", "run": job.name, **about}


def _take_up(event: Mapping[str, Any], found: dict[str, Record]) -> None:
    if event["event"] == "job":
        job = Job(event["run"], tuple(event["options"]), event["env_steps"], event["kind"])
        found.setdefault(job.name, Record(job))
    elif (record := found.get(event.get("run", ""))) is not None:
        _apply(event["event"], event, record)


def _apply(kind: str, event: Mapping[str, Any], record: Record) -> None:
    if kind == "start":
        record.state, record.slot = "running", event["slot"]
        record.pid, record.identity = event["pid"], event["identity"]
    elif kind == "submitted":
        record.state, record.cluster_job = "queued", event["job"]
    elif kind == "end":
        record.end(event)
    elif kind == "retry":
        record.retry()


def _whole(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            yield event


def identity(pid: int) -> str:
    """What tells a process from a later one with the same number; "" where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()  # the name before may hold anything
    return "" if fields[0] == "Z" else f"{_boot()}:{fields[19]}"


def is_alive(pid: int, was: str) -> bool:
    """Whether it is this very process that is still there."""
    if not was:  # a system without /proc
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True
    return identity(pid) == was


def _boot() -> str:
    """Where numbers of processes mean the same: containers of a machine have their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
