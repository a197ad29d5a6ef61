"""What a run left: its last words, and what is to be done with its folder."""

import pytest

from rlpyt.errors import UsageError
from rlpyt.launch.progress import LINE_LETTERS, TAIL_LINES, Output, need, reason


def test_last_words_are_few_and_short_whatever_a_run_printed(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"of an earlier attempt\n")
    output = Output(log)
    with log.open("ab") as file:
        file.write(b"x" * 3_000_000 + b"\n")  # as environments print that report each step
        file.write(b"\xff\xfe is no UTF-8\r 10 %\r 20 %\n\n")
        file.write(b"\x1b[31mValueError\x1b[0m: \x07a" + b"y" * 5000 + b" at last\n")
    tail = output.tail(1)
    assert len(tail) <= TAIL_LINES and max(map(len, tail)) <= LINE_LETTERS + 3
    assert tail[-4:-1] == ["\ufffd\ufffd is no UTF-8", " 10 %", " 20 %"]
    assert tail[-1].startswith("ValueError: ay") and tail[-1].endswith("y at last")
    assert not any("earlier" in line for line in tail)
    assert Output(log).tail(1) == []


def test_the_reason_of_a_failure_is_its_error_and_not_the_place_that_is_noted_behind_it():
    notes = ["in environment 0 of 2 (m:E), step(1)", "while environment 0 of 2 was made"]
    assert reason(["  raise", "ValueError: on fire", *notes]) == "ValueError: on fire"
    assert reason(["killed by SIGKILL (out of memory?)"]).startswith("killed")
    assert reason([]) == reason(notes) == ""


@pytest.mark.parametrize("kind", ["file", "others"])
def test_what_is_in_the_way_of_a_runs_folder_is_named_and_left(tmp_path, kind):
    folder = tmp_path / "run"
    if kind == "file":
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="move it away"):
        need(folder)
    assert folder.exists()
