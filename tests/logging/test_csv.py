"""progress.csv is rectangular, increasing and continuous, whatever happens to the process."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlpyt.logging.csv import CsvFile, read, read_lines


def test_a_tag_that_appears_later_leaves_the_file_rectangular(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    file = CsvFile(path)
    for i in range(10):
        file.write(100 * i, {"loss/policy": 0.1 * i})
    file.write(1000, {"eval/return_mean": 500.0, 'odd, "tag"': 1.0})
    file.close()
    lines = path.read_text().splitlines()
    assert len({line.count(",") for line in lines[1:]}) == 1
    table = read(path)
    assert list(table) == ["env_steps", "loss/policy", "eval/return_mean", 'odd, "tag"']
    assert table["env_steps"] == [100.0 * i for i in range(11)]
    assert math.isnan(table["eval/return_mean"][9]) and table["eval/return_mean"][10] == 500
    assert math.isnan(table["loss/policy"][10])
    assert read_lines(path)[9:] == [
        (900, {"loss/policy": 0.9}),
        (1000, {"eval/return_mean": 500.0, 'odd, "tag"': 1.0}),
    ]
    assert os.listdir(tmp_path) == ["progress.csv"]


def test_absent_values_and_nan_are_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    file = CsvFile(path)
    file.write(1, {"a": math.nan, "b": math.inf, "c": 1e10, "d": 0.1})
    file.close()
    assert path.read_text() == "env_steps,a,b,c,d\n1,,inf,10000000000,0.1\n"


def test_resume_cuts_rows_after_the_checkpoint_and_the_curve_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    file = CsvFile(path)
    for i in range(1, 11):
        file.write(100 * i, {"x": i})
    file.close()
    with path.open("a") as text:
        text.write("1100,1")  # killed in the middle of a line, and no line end
    assert read(path)["env_steps"][-1] == 1000
    file = CsvFile(path, env_steps=500)
    assert file.env_steps == 500
    file.write(600, {"x": 60, "y": 1})
    file.close()
    table = read(path)
    assert table["env_steps"] == [100, 200, 300, 400, 500, 600]
    assert table["x"] == [1, 2, 3, 4, 5, 60]


def test_a_second_line_at_the_same_env_steps_is_merged(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    file = CsvFile(path)
    file.write(100, {"x": 1})
    file.write(200, {"x": 2, "y": 3})
    file.write(200, {"x": 5, "eval/return_mean": 7})
    file.close()
    file = CsvFile(path, 200)
    file.write(200, {"z": 8})
    file.close()
    assert path.read_text().splitlines()[1:] == ["100,1,,,", "200,5,3,7,8"]


def test_env_steps_never_go_back(tmp_path: Path) -> None:
    file = CsvFile(tmp_path / "progress.csv")
    file.write(200, {"x": 1})
    with pytest.raises(ValueError, match="before the last row's 200"):
        file.write(100, {"x": 1})
    file.close()


def test_rows_that_met_a_full_disk_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "progress.csv"
    file = CsvFile(path)
    file.write(100, {"x": 1})
    good = file._file

    class Full:
        def __init__(self) -> None:
            self.seek, self.truncate, self.read = good.seek, good.truncate, good.read

        def write(self, data: bytes) -> int:
            return good.write(data[:2])

    monkeypatch.setattr(file, "_file", Full())
    for x in (200, 300):
        with pytest.raises(OSError, match="full"):
            file.write(x, {"x": 1})
    monkeypatch.setattr(file, "_file", good)
    file.write(400, {"x": 4, "y": 1})
    file.close()
    assert read(path)["env_steps"] == [100, 200, 300, 400]


@pytest.mark.parametrize(
    "content", ["", "\n", "garbage\n1,2\n", "env_steps,x\n\0\0\0\n5,1,2\n7,3\n"]
)
def test_a_broken_file_costs_its_broken_lines_only(tmp_path: Path, content: str) -> None:
    path = tmp_path / "progress.csv"
    path.write_text(content)
    file = CsvFile(path, env_steps=10)
    file.write(11, {"x": 4})
    file.close()
    assert read(path)["x"][-1] == 4
    assert read(path)["env_steps"] == ([7, 11] if "7,3" in content else [11])


def test_reading_imports_neither_torch_nor_numpy() -> None:
    code = "import rlpyt.logging.csv, sys; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "set()\n"
