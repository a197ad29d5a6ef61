"""What is shown of a sweep fits its terminal and leaves out what matters least."""

import io
from collections import Counter

import pytest

from rlpyt.launch import estimate
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Record
from rlpyt.launch.progress import Log, Progress
from rlpyt.launch.table import Row, Screen, as_text, fit, summary, table
from rlpyt.logging.displays import Plain


def row(name: str, state: str, steps: int = 0, left: float | None = None, **more) -> Row:
    record = Record(Job(name, (), 1000, "ppo"), state, **more)
    return Row(record, Progress(steps, 12.34, 25.0), left)


def text_of(lines) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in lines]


ROWS = [
    row("CartPole-v1__ppo__learning-rate=0.0001__0", "finished", 1000),
    row("CartPole-v1__ppo__learning-rate=0.0001__1", "running", 250, left=75.0, slot=1),
    row("CartPole-v1__ppo__learning-rate=0.0001__2", "failed", 90, code=3, tail=("a", "boom")),
    *(row(f"CartPole-v1__ppo__learning-rate=0.0001__{i}", "queued") for i in range(3, 40)),
]


def test_what_runs_and_what_failed_stand_first_and_the_rest_is_counted():
    head, titles, *body = text_of(table(ROWS, "sweep", 100, 12))
    assert head == " sweep" and titles.split() == ["run", "state", "progress", "return", "left"]
    assert "slot 1" in body[0] and "25 %" in body[0] and "0:01:15" in body[0] and "25" in body[0]
    assert "failed" in body[1] and "exit 3: boom" in body[1]
    assert "finished" in body[2] and "100 %" in body[2]
    assert body[-1].strip() == "… and 31 queued"
    assert len(body) + 2 <= 12


@pytest.mark.parametrize("width", [60, 80, 200])
def test_names_that_are_too_long_keep_their_ends(width):
    for line in text_of(table(ROWS, "sweep", width, 50))[2:]:
        name = line.split("  ")[0].strip()
        assert "…" not in name or name.startswith("…")
        assert name[-1].isdigit()
        if "exit" not in line:  # it is cut by the terminal
            assert len(line) <= max(width, 71)


def test_a_line_is_cut_where_the_terminal_ends():
    for line in as_text(ROWS, 80):
        assert len(fit(line, 80)) <= 80
    assert fit("abcdef", 4) == "abc…" and fit("abcd", 4) == "abcd"


def test_where_nobody_reads_any_more_nothing_is_shown_and_nothing_fails():
    class Closed(Plain):
        said = 0

        def say(self, line):
            self.said += 1
            raise BrokenPipeError(32, "Broken pipe")

    display = Closed(io.StringIO())
    screen = Screen(display, 3)
    for _ in range(3):
        screen.say("a")
    screen.ended(ROWS[0], Counter({"finished": 1}), None)
    screen.close()
    assert display.said == 1


def test_all_rows_are_shown_where_they_fit():
    assert len(table(ROWS, "sweep", 100, 43)) == 2 + 40
    assert len(table(ROWS, "sweep", 100, 42)) == 42


def test_the_head_counts_the_states():
    assert (
        summary(ROWS, 65, 3600) == "1/40 finished · 1 running · 1 failed · 0:01:05 · 1:00:00 left"
    )


def test_what_is_left_goes_by_runs_of_a_kind():
    def record(kind, state, seconds=0.0):
        return Record(Job(f"{kind} {state}", (), 100, kind), state, seconds=seconds)

    records = [record("a", "finished", 10.0), record("a", "queued"), record("b", "queued")]
    assert estimate.of_all(records, {}, 2) == (10 + 10) / 2  # of b nothing is known yet
    records.append(record("b", "running"))
    assert estimate.of_all(records, {"b running": (30.0, 10.0)}, 2) == (10 + 40 + 30) / 2
    assert estimate.of_all(records[1:3], {}, 2) is None
    assert estimate.of_run(50, 100, 5.0) == 10.0
    assert estimate.of_run(0, 100, 5.0) is None


def test_a_log_is_read_again_when_it_has_changed_and_a_torn_line_is_left_out(tmp_path):
    log = Log(tmp_path, "eval/return_mean")
    assert log.read() == Progress()
    file = tmp_path / "progress.csv"
    file.write_text("env_steps,rollout/return_mean,eval/return_mean\n10,1,\n20,2,5\n30,3")
    assert log.read() == Progress(20, 2.0, 5.0, [(20, 5.0)])
    with file.open("a") as opened:
        opened.write(",\n40,4,6\n")
    assert log.read() == Progress(40, 4.0, 6.0, [(20, 5.0), (40, 6.0)])
