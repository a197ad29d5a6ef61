"""Waits are bounded, miss no ring, look about, and heed a stop signal; so does the pipe."""

from __future__ import annotations

import ast
import math
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_children import hang, numbers, serve, silent
from small_mains import script

from rlpyt.errors import StopAsked, WaitedTooLong, WorkerError
from rlpyt.processes import control, heart, wait
from rlpyt.processes.bell import Bell
from rlpyt.processes.control import Control
from rlpyt.processes.heart import CALLS, MAKE, RESET, STEP, Heart
from rlpyt.processes.start import Processes
from rlpyt.processes.wait import Waiting
from rlpyt.stopping import StopSignal
from rlpyt.storage import Memory

PACKAGE = Path(__file__).parents[2] / "rlpyt"


def nothing() -> None:
    """Watches nothing."""


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as processes:
        yield processes
        processes.kill()


@pytest.fixture(params=["eventfd", "pipe"])
def bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bell:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    return Bell()


def test_a_ring_ends_a_wait_once_what_is_waited_for_is_there(bell):
    ready: list[int] = []
    waiting = Waiting(bell, "numbers", nothing)
    for n in range(5):

        def ring(n: int = n) -> None:
            bell.ring()  # in vain
            time.sleep(0.02)
            ready.append(n)
            bell.ring()

        thread = threading.Thread(target=ring)
        thread.start()
        begun = time.monotonic()
        waiting.until(lambda n=n: len(ready) > n, 10)
        assert time.monotonic() - begun < wait.LOOK  # not by looking about
        thread.join(10)


def test_without_a_ring_it_is_found_by_looking_about(bell):
    """The control of the test above."""
    ready: list[int] = []
    thread = threading.Timer(0.05, ready.append, [1])
    thread.start()
    begun = time.monotonic()
    Waiting(bell, "numbers", nothing, every=0.5).until(lambda: ready, 10)
    assert 0.4 < time.monotonic() - begun < 2
    thread.join(10)


def test_many_rings_are_one_and_are_gone_when_cleared(bell):
    for _ in range(10_000 if len(bell._ends) == 2 else 10):  # more than a pipe holds
        bell.ring()
    with pytest.raises(WaitedTooLong):
        Waiting(bell, "what never comes", nothing).until(lambda: False, 0.05)
    looks: list[int] = []
    Waiting(bell, "", lambda: looks.append(1), every=0.05).until(lambda: looks, 10)
    assert looks  # it slept, and no old ring woke it again and again


def test_a_wait_ends_in_its_time_and_says_for_what_it_was(bell):
    begun, dumped = time.monotonic(), []
    waiting = Waiting(bell, "rows", nothing, late=lambda: dumped.append(1))
    with pytest.raises(WaitedTooLong, match=r"^waited 0\.2 s for row 7$"):
        waiting.until(lambda: False, 0.2, "row 7")
    assert 0.2 <= time.monotonic() - begun < 1
    assert dumped == [1]
    with pytest.raises(WaitedTooLong, match="for rows"):
        wait.wait(lambda: False, bell, watch=nothing, seconds=0, what="rows")


def test_who_watches_is_asked_in_time_and_its_error_ends_the_wait(bell):
    looks: list[float] = []

    def watch() -> None:
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise ZeroDivisionError

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        Waiting(bell, "", watch, every=0.1).until(lambda: False, math.inf)
    assert 0.3 <= time.monotonic() - begun < 1


def test_an_end_that_is_no_failure_wakes_once(bell):
    """Else a process that is gone for good keeps who waits for others from sleeping."""
    read, write = os.pipe()
    os.close(write)
    looks: list[int] = []
    waiting = Waiting(bell, "", lambda: looks.append(1), sentinels=[read])
    for _ in range(2):
        with pytest.raises(WaitedTooLong):
            waiting.until(lambda: False, 0.1)
    os.close(read)
    assert len(looks) == 1


def test_a_wait_costs_nothing_where_it_is_over_already():
    bell = Bell()
    waiting = Waiting(bell, "", nothing)
    bell.close()
    waiting.until(lambda: True, 0)


def test_what_is_waited_for_can_be_read_meanwhile_and_is_forgotten_after(bell):
    seen: list[str] = []
    waiting = Waiting(bell, "rows of worker 1", lambda: seen.append(str(wait.waits)), every=0.05)
    waiting.until(lambda: seen, 10)
    assert seen[0].startswith("waits for rows of worker 1 since 0.")
    assert str(wait.waits) == "waits for nobody"
    with pytest.raises(WaitedTooLong):
        waiting.until(lambda: False, 0.05, "ä" * 300)
    assert str(wait.waits) == "waits for nobody"


def test_after_a_stop_signal_a_wait_goes_on_for_a_while_and_then_gives_up(bell, monkeypatch):
    monkeypatch.setattr(wait, "GRACE", 0.3)
    with StopSignal():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.4)  # its grace begins when a wait begins: what is saved takes some, too
        begun = time.monotonic()
        with pytest.raises(StopAsked, match="gave up waiting for rows"):
            Waiting(bell, "rows", nothing, every=0.1).until(lambda: False, math.inf)
        assert 0.3 <= time.monotonic() - begun < 1.5
    with pytest.raises(WaitedTooLong):  # the control: the next run was not asked
        Waiting(bell, "rows", nothing, every=0.1).until(lambda: False, 0.5)


def test_ctrl_c_ends_a_wait_for_a_child_that_hangs():
    """The handler sets a flag; the wait looks at it, and leaves after its grace."""
    code = """
from rlpyt import stopping
from rlpyt.errors import StopAsked
from rlpyt.processes import wait
wait.GRACE = 0.5
with stopping.StopSignal() as stop, Processes() as processes:
    processes.start("worker 1", c.hang, "C")
    print("ready", flush=True)
    try:
        processes.waiting("rows").until(lambda: False, math.inf)
    except StopAsked as error:
        processes.kill()
        print(stop.name, error)
"""
    with script("ctrl-c", code) as main:
        assert main.stdout.readline() == "ready\n"
        time.sleep(0.3)
        main.send_signal(signal.SIGINT)
        begun = time.monotonic()
        out, err = main.communicate(timeout=60)
        assert time.monotonic() - begun < 5
        assert out.startswith("interrupted gave up waiting for rows") and err == ""


def test_who_was_suspended_does_not_take_its_own_pause_for_a_hang(bell, monkeypatch):
    """The whole machine may have slept: others get their time anew."""
    monkeypatch.setattr(heart, "resumed_at", -math.inf)
    beats = Heart(Memory().zeros(heart_words()))
    beats.beat(1, STEP)
    assert beats.age() < 1
    jump = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + jump[0])
    monkeypatch.setattr(beats, "_clock", time.monotonic)
    waiting = Waiting(bell, "rows", nothing, every=0.1)
    ages: list[float] = []

    class Poll:
        def __init__(self) -> None:
            self.calls = 0

        def poll(self, milliseconds: int) -> list:
            self.calls += 1
            jump[0] += 600 * (self.calls == 1)
            time.sleep(0.05)
            ages.append(beats.age())
            return []

    waiting._poll = Poll()  # type: ignore[assignment]
    with pytest.raises(WaitedTooLong):
        waiting.until(lambda: False, 0.5)
    assert ages[0] > 599  # the control: before the pause is noticed
    assert len(ages) > 1 and ages[1] < 1
    monkeypatch.setattr(heart, "resumed_at", -math.inf)


def heart_words():
    import numpy as np

    return np.zeros(8, np.int64)


def test_a_heart_tells_what_was_begun_last_and_since_when():
    now = [100.0]
    words = Memory().zeros(heart_words())
    writer, reader = Heart(words), Heart(words, lambda: now[0])
    assert (str(reader), reader.column, reader.age()) == ("", None, 0)
    now[0] = 103
    assert reader.age() == 3 and reader.age(since=101) == 2
    writer.beat(3, STEP)
    assert (str(reader), reader.column) == ("environment 3, step, call 1", 3)
    assert reader.age() == 0  # dated when it is seen
    now[0] = 105
    assert reader.age() == 2
    writer.beat(4, RESET)
    assert reader.age(since=90) == 0 and str(reader) == "environment 4, reset, call 2"
    writer.beat(-1, MAKE)
    assert (str(reader), reader.column) == ("make, call 3", None)
    writer.rest()
    now[0] = 109
    assert (str(reader), reader.column, reader.beats) == ("", None, 3)
    assert reader.age() == 0 and reader.age() == 0
    now[0] = 110
    assert reader.age() == 1
    assert CALLS[STEP] == "step"


def test_messages_of_any_size_arrive_whole_and_in_order(processes):
    memory = Memory()
    numbers(memory)
    child = processes.start("worker 1", serve, memory, int)
    for message in ("a", b"x" * 5_000_000, {"n": [1, 2]}, lambda x: x + 1):
        child.control.send(message, 30)
        child.bell.ring()
        echo, back = child.control.receive(30)
        assert echo == "echo" and (back(1) == 2 if callable(message) else back == message)
    assert not child.control.has_message()


@pytest.mark.parametrize("stopped", [False, True])
def test_neither_side_of_the_pipe_can_block_the_other(processes, stopped):
    """One that does not read, does not write, or was stopped in the middle of a message."""
    child = processes.start("worker 1", silent, b"x" * 5_000_000)
    assert child.control.receive(20) == "begun"
    if stopped:
        os.kill(child.pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(WaitedTooLong, match="worker 1 to take a message"):
        child.control.send(b"y" * 5_000_000, 0.3)
    if stopped:
        with pytest.raises(WaitedTooLong, match="a message of worker 1"):
            child.control.receive(0.3)
    assert time.monotonic() - begun < 2
    os.kill(child.pid, signal.SIGCONT)
    assert child.control.receive(20) == b"x" * 5_000_000  # it goes on where it was


def test_a_message_of_a_child_that_dies_ends_by_its_cause(processes):
    child = processes.start("worker 1", hang, "sleep")
    threading.Timer(0.2, os.kill, [child.pid, 9]).start()
    begun = time.monotonic()
    with pytest.raises(WorkerError, match="SIGKILL"):
        child.control.ask("how are you", 60)
    assert time.monotonic() - begun < 2


def test_an_end_that_was_closed_is_told(monkeypatch):
    monkeypatch.setattr(wait, "LOOK", 0.1)
    ends = control.pair()
    ours, theirs = (Control(end, "the other side", nothing) for end in ends)
    ours.send(1, 5)
    ends[0].close()
    assert theirs.receive(5) == 1
    for deed in (lambda: theirs.receive(5), lambda: theirs.send(2, 5)):
        with pytest.raises(EOFError, match="the other side has closed its end"):
            deed()


def test_what_comes_from_a_pipe_is_whatever_pickles():
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        control.dumps(threading.Lock())


# Waits of the code base: each has a deadline.

BARE = {"get", "join", "acquire", "wait", "recv", "communicate", "result", "accept", "select"}
NEED_TIMEOUT = {"run", "call", "check_call", "check_output"}
ALLOWED = {  # and why
    "block.py": "a lock that nobody else has yet",
    "logging/recorder.py": "a daemon thread at rest until there is something to write",
    "vector/native.py": "in C++; a watchdog ends the process",
    "vector/pools.py": "in C++; a watchdog ends the process",
}


def bare_waits(source: str) -> list[tuple[int, str]]:
    """Calls that may wait for ever: the line, and the call."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        bare = name in BARE and not node.args and not node.keywords
        program = owner == "subprocess" and name in NEED_TIMEOUT
        endless = program and "timeout" not in {word.arg for word in node.keywords}
        if bare or endless:
            found.append((node.lineno, ast.unparse(node)))
    return found


def test_no_wait_of_the_code_base_is_without_a_deadline():
    found = {
        f"{path.relative_to(PACKAGE)}:{line} {call}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in ALLOWED
        for line, call in bare_waits(path.read_text())
    }
    assert not found


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_exempt_would_be_found(name):
    """The control of the test above."""
    assert bare_waits((PACKAGE / name).read_text())


@pytest.mark.parametrize(
    "source",
    ["q.get()", "t.join()", "x.lock.acquire()", "p.wait()", "c.recv()", "subprocess.run(['a'])"],
)
def test_a_bare_wait_is_found_and_a_bounded_one_is_not(source):
    assert bare_waits(source)
    assert not bare_waits(source.replace(")", ", timeout=5)").replace("(, ", "("))
