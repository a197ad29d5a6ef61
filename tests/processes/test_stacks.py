"""SIGUSR1 and time-outs leave the stacks of all processes and who waits for whom (R8)."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from small_children import hang, numbers, serve
from small_mains import script

from rlpyt.errors import WaitedTooLong
from rlpyt.processes import stacks
from rlpyt.processes.start import Processes
from rlpyt.storage import Memory


def texts(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in (folder / "stacks").glob("*.txt")}


def test_a_signal_to_the_main_process_writes_everybodys_stacks(tmp_path):
    before = signal.getsignal(signal.SIGUSR1)
    with Processes(tmp_path) as processes:
        memory = Memory()
        numbers(memory)
        child = processes.start("worker 1", serve, memory, int)
        looping = processes.start("C", hang, "C")
        while not looping.heart.beats or "number" not in str(child.box.waits):
            time.sleep(0.01)
        assert "worker-1" in texts(tmp_path) and "in serve" not in texts(tmp_path)["worker-1"]
        os.kill(os.getpid(), signal.SIGUSR1)
        found = texts(tmp_path)
        assert "in serve" in found["worker-1"] and "in hold_the_lock" in found["C"]
        assert "test_a_signal_to_the_main_process" in found["main"]
        assert re.search(rf"worker 1 \(pid {child.pid}\) waits for a number since", found["waits"])
        assert child.alive() and looping.alive()
        processes.kill()
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_wait_that_takes_too_long_writes_them_too(tmp_path):
    with Processes(tmp_path) as processes:
        child = processes.start("worker 1", hang, "sleep")
        while not child.heart.beats:
            time.sleep(0.01)
        with pytest.raises(WaitedTooLong):
            processes.waiting("rows of worker 1").until(lambda: False, 0.1)
        found = texts(tmp_path)
        assert re.search(r"the main process \(pid \d+\) waits for rows of worker 1", found["waits"])
        assert "in hang" in found["worker-1"]
        processes.kill()


def test_dumping_is_bounded_where_a_child_is_stopped(tmp_path):
    with Processes(tmp_path) as processes:
        child = processes.start("worker 1", hang, "stopped")
        while not stacks.is_stopped(child.pid):
            time.sleep(0.01)
        begun = time.monotonic()
        processes.dump_stacks()
        assert time.monotonic() - begun < 2
        assert f"worker 1 (pid {child.pid}) is stopped (SIGSTOP)" in texts(tmp_path)["waits"]
        processes.kill()


def test_a_main_process_without_children_answers_too(tmp_path):
    """A serial run, stuck in C: its stacks are there, and so is what it would say itself."""
    code = f"""
from pathlib import Path
from rlpyt.processes import stacks
with stacks.answering(Path({str(tmp_path)!r}) / "stacks"):
    print("ready", flush=True)
    c.hold_the_lock()
"""
    with script("serial", code) as main:
        assert main.stdout.readline() == "ready\n"
        time.sleep(0.2)
        main.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 5
        while "in hold_the_lock" not in texts(tmp_path)["main"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        main.kill()


def test_answering_is_installed_once_and_undone(tmp_path):
    before = signal.getsignal(signal.SIGUSR1)
    with stacks.answering(tmp_path / "a"), stacks.answering(tmp_path / "b"):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert not (tmp_path / "b").exists()
    assert "waits for nobody" in (tmp_path / "a/waits.txt").read_text()
    assert signal.getsignal(signal.SIGUSR1) == before


def test_names_of_files_hold_no_separators(tmp_path):
    assert stacks.path_of(tmp_path, "eval/worker 1: a").name == "eval-worker-1-a.txt"
