"""How children begin: what reaches them, from which scripts, by which methods."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_children import finish, look_for, numbers, serve, tell
from small_mains import script

from rlpyt.errors import UsageError, WaitedTooLong
from rlpyt.processes import server
from rlpyt.processes.bell import Bell
from rlpyt.processes.start import Processes
from rlpyt.storage import Memory

METHODS = ["forkserver", "spawn", "fork"]
Fields = dict[str, np.ndarray]


@pytest.fixture(params=METHODS)
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    with Processes(None, request.param) as processes:
        yield processes
        processes.kill()


def told(processes: Processes, what: Any) -> Any:
    return processes.start("teller", tell, what).control.receive(30)


def test_a_function_of_the_test_and_the_memory_of_the_main_process_reach_a_child(processes):
    memory = Memory()
    asked, given = numbers(memory)
    offset = 10
    child = processes.start("worker 1", serve, memory, lambda x: x + offset)
    for n in (1, 2, 3):
        asked[0] = n
        child.bell.ring()
        processes.waiting("an answer").until(lambda n=n: given[0] == n, 30)
        assert given[1] == n + 10
    later: np.ndarray = memory.zeros(np.zeros(3))
    later[:] = 5
    assert told(processes, lambda: float(_third_block(memory).sum())) == 15


def _third_block(memory: Memory) -> np.ndarray:
    numbers(memory)
    return memory.zeros(np.zeros(3))


def test_what_every_child_has_already_can_be_handed_over_once_more(processes):
    """A driver's bell is that of the main process, say; nothing of a start stays open here."""
    bell, memory = processes.bell, Memory()
    memory.zeros(np.zeros(3))

    def look() -> Any:
        bell.ring()
        return memory.zeros(np.zeros(3)).size, bell.fileno() > 2

    assert told(processes, look) == (3, True)
    before = len(os.listdir("/proc/self/fd"))
    child = processes.start("teller", tell, look)
    assert child.control.receive(30) == (3, True)
    processes.forget(child)
    del child  # its memory, with the last who sees it
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_parts_than_were_made_are_refused_in_a_child(processes):
    memory = Memory()
    memory.zeros(np.zeros(3))

    def answers() -> list[str]:
        return [
            _refusal(memory, np.zeros(4)),
            _refusal(memory, np.ones(3, int)),
            _refusal(memory, np.ones(3)),  # the control
            _refusal(memory, np.zeros(3)),
        ]

    size, dtype, same, more = told(processes, answers)
    assert "holds other arrays than these" in size and "holds other arrays than these" in dtype
    assert same == "none" and "has no such block" in more


def _refusal(memory: Memory, example: Any) -> str:
    try:
        memory.zeros(example)
    except RuntimeError as error:
        return str(error)
    return "none"


def test_a_child_leads_a_group_has_one_thread_and_todays_environment(processes, monkeypatch):
    monkeypatch.setenv("SET_AFTER_THE_SERVER", "1")

    def look() -> Any:
        names = ("SET_AFTER_THE_SERVER", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        return os.getpgrp() == os.getpid(), [os.environ.get(name) for name in names]

    assert told(processes, look) == (True, ["1", "1", "1"])


def test_no_descriptor_of_a_child_passes_to_programs_that_it_starts(processes):
    memory = Memory()
    memory.zeros(np.zeros(3))
    bell = Bell()

    def inherited() -> list[str]:
        import subprocess
        import sys

        assert memory.zeros(np.zeros(3)).size and bell.fileno()
        code = "import os; print(sorted(os.readlink(f'/proc/self/fd/{n}') for n in range(3, 60)"
        code += " if os.path.exists(f'/proc/self/fd/{n}') or os.path.islink(f'/proc/self/fd/{n}')))"
        command = [sys.executable, "-c", code]
        out = subprocess.run(command, stdout=subprocess.PIPE, close_fds=False, timeout=30).stdout
        return [x for x in eval(out) if not x.startswith("/proc")]

    assert told(processes, inherited) == []


def test_children_do_not_inherit_blocked_signals_and_the_main_thread_keeps_its_own(processes):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    blocked = told(processes, lambda: sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    assert not {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1} & {*blocked}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_what_cannot_be_handed_over_is_an_error_here_and_starts_nothing(processes):
    with pytest.raises(TypeError, match="cannot pickle"):
        processes.start("worker 1", tell, threading.Lock())
    assert processes.children == ()


def test_a_descriptor_is_handed_over_at_a_start_alone(processes):
    import pickle

    with pytest.raises(TypeError, match="only while that is started"):
        pickle.dumps(Memory())
    child = processes.start("finished", finish)
    with pytest.raises(TypeError, match="only while that is started"):
        child.control.send(Bell(), 1)


@pytest.mark.parametrize("method", METHODS)
def test_a_script_needs_no_main_guard(method):
    """B052; its functions and classes go along (B050), and it is not run again."""
    code = f"""
class Twice:
    def __call__(self, x): return plus(x, x)
def plus(a, b): return a + b
print("once", flush=True)
with Processes(None, {method!r}) as processes:
    memory = Memory(); asked, given = c.numbers(memory)
    child = processes.start("worker 1", c.serve, memory, Twice())
    asked[0] = 4; child.bell.ring()
    processes.waiting("an answer").until(lambda: given[0] == 4, 30)
    print(given[1])
"""
    with script("guard", code) as main:
        assert main.communicate(timeout=60) == ("once\n8\n", "")
        assert main.returncode == 0


def test_too_little_memory_is_refused_with_what_is_needed_and_what_there_is():
    """F19, B065: by the limit of the process, before anything is taken or written."""
    code = """
import pathlib, resource
from rlpyt.errors import UsageError
limit = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * 4096 + 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with Processes() as processes:
    memory = Memory()
    memory.zeros(np.zeros(2**20))  # 8 MB: the control
    processes.start("worker 1", c.finish).control
    try:
        memory.zeros(np.zeros(2**20), (200,))
    except UsageError as error:
        print(error)
"""
    with script("limit", code) as main:
        out, err = main.communicate(timeout=60)
        assert err == ""
        assert out.startswith("1600.0 MB of shared memory are needed, and ")
        assert 800 < float(out.split("needed, and ")[1].split()[0]) < 1024
        assert "choose fewer environments" in out


def test_more_descriptors_than_can_be_handed_over_or_opened_are_refused_with_the_remedy():
    bells = [Bell() for _ in range(260)]
    with Processes() as processes:
        with pytest.raises(UsageError, match="fewer --workers"):
            processes.start("worker 1", tell, bells)
        server = forkserver._forkserver._forkserver_pid
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 5, hard))
        try:
            with pytest.raises(UsageError, match=r"fewer --workers, or raise the limit"):
                deque(processes.start(f"worker {i}", finish) for i in range(20))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert told(processes, look_for) == "found"
        assert forkserver._forkserver._forkserver_pid == server  # it lives, and its children


def test_a_daemonic_process_is_told_that_it_may_start_none(monkeypatch):
    """multiprocessing forbids it, as it would leave them behind."""
    with Processes() as processes:
        monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
        with pytest.raises(UsageError, match=r"worker 1 cannot .* daemonic .* sampler=serial"):
            processes.start("worker 1", tell, look_for)
        monkeypatch.undo()
        assert told(processes, look_for) == "found"  # the control


def test_a_fork_server_that_is_killed_is_replaced():
    with Processes() as processes:
        child = processes.start("worker 1", tell, look_for)
        assert child.control.receive(30) == "found"
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        deadline = time.monotonic() + 2
        while child.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert child.ended() == "ended, and its exit code is not known"  # it goes along
        processes.forget(child)
        assert told(processes, look_for) == "found"


def test_a_fork_server_that_ends_while_it_starts_a_child_is_told_of_with_the_remedy():
    """As it does where it may not fork (ulimit -u)."""
    with Processes() as processes:
        assert told(processes, look_for) == "found"
        pid = forkserver._forkserver._forkserver_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(UsageError, match=r"worker 1 cannot .*fork server.*ended.*ulimit -u"):
            processes.start("worker 1", finish)
        killer.join()
    with Processes() as processes:
        assert told(processes, look_for) == "found"  # another one


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), BlockingIOError(errno.EAGAIN, "not available")],
)
def test_a_limit_of_processes_or_threads_is_named(error):
    refused = pytest.raises(UsageError, match="worker 1 cannot be started.*ulimit -u")
    with refused, server.limits_told("worker 1"):
        raise error
    with pytest.raises(RuntimeError, match="another"), server.limits_told("worker 1"):
        raise RuntimeError("another")  # the control


def test_a_folder_with_too_long_a_path_for_a_socket_is_named():
    with (
        socket.socket(socket.AF_UNIX) as listener,
        pytest.raises(UsageError, match="worker 1 cannot be started.*set TMPDIR to a shorter one"),
        server.limits_told("worker 1"),
    ):
        listener.bind(f"/tmp/{'x' * 200}")


def test_a_fork_server_that_is_stopped_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(server, "START_SECONDS", 0.5)
    with Processes() as processes:
        assert told(processes, look_for) == "found"
        pid = forkserver._forkserver._forkserver_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(WaitedTooLong, match=rf"fork server \(pid {pid}\) does not answer"):
                processes.start("worker 1", finish)
        finally:
            os.kill(pid, signal.SIGCONT)


def test_children_start_and_are_watched_outside_of_the_main_thread():
    told_there: list[Any] = []

    def work() -> None:
        with Processes() as processes:
            told_there.append(told(processes, look_for))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert told_there == ["found"]


def test_a_folder_that_is_gone_does_not_keep_a_child_from_saying_so(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Processes(tmp_path / "file")
