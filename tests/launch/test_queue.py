"""The queue with pretended runs: what is begun, gone on with, tried again and left alone."""

import os
import signal
import threading
import time

import pytest
from small_queue import PretendedRuns, Sweeping, jobs, write_run

from rlpyt.launch import journal, queue
from rlpyt.launch.journal import Journal


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweep"


def test_every_job_runs_once_and_never_two_in_a_slot(folder):
    sweeping = Sweeping(folder)
    assert sweeping.run(jobs(24)) == "finished"
    assert sweeping.states() == ["finished"] * 24
    assert sweeping.runs.trained == dict.fromkeys((job.name for job in jobs(24)), 1)
    assert sweeping.runs.most == 2 and sweeping.runs.closed


def test_no_slot_waits_for_what_is_written_of_the_run_before(folder, monkeypatch):
    write, taken = Journal.write_all, []
    sweeping = Sweeping(folder)

    def seen(self, events):
        taken.extend(len(sweeping.runs._runs) for event in events if event["event"] == "end")
        write(self, events)

    monkeypatch.setattr(Journal, "write_all", seen)
    sweeping.run(jobs(6))
    assert taken == [2, 2, 2, 2, 1, 0]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_line_of_its_journal_a_queue_loses_and_doubles_nothing(
    folder, after, monkeypatch
):
    """B238: the pretended runs refuse to be begun twice or to run twice at once."""
    write, place = Journal.write_all, 0
    while True:
        written = iter(range(10**6))

        def cut(self, events, written=written, place=place):
            here = next(written) == place
            if after or not here:
                write(self, events)
            if here:
                raise Killed

        monkeypatch.setattr(Journal, "write_all", cut)
        here = folder / f"{place}"
        here.mkdir(parents=True)
        runs = PretendedRuns({"run-1": [1, 0], "run-3": [75, 0]})
        try:
            Sweeping(here, runs).run(jobs(5))
            assert place > 15
            return
        except Killed:
            pass
        monkeypatch.setattr(Journal, "write_all", write)
        again = PretendedRuns()
        again.trained = runs.trained
        sweeping = Sweeping(here, again)
        assert sweeping.run(jobs(5)) == "finished"
        assert sweeping.states() == ["finished"] * 5
        assert set(again.trained.values()) == {1} and len(again.trained) == 5
        place += 1


def test_control_a_queue_that_looks_at_no_folder_begins_runs_twice(folder, monkeypatch):
    write_run(folder / "run-0", "running")
    monkeypatch.setattr(queue, "need", lambda _: "train")
    with pytest.raises(AssertionError, match="begun twice"):
        Sweeping(folder).run(jobs(1))


def test_a_finished_sweep_starts_nothing_and_one_that_grew_the_new_runs_alone(folder):
    Sweeping(folder).run(jobs(3))
    again = Sweeping(folder)
    again.run(jobs(5))
    assert [name for name, _, _ in again.runs.started] == ["run-3", "run-4"]


def test_a_run_that_fails_is_gone_on_with_up_to_a_limit_and_keeps_code_and_last_lines(folder):
    sweeping = Sweeping(folder, PretendedRuns({"run-0": [3, 3, 3, 3]}), retries=2)
    assert sweeping.run(jobs(2)) == "finished"
    record = journal.records(journal.read(folder))["run-0"]
    assert (record.state, record.code, record.failures) == ("failed", 3, 3)
    assert record.tail[-1] == "its last words" and len(record.tail) == 2
    kinds = [argv[0] for name, argv, _ in sweeping.runs.started if name == "run-0"]
    assert kinds == ["train", "resume", "resume"]
    assert "failed   run-0 (exit code 3): its last words" in sweeping.text.getvalue()
    restarted = Sweeping(folder, retries=2)
    restarted.run(jobs(2))
    assert not restarted.runs.started  # it has had its tries
    more = Sweeping(folder, retries=3)
    more.run(jobs(2))
    assert more.states() == ["finished", "finished"]


def test_exit_code_0_before_the_end_of_a_run_is_a_failure(folder, monkeypatch):
    """An environment that calls os._exit(0) leaves it; run-1 is the control."""
    monkeypatch.setattr(queue, "SEEN_SECONDS", 0.05)
    codes = {"run-0": [(0, "running")] * 2, "run-1": [(0, "finished")]}
    sweeping = Sweeping(folder, PretendedRuns(codes), retries=1)
    sweeping.run(jobs(2))
    assert sweeping.states() == ["failed", "finished"]
    assert [argv[0] for _, argv, _ in sweeping.runs.started] == ["train", "train", "resume"]
    record = journal.records(journal.read(folder))["run-0"]
    assert record.tail[-1].startswith("ended with exit code 0 before its end")


def test_a_finished_run_whose_folder_says_so_late_is_finished_and_holds_no_slot(folder):
    """As a network disk shows what another machine wrote."""
    late = threading.Timer(0.3, write_run, (folder / "run-0", "finished"))

    def end():
        late.start()
        return (0, "running")

    sweeping = Sweeping(folder, PretendedRuns({"run-0": [end]}), retries=0)
    assert sweeping.run(jobs(4)) == "finished"
    assert sweeping.states() == ["finished"] * 4
    assert len(sweeping.runs.started) == 4 and not late.is_alive()
    ends = [event["run"] for event in journal.read(folder) if event["event"] == "end"]
    assert ends[-1] == "run-0"


def test_options_that_cannot_be_are_not_tried_again(folder):
    sweeping = Sweeping(folder, PretendedRuns({"run-0": [2]}), retries=5)
    sweeping.run(jobs(1))
    assert len(sweeping.runs.started) == 1 and sweeping.states() == ["failed"]


def test_a_run_that_someone_else_stops_is_gone_on_with_up_to_the_limit(folder):
    sweeping = Sweeping(folder, PretendedRuns({"run-0": [75], "run-1": [75, 143]}), retries=1)
    sweeping.run(jobs(2))
    assert sweeping.states() == ["finished", "cut"]


@pytest.mark.parametrize(
    ("number", "outcome", "code"),
    [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "terminated", 75)],
)
def test_a_signal_has_the_runs_stop_and_the_journal_says_so(folder, number, outcome, code):
    def strike():
        os.kill(os.getpid(), number)
        return 0

    runs = PretendedRuns({"run-0": [strike], "run-1": [code], "run-2": [code]})
    sweeping = Sweeping(folder, runs)
    assert sweeping.run(jobs(4)) == outcome
    assert sweeping.states() == ["finished", "cut", "queued", "queued"]
    assert runs.signals == [("run-1", number)]
    assert journal.read(folder)[-1]["why"] == outcome
    again = Sweeping(folder)
    again.run(jobs(4))
    assert [(name, argv[0]) for name, argv, _ in again.runs.started] == [
        ("run-1", "resume"),
        ("run-2", "train"),
        ("run-3", "train"),
    ]


def test_a_run_that_does_not_stop_is_killed(folder, monkeypatch):
    monkeypatch.setattr(queue, "GRACE_SECONDS", 0.0)

    class Deaf(PretendedRuns):
        def signal(self, name, number):
            super().signal(name, number)
            if number == signal.SIGKILL:
                self.codes[name].append(-number)

        def hear(self, seconds):
            if not self._answers and not any(self.codes.values()):
                os.kill(os.getpid(), signal.SIGINT) if not self.signals else time.sleep(0.01)
                return []
            return super().hear(seconds)

    runs = Deaf({"run-0": []})
    assert Sweeping(folder, runs).run(jobs(1)) == "interrupted"
    assert [number for _, number in runs.signals][:2] == [signal.SIGINT, signal.SIGKILL]
    assert journal.records(journal.read(folder))["run-0"].state == "cut"


def test_where_nothing_is_redrawn_a_sweep_of_24_is_shown_in_fewer_than_30_lines(folder):
    sweeping = Sweeping(folder, total=24)
    sweeping.run(jobs(24))
    lines = sweeping.text.getvalue().splitlines()
    assert len(lines) == 24
    assert lines[-1].split()[:4] == ["24/24", "run-23", "return", "7"]
    large = Sweeping(folder / "large", total=60)
    large.run(jobs(60))
    assert len(large.text.getvalue().splitlines()) <= 21
