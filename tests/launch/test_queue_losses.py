"""Runs that a queue loses: with their starter, with their node, to another process."""

import fcntl
import os
import threading

import pytest
from small_queue import SLOTS, PretendedRuns, Sweeping, jobs, write_run

from rlpyt.launch import journal, queue
from rlpyt.launch.children import StarterDied
from rlpyt.launch.journal import Journal


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweep"


def test_runs_die_with_their_starter_and_go_on_under_another(folder):
    runs = PretendedRuns({"run-0": [StarterDied("gone")], "run-1": [0]})
    sweeping = Sweeping(folder, runs)
    assert sweeping.run(jobs(3)) == "finished"
    assert sweeping.states() == ["finished"] * 3
    kinds = [argv[0] for _, argv, _ in runs.started]
    assert kinds == ["train", "train", "resume", "resume", "train"]


def test_a_starter_that_dies_while_it_is_asked_is_replaced_as_any(folder):
    class Gone(PretendedRuns):
        asked = told = False

        def start(self, name, argv, slot, log):
            if name == "run-2" and not self.asked:
                self.asked = True
                raise StarterDied("nothing can be asked of it")
            super().start(name, argv, slot, log)

        def hear(self, seconds):
            if self.asked and not self.told:
                self.told, self._runs, self._slots = True, {}, {}
                raise StarterDied("it ended")
            return super().hear(seconds)

    sweeping = Sweeping(folder, Gone())
    assert sweeping.run(jobs(4)) == "finished"
    assert sweeping.states() == ["finished"] * 4 and sweeping.runs.told


def test_a_starter_that_dies_again_and_again_ends_the_sweep(folder):
    runs = PretendedRuns({"run-0": [StarterDied("no memory")] * 9})
    with pytest.raises(RuntimeError, match="died 3 times: no memory"):
        Sweeping(folder, runs).run(jobs(1))
    assert runs.closed


def test_a_run_that_is_lost_with_its_node_goes_on_as_long_as_it_gets_further(folder):
    """A node's death is no fault of a run's, unless the run causes it."""
    steps = iter(range(60, 1000))

    class Further(PretendedRuns):
        def hear(self, seconds):
            answers = super().hear(seconds)
            if {"ended": "run-0", "code": None} in answers:
                log = folder / "run-0" / "progress.csv"
                log.write_text(f"env_steps,eval/return_mean\n{next(steps)},7\n")
            return answers

    runs = Further({"run-0": [None] * 5, "run-1": [None] * 5})
    sweeping = Sweeping(folder, runs, retries=1)
    assert sweeping.run(jobs(2)) == "finished"
    assert sweeping.states() == ["finished", "cut"]
    kinds = [(name, argv[0]) for name, argv, _ in runs.started]
    assert kinds.count(("run-0", "resume")) == 5
    assert kinds.count(("run-1", "resume")) < 3


def test_a_run_that_is_lost_before_it_began_has_not_failed(folder):
    """Its node died while its actor started."""

    class Unlucky(PretendedRuns):
        lost = 0

        def start(self, name, argv, slot, log):
            if name == "run-0" and self.lost < 3:
                self.lost += 1
                self._answers.append({"ended": name, "code": None})
            else:
                super().start(name, argv, slot, log)

    sweeping = Sweeping(folder, Unlucky(), retries=0)
    assert sweeping.run(jobs(2)) == "finished"
    assert sweeping.states() == ["finished"] * 2 and sweeping.runs.lost == 3
    control = Sweeping(folder / "control", PretendedRuns({"run-0": [None] * 3}), retries=0)
    control.run(jobs(1))
    assert control.states() == ["cut"]


def test_a_cluster_that_lost_a_node_has_fewer_runs_at_once(folder):
    class Shrinking(PretendedRuns):
        def hear(self, seconds):
            answers = super().hear(seconds)
            if len(self.started) == 3:
                del slots[1:]
            return answers

    runs, slots = Shrinking(), [*SLOTS]
    sweeping = Sweeping(folder, runs)
    sweeping.queue.slots = slots
    sweeping.run(jobs(6))
    assert sweeping.states() == ["finished"] * 6
    assert [slot.number for _, _, slot in runs.started][4:] == [0, 0]


def test_a_run_that_another_process_trains_is_waited_for_and_not_begun(folder, monkeypatch):
    monkeypatch.setattr(queue, "WAIT_SECONDS", 0.0)
    write_run(folder / "run-0", "running")
    lock = (folder / "run-0" / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)

    def finish():
        write_run(folder / "run-0", "finished")
        lock.close()

    timer = threading.Timer(0.3, finish)
    timer.start()
    sweeping = Sweeping(folder)
    assert sweeping.run(jobs(2)) == "finished"
    assert [name for name, _, _ in sweeping.runs.started] == ["run-1"]
    assert sweeping.states() == ["finished"] * 2
    said = "waiting for run-0, which another process trains"
    assert sweeping.text.getvalue().count(said) == 1


def test_a_folder_that_is_in_the_way_fails_its_run_alone(folder):
    (folder / "run-0").mkdir(parents=True)
    (folder / "run-0" / "thesis.tex").write_text("mine")
    (folder / "run-1").mkdir()  # a run was killed before it could write
    sweeping = Sweeping(folder)
    sweeping.run(jobs(2))
    assert sweeping.states() == ["failed", "finished"]
    assert "run-0 holds files and no run.json" in sweeping.text.getvalue()
    assert (folder / "run-0" / "thesis.tex").read_text() == "mine"


def test_a_run_that_outlived_its_queue_is_ended_before_it_is_gone_on_with(folder):
    """B238: it is known from a later process of its number by when it began."""
    pid = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
    reaper = threading.Thread(target=os.waitpid, args=(pid, 0))
    reaper.start()
    Sweeping(folder).run([])
    write_run(folder / "run-0", "running")
    book = Journal(folder)
    book.write("job", run="run-0", options=["ppo"], env_steps=100, kind="ppo")
    book.write("start", run="run-0", slot=0, pid=pid, identity=journal.identity(pid))
    book.write("job", run="run-1", options=["ppo", "1"], env_steps=100, kind="ppo")
    other = {"pid": os.getppid(), "identity": "later:1"}
    book.write("start", run="run-1", slot=1, **other)  # its number is another's now
    book.close()
    sweeping = Sweeping(folder)
    sweeping.run([record.job for record in sweeping.records.values()])
    reaper.join(timeout=5)
    assert not reaper.is_alive()
    assert sweeping.states() == ["finished"] * 2
    assert [argv[0] for _, argv, _ in sweeping.runs.started] == ["resume", "train"]
