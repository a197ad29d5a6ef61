"""How the fault matrix is kept and shown (benchmarks/fault_table.py)."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import rlpyt

ROWS, COLUMNS = ["step loops", "step loops in C", "Ctrl-C"], ["serial", "workers", "native"]
ABOUT = {"cores": 2, "step_timeout": 2}


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(rlpyt.__file__).parents[1] / "benchmarks"))
    return importlib.import_module("fault_table")


def line(row: str, sampler: str, seconds: float | None = None, failed: str = "", number: int = 0):
    given = {"row": row, "sampler": sampler, "number": number}
    return given | {"seconds": seconds, "failed": failed}


def shown(text: str) -> list[list[str]]:
    rows = [x.strip("|").split("|") for x in text.splitlines() if x.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_a_cell_says_seconds_or_that_it_went_on_or_what_failed(matrix):
    lines = [
        line("step loops", "workers", 2.31),
        line("step loops · restart", "workers"),
        line("step loops", "serial", 9.0, "left 2 | processes\nhere"),
    ]
    head, _, *rows = shown(matrix.table(lines, ROWS, COLUMNS).replace("\\|", "/"))
    assert head == ["fault", "serial", "workers"]  # none was run under the third
    assert rows[0] == ["step loops", "**left 2 / processes here**", "2.3"]
    assert rows[1] == ["step loops · restart", "–", "ok"]


def test_rows_come_in_their_order_with_their_variants_behind_them(matrix):
    names = ["unknown", "Ctrl-C", "step loops in C · spawn", "step loops · fork", "step loops in C"]
    rows = shown(matrix.table([line(name, "serial") for name in names], ROWS, COLUMNS))[2:]
    assert [row[0] for row in rows] == [
        "step loops · fork",
        "step loops in C",
        "step loops in C · spawn",
        "Ctrl-C",
        "unknown",
    ]


def test_kills_are_counted_beside_the_cell_of_one(matrix):
    lines = [line("Ctrl-C", "workers", 0.5)]
    lines += [line("Ctrl-C", "workers", 0.1, "late" if i == 3 else "", i) for i in range(1, 6)]
    rows = shown(matrix.table(lines, ROWS, COLUMNS))[2:]
    assert rows == [["Ctrl-C", "0.5"], ["Ctrl-C, at random moments", "4 of 5 **late**"]]


def test_a_cell_that_is_run_again_takes_the_place_of_what_was_there(matrix, tmp_path):
    old = [line("Ctrl-C", "serial", 1.0, "late"), line("Ctrl-C", "workers", 2.0)]
    matrix.write(tmp_path, old, ROWS, COLUMNS, ABOUT)
    assert "1 of 2 failed" in (tmp_path / "README.md").read_text()
    new = [line("Ctrl-C", "serial", 0.5), line("Ctrl-C", "native", 0.7)]
    lines = matrix.merged(matrix.kept(tmp_path / "matrix.json"), new)
    assert [(x["sampler"], x["seconds"]) for x in lines] == [
        ("serial", 0.5),
        ("workers", 2.0),
        ("native", 0.7),
    ]
    matrix.write(tmp_path, lines, ROWS, COLUMNS, ABOUT)
    text = (tmp_path / "README.md").read_text()
    assert "None of 3 failed" in text and "beside other work" not in text
    matrix.write(tmp_path, [*lines[:2], lines[2] | {"patience": 4.0}], ROWS, COLUMNS, ABOUT)
    text = (tmp_path / "README.md").read_text()
    assert "1 of 3 cells were run beside other work" in text and "time-out of 2 s" in " ".join(
        text.split()
    )
    content = json.loads((tmp_path / "matrix.json").read_text())
    assert content["summary"] == {"cells": 3, "failed": 0, "kills": 0, "which": []}


def test_where_nothing_is_kept_yet_there_are_no_lines(matrix, tmp_path):
    assert matrix.kept(tmp_path / "matrix.json") == []
