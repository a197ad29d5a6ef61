"""Deaths and failures are noticed at once, and named: who, where, how (R1, R2; F1, F4, F5, F7)."""

from __future__ import annotations

import math
import os
import pickle
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_children import Unpicklable, drive, fail, finish, hang, numbers, serve

from rlpyt.errors import WaitedTooLong, WorkerError
from rlpyt.processes.bell import Bell
from rlpyt.processes.start import Processes
from rlpyt.processes.wait import Waiting
from rlpyt.storage import Memory

ENDS = {
    "SIGKILL": r"was killed by SIGKILL \(-9; out of memory\?\)",
    "SIGSEGV": r"was killed by SIGSEGV \(-11; a crash in native code\)",
    "SIGABRT": r"was killed by SIGABRT \(-6; native code gave up\)",
    "SIGBUS": r"was killed by SIGBUS \(-7; no shared memory left\?\)",
    "exit": r"exited with code 0 unexpectedly",
    "exit 3": r"exited with code 3 unexpectedly",
    "unpicklable": r"failed: Unpicklable: number 7",
    "wordless": r"failed: Wordless: it has no text",
    "sys.exit": r"failed: SystemExit: 0",
}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as processes:
        yield processes
        processes.kill()  # those who hang would be waited for


def error_of(processes: Processes, seconds: float = 30) -> tuple[WorkerError, float]:
    """What a wait ends by, and the seconds it took."""
    begun = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        processes.waiting("what never comes").until(lambda: False, seconds)
    return caught.value, time.monotonic() - begun


@pytest.mark.parametrize("how", ENDS)
def test_an_end_is_noticed_and_says_who_where_and_how(processes, how):
    child = processes.start("worker 1", fail, how, columns=[4, 5, 6, 9])
    error, seconds = error_of(processes)
    assert seconds < 2  # a start included; well under R1's 2 s
    place = r"\(environment 5, reset, call 1\)"
    who = rf"worker 1 \(pid {child.pid}, environments 4 to 6, 9\)"
    assert re.fullmatch(f"{who} {ENDS[how]} {place}", error.message)
    assert (error.worker, error.columns, error.pid) == ("worker 1", (4, 5, 6, 9), child.pid)
    assert not child.alive() or child.failure()


def test_without_a_sentinel_a_death_is_not_noticed_before_the_next_look(processes):
    """The control of the test above."""
    processes.start("worker 1", fail, "SIGKILL")
    waiting = Waiting(processes.bell, "what never comes", lambda: None)
    with pytest.raises(WaitedTooLong, match=r"waited 0\.\d s for what never comes"):
        waiting.until(lambda: False, 0.5)


def test_an_exception_that_cannot_be_pickled_arrives_as_text(processes):
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Unpicklable(7, "odd"))
    processes.start("worker 1", fail, "unpicklable")
    error, _ = error_of(processes)
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert 'raise Unpicklable(7, "odd")' in error.traceback
    assert error.traceback.endswith("Unpicklable: number 7\nis odd\n")
    assert str(error) == f"{error.message}\n\n{error.traceback}"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.columns == error.columns


def test_of_a_text_that_is_too_long_the_middle_is_left_out(processes):
    processes.start("worker 1", fail, "long")
    error, _ = error_of(processes)
    assert len(error.traceback) <= 65536
    assert error.traceback.startswith("Traceback") and error.traceback.endswith(
        "y" + "z" * 10 + "\n"
    )
    assert "\n[...]\n" in error.traceback


def test_a_crash_leaves_the_stacks_of_where_it_happened(processes, tmp_path):
    processes.start("worker 1", fail, "SIGSEGV")
    error, _ = error_of(processes)
    assert "Segmentation fault" in error.traceback and "in fail" in error.traceback
    assert error.traceback in (tmp_path / "stacks/worker-1.txt").read_text()


def test_who_has_finished_is_no_failure_and_who_is_asked_to_stop_neither(processes):
    done = processes.start("done", finish)
    memory = Memory()
    numbers(memory)
    asked = processes.start("asked", serve, memory, int)
    while done.alive():
        time.sleep(0.01)
    processes.look()
    assert done.ended() == "has finished" and asked.ended() is None
    assert processes.stop() == []
    assert asked.ended() == "has finished"
    processes.look()


def test_what_was_done_before_an_end_still_counts(processes):
    """The counter is looked at once more before a sentinel is believed."""
    bell, given = Bell(), []
    child = processes.start("worker 1", fail, "exit 3")

    def watch():
        raise AssertionError("never reached")

    waiting = Waiting(bell, "a number", watch, sentinels=[child.sentinel])
    waiting.until(lambda: not child.alive(), 10)
    assert not given


@pytest.mark.parametrize("how", ["sleep", "loop", "C", "stopped"])
def test_a_hang_is_found_by_the_heartbeat_and_the_culprit_alone_is_killed(tmp_path, how):
    with Processes(tmp_path) as processes:
        memory = Memory()
        numbers(memory)
        other = processes.start("other", serve, memory, int)
        child = processes.start("worker 1", hang, how, columns=[2])
        begun = time.monotonic()

        def watch():
            processes.look()
            if child.heart.beats and child.heart.age() > 0.4:
                raise processes.overdue(child, 0.4)

        with pytest.raises(WorkerError) as caught:
            processes.waiting("rows", watch=watch, every=0.1).until(lambda: False, math.inf)
        assert time.monotonic() - begun < 0.4 + 2
        message = r"did not answer for 0.4 s \(environment 2, step, call 2\) and was killed"
        stopped = r"; it was stopped \(SIGSTOP\)" if how == "stopped" else ""
        who = rf"worker 1 \(pid {child.pid}, environment 2\)"
        assert re.fullmatch(f"{who} {message}{stopped}", caught.value.message)
        assert not child.alive() and other.alive()
        waits = (tmp_path / "stacks/waits.txt").read_text()
        assert re.search(rf"the main process \(pid {os.getpid()}\) waits for rows since \d", waits)
        assert re.search(r"other \(pid \d+\) waits for a number since \d", waits)
        suspended = f"worker 1 (pid {child.pid}) is stopped (SIGSTOP)"
        assert (suspended in waits) == (how == "stopped")
        if how != "stopped":
            assert "in hang" in caught.value.traceback


def test_who_goes_on_beating_is_not_overdue(processes):
    """The control: the age is the heartbeat's, not the wait's."""
    child = processes.start("worker 1", hang, "beating")
    oldest = []

    def watch():
        processes.look()
        if child.heart.beats:
            oldest.append(child.heart.age())

    with pytest.raises(WaitedTooLong):
        processes.waiting("rows", watch=watch, every=0.1).until(lambda: False, 1.0)
    assert oldest and max(oldest) < 0.5


def test_the_cause_is_named_and_not_its_consequence(processes):
    """The loop that drives a worker fails because the worker died."""
    worker = processes.start("worker 1", hang, "sleep")
    bell = Bell()
    loop = processes.start("loop", drive, worker, bell, "wait")
    time.sleep(0.2)
    os.kill(worker.pid, 9)
    while not loop.failure():
        time.sleep(0.01)
    error, _ = error_of(processes)
    assert error.worker == "worker 1" and "SIGKILL" in error.how
    assert "RuntimeError: the loop ended" in (loop.failure() or "")
    processes.forget(worker)
    error, _ = error_of(processes)
    assert error.worker == "loop"  # the control: a failure it is


def test_who_waits_for_others_is_asked_to_stop_without_delay(processes):
    worker = processes.start("worker 1", hang, "sleep")
    loop = processes.start("loop", drive, worker, Bell(), "wait")
    while "the worker" not in str(loop.box.waits):
        time.sleep(0.01)
    loop.box.ask_to_stop()
    begun = time.monotonic()
    loop.bell.ring()
    while loop.alive():
        time.sleep(0.01)
    assert time.monotonic() - begun < 0.9  # not by looking about
    assert loop.ended() == "has finished"


def test_who_is_given_a_child_may_not_end_it(processes):
    worker = processes.start("worker 1", hang, "sleep")
    loop = processes.start("loop", drive, worker, Bell(), "kill")
    message, alive = loop.control.receive(10)
    assert message == "only the process that started worker 1 can end it" and alive
    assert worker.alive()


def test_who_is_given_a_child_may_blame_it_and_the_main_process_ends_it(processes):
    worker = processes.start("worker 1", hang, "C")
    loop = processes.start("loop", drive, worker, Bell(), "blame")
    error, _ = error_of(processes)
    assert error.worker == "worker 1" and error.how == "hung in environment 2, step, call 2"
    assert "in hold_the_lock" in error.traceback
    assert not worker.alive() and loop.failure()


def test_a_failure_while_the_child_starts_arrives_too(processes):
    processes.start("worker 1", serve, Broken())
    error, _ = error_of(processes)
    assert "failed: ZeroDivisionError" in error.how


class Broken:
    """Cannot be unpacked."""

    def __reduce__(self):
        return divide, (0,)


def divide(x: int) -> float:
    return 1 / x
