"""progress.csv, the source of truth of every curve: one row a line of the log, x = env steps.

The file is rectangular at every moment: a tag that appears later rewrites it under its wider
header, beside the old file and then in its place. A cell without a value is empty.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path

X = "env_steps"


def read(path: Path) -> dict[str, list[float]]:
    """The columns of a progress.csv, NaN where a cell is empty; `env_steps` first.

    A last line that its process could not finish is left out, so a live run can be read.
    """
    columns, lines = _read_lines(path)
    cells = [next(csv.reader([line])) for line in lines]
    return {
        tag: [float(row[i]) if row[i] else math.nan for row in cells]
        for i, tag in enumerate(columns)
    }


def read_lines(path: Path) -> list[tuple[int, dict[str, float]]]:
    """The same by rows, (env_steps, values) without empty cells: what a `Sink` was given."""
    columns, lines = _read_lines(path)
    return [(_x(line), _cells(columns, line)) for line in lines]


class CsvFile:
    """Rows of a progress.csv, each written and flushed when it is given.

    A row that could not be written (a full disk) is kept and tried again with the next one.

    Args:
        path: the file; made if it is not there.
        env_steps: where the run stands: what the file holds beyond it belongs to a lost future
            and is cut.
    """

    def __init__(self, path: Path, env_steps: int = 0) -> None:
        self._path = path
        self._file: io.FileIO = None  # type: ignore[assignment]  # opened by _replace
        self.unwritten: list[tuple[int, dict[str, float]]] = []
        self._columns, lines = _read_lines(path) if path.exists() else ([X], [])
        lines = [line for line in lines if _x(line) <= env_steps]
        self.env_steps = _x(lines[-1]) if lines else -1  # of the last row
        self._last = _cells(self._columns, lines[-1]) if lines else {}
        self._replace(self._columns, lines)

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Append a row; one at the last row's env_steps is merged into it.

        Raises:
            OSError: the row is not in the file and will be tried again.
        """
        self.unwritten.append((env_steps, dict(values)))
        while self.unwritten:
            self._write(*self.unwritten[0])
            del self.unwritten[0]

    def sync(self) -> None:
        """Return when the rows are on the disk: for a checkpoint that must not outlive them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _write(self, env_steps: int, values: dict[str, float]) -> None:
        begin = self._end
        if env_steps == self.env_steps:
            begin, values = self._begin, self._last | values
        elif env_steps < self.env_steps:
            raise ValueError(f"{X}={env_steps} is before the last row's {self.env_steps}")
        new = [tag for tag in values if tag not in self._columns]
        if new:
            self._widen(new)
            begin = self._begin if env_steps == self.env_steps else self._end
        cells = [str(env_steps), *(_cell(values.get(tag)) for tag in self._columns[1:])]
        line = (",".join(cells) + "\n").encode()
        self._file.seek(begin)
        self._file.truncate()  # also of what a write that failed half-way left
        if self._file.write(line) != len(line):
            raise OSError(f"{self._path.name}: the disk is full")
        self._begin, self._end = begin, begin + len(line)
        self.env_steps, self._last = env_steps, values

    def _widen(self, new: list[str]) -> None:
        self._file.seek(0)
        lines = self._file.read(self._end).decode().splitlines()[1:]
        self._replace([*self._columns, *new], [line + "," * len(new) for line in lines])

    def _replace(self, columns: list[str], lines: list[str]) -> None:
        """Put a whole new file in the place of the old one; either is there at any moment."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(columns)
        text.writelines(line + "\n" for line in lines)
        content = text.getvalue().encode()
        part = self._path.with_name(f".{self._path.name}.part")
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self._file is not None:
            self._file.close()  # Windows replaces no open file
        try:
            os.replace(part, self._path)
        finally:
            # Unbuffered: nothing of a write that failed can come out later.
            self._file = self._path.open("r+b", buffering=0)
        self._columns = columns
        self._end = len(content)
        self._begin = self._end - (len(lines[-1].encode()) + 1 if lines else 0)


def _read_lines(path: Path) -> tuple[list[str], list[str]]:
    """Header and whole lines with increasing env_steps; a broken line (power loss) is left out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    head, *lines = text.split("\n")[:-1] or [X]
    columns = next(csv.reader([head]), [])
    if columns[:1] != [X]:
        return [X], []
    whole: list[str] = []
    for line in lines:
        complete = line.count(",") == len(columns) - 1 and line.partition(",")[0].isdecimal()
        if complete and (not whole or _x(line) > _x(whole[-1])):
            whole.append(line)
    return columns, whole


def _x(line: str) -> int:
    return int(line.partition(",")[0])


def _cells(columns: list[str], line: str) -> dict[str, float]:
    cells = line.split(",")
    return {tag: float(x) for tag, x in zip(columns[1:], cells[1:], strict=True) if x}


def _cell(value: float | None) -> str:
    """Nine digits tell float32 numbers apart; counters are written in full."""
    if value is None or math.isnan(value):
        return ""
    if value == (whole := int(value) if math.isfinite(value) else 0) and abs(whole) < 2**53:
        return str(whole)
    return f"{value:.9g}"
