"""What runs on other machines say of their end: a file each, which only the queue's side reads.

Several machines cannot add to one file of a network disk without tearing its lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlpyt.launch.journal import Journal, Record

FOLDER = "ends"


def write(folder: Path, name: str, job: str, event: dict[str, Any]) -> None:
    """Leave an end for the queue to find.

    Args:
        folder: the sweep's.
        name: of the run.
        job: the cluster's number of the job that ran it.
        event: as the journal has it: state, code, seconds, tail.
    """
    ends = folder / FOLDER
    ends.mkdir(exist_ok=True)
    part = ends / f".{name}.part"
    with open(part, "w") as file:
        json.dump({"run": name, "job": job, **event}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, ends / f"{name}.json")


def take_up(folder: Path, records: dict[str, Record], book: Journal | None = None) -> None:
    """Have the records, and the journal, know the ends that they do not know yet."""
    for event in _read(folder):
        record = records.get(event["run"])
        if record is not None and record.cluster_job == event["job"]:
            record.end(event)
            if book is not None:
                book.write("end", **{k: x for k, x in event.items() if k != "job"})


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            yield json.loads(path.read_text())
        except (OSError, ValueError):
            continue
