"""Nothing is left behind: not by an end, a kill of the main process, or forgetting (R3, R6, R7)."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_children import (
    end_another,
    fail,
    hang,
    numbers,
    refuse_to_end,
    serve,
    start_another,
    start_session,
)
from small_mains import exists, gone, marked, script

from rlpyt.errors import StopAsked
from rlpyt.processes import wait
from rlpyt.processes.ending import MARK, kill_marked
from rlpyt.processes.server import StartMethod
from rlpyt.processes.start import Processes
from rlpyt.stopping import StopSignal
from rlpyt.storage import Memory


@pytest.fixture
def mark() -> Iterator[str]:
    mark = uuid.uuid4().hex
    yield mark
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)


def test_what_has_another_mark_or_none_is_left_alone():
    """Of another run, or of a run that a child of another one has started."""
    environ = {name: x for name, x in os.environ.items() if name != MARK}
    marks = ({MARK: "ab"}, {MARK: "abc"}, {"X" + MARK: "ab"}, {})
    started = [subprocess.Popen(["sleep", "60"], env=environ | mark) for mark in marks]
    try:
        kill_marked(["ab"])
        assert started[0].wait(5) == -signal.SIGKILL
        assert [process.poll() for process in started[1:]] == [None] * 3
    finally:
        for process in started:
            process.kill()
            process.wait()


READY = "print('ready', flush=True)\n"
ALL_KINDS = """
processes = Processes(None, {method!r})
memory = Memory(); c.numbers(memory)
for how in ("sleep", "loop", "C"):
    processes.start(how, c.hang, how)
processes.start("serve", c.serve, memory, int)
child = processes.start("another", c.start_another)
child.control.receive(20)
time.sleep(0.2)
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_kill_of_the_main_process_leaves_nobody(mark, method):
    """F17, R7: also in a loop in C that holds the interpreter's lock, and what children started."""
    with script(mark, ALL_KINDS.format(method=method) + READY + "time.sleep(100)") as main:
        assert main.stdout.readline() == "ready\n"
        assert len(marked(mark)) >= 7
        main.kill()
        assert gone(lambda: marked(mark), 2)


def test_without_the_guards_a_loop_in_c_outlives_the_main_process(mark):
    """The control of the test above."""
    code = """
processes = Processes()
child = processes.start("unguarded", c.unguarded)
child.control.receive(20)
print(child.pid, flush=True)
time.sleep(100)
"""
    with script(mark, code) as main:
        child = int(main.stdout.readline())
        time.sleep(0.5)  # it has taken the lock
        main.kill()
        assert not gone(lambda: [p for p in marked(mark) if p == child], 1)


def test_a_fork_server_with_pytorch_ends_as_fast(mark):
    """Taking its modules down takes seconds."""
    code = "processes = Processes(preload=['torch'])\nprocesses.start('serve', c.hang, 'sleep')\n"
    with script(mark, code + READY + "time.sleep(100)") as main:
        assert main.stdout.readline() == "ready\n"
        main.kill()
        assert gone(lambda: marked(mark), 1)


@pytest.mark.parametrize("end", ["pass", "1 / 0", "os.kill(os.getpid(), 15)"])
def test_a_main_process_that_forgets_to_close_ends_and_leaves_nobody(mark, end):
    with script(mark, ALL_KINDS.format(method="forkserver") + READY + end) as main:
        assert main.stdout.readline() == "ready\n"
        assert main.wait(10) == {"pass": 0, "1 / 0": 1}.get(end, -15)
        assert gone(lambda: marked(mark), 2)
        assert ("ZeroDivisionError" in main.stderr.read()) == (end == "1 / 0")


def test_an_object_that_is_dropped_takes_its_children_along():
    processes = Processes()
    pid = processes.start("worker 1", hang, "sleep").pid
    del processes
    gc.collect()
    assert gone(lambda: [pid] if exists(pid) else [], 2)


def held() -> tuple[int, list[str], set[str]]:
    """Descriptors, mapped files of /dev/shm (others use it, too) and children of this process."""
    numbers = [x for x in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{x}")]
    named = [x for x in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm" in x]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(numbers), named, set(children)


def cycle(folder: Path, method: StartMethod) -> None:
    """Use what there is: memory, bells, the pipe, stacks; one of the children fails."""
    with Processes(folder, method) as processes:
        memory = Memory()
        asked, given = numbers(memory)
        child = processes.start("worker 1", serve, memory, lambda x: x + 1)
        processes.start("worker 2", fail, "exit 3")
        asked[0] = 4
        child.bell.ring()
        waiting = processes.waiting("an answer", watch=lambda: None)
        waiting.until(lambda: given[0] == 4, 20)
        assert given[1] == 5
        child.control.send("hello", 20)
        child.bell.ring()
        assert child.control.receive(20) == ("echo", "hello")


@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_cycles_of_start_and_stop_leave_nothing(tmp_path, method):
    """B064, R3; the first one starts the fork server, which stays."""
    cycle(tmp_path, method)
    gc.collect()
    before = held()
    for _ in range(20):
        cycle(tmp_path, method)
    gc.collect()
    assert held() == before


def test_what_is_not_closed_is_seen_to_be_held(tmp_path):
    """The control of the test above."""
    before = held()
    processes = Processes(tmp_path, "fork")
    processes.start("worker 1", hang, "sleep")
    numbers, _, children = held()
    assert numbers > before[0] and len(children) == len(before[2]) + 1
    processes.kill()
    processes.close()


@pytest.mark.parametrize("how", ["SIGKILL", "unpicklable", "exit"])
def test_closing_after_a_death_and_closing_twice_are_fine(tmp_path, how):
    """B062."""
    processes = Processes(tmp_path)
    child = processes.start("worker 1", fail, how)
    while child.alive():
        time.sleep(0.01)
    begun = time.monotonic()
    assert len(processes.stop()) == 1
    processes.close()
    processes.close()
    assert time.monotonic() - begun < 2
    assert not child.alive()


def test_who_does_not_end_when_asked_is_killed_and_named():
    with Processes() as processes:
        child = processes.start("worker 1", refuse_to_end)
        assert child.control.receive(20) == "begun"
        begun = time.monotonic()
        (error,) = processes.stop(0.5)
        assert 0.5 <= time.monotonic() - begun < 2
        assert error.how == "did not end in 0.5 s and was killed" and not child.alive()


@pytest.mark.parametrize("why", ["asked to stop", "overdue", "control"])
def test_who_hangs_is_not_waited_for_once_somebody_was_found_to_hang(why, monkeypatch):
    with Processes() as processes:
        children = [processes.start(f"worker {i}", hang, "sleep") for i in range(2)]
        if why == "asked to stop":
            monkeypatch.setattr(wait, "GRACE", 0.1)
            with StopSignal():
                os.kill(os.getpid(), signal.SIGTERM)
                with pytest.raises(StopAsked):
                    processes.waiting("rows").until(lambda: False, 20)
        elif why == "overdue":
            processes.overdue(children[0], 1.0)
        begun = time.monotonic()
        processes.stop(4.0)
        assert (time.monotonic() - begun < 3) == (why != "control")


@pytest.mark.parametrize("end", ["kill", "forget", "stop", "SIGKILL"])
def test_what_a_child_started_ends_with_it(end):
    with Processes() as processes:
        child = processes.start("worker 1", start_another)
        other = child.control.receive(20)
        assert exists(other)
        if end == "SIGKILL":
            os.kill(child.pid, signal.SIGKILL)
            processes.kill()
        elif end == "forget":
            processes.forget(child)
            assert processes.children == ()
        else:
            getattr(child if end == "kill" else processes, end)()
        assert gone(lambda: [other] if exists(other) else [], 2)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_signals_that_children_ignore_end_what_they_start(method):
    """A simulator that is ended by SIGTERM would inherit an ignored one."""
    with Processes(None, method) as processes:
        child = processes.start("worker 1", end_another)
        assert child.control.receive(20) == (-signal.SIGTERM, -signal.SIGTERM)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_ctrl_c_for_all_processes_leaves_the_children_to_the_main_one(mark, method):
    """Once when they run, and while they start: the terminal sends it to each."""
    code = f"""
from rlpyt.stopping import StopSignal
memory = Memory(); asked, given = c.numbers(memory)
with StopSignal() as stop, Processes(None, {method!r}) as processes:
    child = processes.start("worker 1", c.serve, memory, abs)
    os.killpg(0, signal.SIGINT)
    os.kill(child.pid, signal.SIGINT); os.kill(child.pid, signal.SIGTERM)
    asked[0] = -4; child.bell.ring()
    processes.waiting("an answer").until(lambda: given[0] == -4, 20)
    os.kill(child.pid, signal.SIGTERM)
    asked[0] = -5; child.bell.ring()
    processes.waiting("an answer").until(lambda: given[0] == -5, 20)
    print(stop.name, given[1], flush=True)
"""
    with script(mark, "os.setpgid(0, 0)\n" + code) as main:
        out, err = main.communicate(timeout=60)
        assert (out, err) == ("interrupted 5\n", "")
        assert gone(lambda: marked(mark), 2)


def test_the_second_signal_ends_everybody_at_once(mark):
    """R6."""
    code = ALL_KINDS.format(method="forkserver")
    code = "from rlpyt.stopping import StopSignal\nStopSignal().__enter__()\n" + code + READY
    with script(mark, code + "processes.waiting('rows').until(lambda: False, math.inf)") as main:
        assert main.stdout.readline() == "ready\n"
        main.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert main.poll() is None and marked(mark)  # the control: the first one asks
        main.send_signal(signal.SIGINT)
        assert main.wait(1) == 130
        assert gone(lambda: marked(mark), 1)


@pytest.mark.parametrize("then", ["exit", "return", "wait"])
def test_a_session_that_a_child_started_ends_with_it(then):
    """R3: what an environment's simulator is started as; killing groups does not reach it."""
    with Processes() as processes:
        child = processes.start("worker 1", start_session, then)
        pid = child.control.receive(30)
        assert exists(pid) and os.getsid(pid) == pid  # the control: it is out of the group's reach
        if then != "wait":
            assert gone(lambda: [1] if child.alive() else [], 5)
            assert exists(pid)
        processes.forget(child)
        assert gone(lambda: [pid] if exists(pid) else [], 2)
