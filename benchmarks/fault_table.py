"""The fault matrix as it is kept: a line for each cell, and a table that people read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]  # row, sampler, number, failed, seconds; whatever else was found

HEAD = """# Faults

What becomes of a run when something fails, by fault and sampler. Each cell is a run of its own,
looked at from outside: it ended as it must (exit code, and a message that names process,
environments and cause) or went on, in time; it left no process and no name in /dev/shm; its newest
checkpoint is whole and no older than it may be; and `rlpyt resume` went on to the end.

Numbers are seconds from the fault to the end of the command (of a hang, its time-out of {timeout} s
included); "ok" is a run that went on and finished; "–" is no cell, or none that was run. Behind a
dot: another answer to failures than `raise`, another start method than `forkserver`. Kills at
random moments are counted.

`python benchmarks/faults.py` repeats it; `matrix.json` holds a line for each cell.

"""


def kept(file: Path) -> list[dict[str, Any]]:
    """The lines of a matrix; none where there is no file yet."""
    return json.loads(file.read_text())["cells"] if file.exists() else []


def merged(old: Iterable[Line], new: Iterable[Line]) -> list[Line]:
    """All lines; of a cell that was run again the newer one, in the older one's place."""
    lines = {_key(line): line for line in old}
    return list((lines | {_key(line): line for line in new}).values())


def write(folder: Path, lines: Sequence[Line], rows: Sequence[str], columns: Sequence[str],
          about: Mapping[str, Any]) -> None:  # fmt: skip
    """Write matrix.json and README.md.

    Args:
        rows, columns: names in their order; rows that are not named come last.
        about: the machine and versions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {"about": dict(about), "summary": summary(lines), "cells": list(lines)}
    (folder / "matrix.json").write_text(json.dumps(content, indent=1) + "\n")
    facts = ", ".join(f"{name} {value}" for name, value in about.items() if name != "step_timeout")
    text = HEAD.format(timeout=about["step_timeout"])
    busy = [line for line in lines if "patience" in line]
    if busy:
        facts += f". {len(busy)} of {len(lines)} cells were run beside other work, and their times"
        facts += f" allowed to be {max(line['patience'] for line in busy):g} times as long"
    text += f"{facts}.\n\n{table(lines, rows, columns)}\n\n{failures(lines)}"
    (folder / "README.md").write_text(text)


def summary(lines: Sequence[Line]) -> dict[str, Any]:
    """How many cells were run, and which failed."""
    failed = [line for line in lines if line["failed"]]
    return {
        "cells": len(lines),
        "failed": len(failed),
        "kills": sum(line["number"] > 0 for line in lines),
        "which": [_key(line) for line in failed],
    }


def table(lines: Sequence[Line], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Markdown: a row for each fault, a column for each sampler.

    Args:
        rows, columns: names in their order; rows that are not named come last.
    """
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((_label(line), line["sampler"]), []).append(line)
    labels = sorted({label for label, _ in found}, key=lambda label: (_place(label, rows), label))
    shown = [name for name in columns if any(column == name for _, column in found)]
    text = [["fault", *shown], ["---"] * (1 + len(shown))]
    text += [[label, *(_cell(found.get((label, name), [])) for name in shown)] for label in labels]
    return "\n".join(f"| {' | '.join(row)} |" for row in text)


def failures(lines: Sequence[Line]) -> str:
    """What failed, each in a line."""
    failed = [line for line in lines if line["failed"]]
    if not failed:
        return f"None of {len(lines)} failed.\n"
    text = [f"{len(failed)} of {len(lines)} failed:\n"]
    text += [f"- {_label(line)}, {line['sampler']}: {line['failed']}" for line in failed]
    return "\n".join(text) + "\n"


def _key(line: Line) -> str:
    return f"{line['row']} | {line['sampler']} | {line['number']}"


def _label(line: Line) -> str:
    return f"{line['row']}, at random moments" if line["number"] else line["row"]


def _place(label: str, rows: Sequence[str]) -> int:
    """Of the row that a label begins with; the longest, where several do."""
    named = [name for name in rows if label.startswith(name)]
    return rows.index(max(named, key=len)) if named else len(rows)


def _cell(lines: Sequence[Line]) -> str:
    """What a cell of the table says."""
    if not lines:
        return "–"
    failed = next((line["failed"] for line in lines if line["failed"]), "")
    good = sum(not line["failed"] for line in lines)
    if lines[0]["number"]:
        return f"{good} of {len(lines)}" + (f" **{_plain(failed)}**" if failed else "")
    if failed:
        return f"**{_plain(failed)}**"
    seconds = lines[-1]["seconds"]
    return "ok" if seconds is None else f"{seconds:.1f}"


def _plain(text: str) -> str:
    """One line, without what would end a cell."""
    return " ".join(text.split()).replace("|", "\\|")[:60]
