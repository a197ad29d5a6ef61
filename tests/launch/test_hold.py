"""One queue at a time has a sweep, on whatever machine; and others can tell."""

import errno
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from rlpyt.errors import UsageError
from rlpyt.launch import hold, journal
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.sweep import go_on, look_at

HOLD = "from pathlib import Path; from rlpyt.launch import hold\n"
HOLD += "with hold.held(Path('.')): print('held', flush=True); input()"


def test_two_queues_are_refused_and_a_killed_ones_lock_is_free(tmp_path, monkeypatch):
    """B238."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, stdin=-1, stdout=-1, text=True
    )
    with process:
        assert process.stdout.readline() == "held\n"
        found = hold.holder(tmp_path)
        assert found.pid == process.pid and found.here and found.alive
        with (
            pytest.raises(UsageError, match=f"another queue .process {process.pid}.*Ctrl-C"),
            hold.held(tmp_path),
        ):
            pass
        # where the disk has no locks, the process that is named decides
        monkeypatch.setattr(hold, "_lock", lambda _: True)
        with pytest.raises(UsageError, match="another queue"), hold.held(tmp_path):
            pass
        process.kill()
        process.wait(timeout=10)
        assert not hold.holder(tmp_path).alive
        with hold.held(tmp_path):
            assert hold.holder(tmp_path).pid == os.getpid()
    assert hold.holder(tmp_path) is None


def test_a_sweep_of_which_nothing_was_begun_is_not_finished(tmp_path):
    journal.Journal(tmp_path).close()
    sweep, lines = look_at(tmp_path)
    assert sweep.status == "stopped" and "no run was begun here" in lines[-1]
    with pytest.raises(UsageError, match="has no runs to go on with"):
        go_on(tmp_path, QueueOptions())


@pytest.fixture
def elsewhere(tmp_path):
    """A sweep of one run, which a queue on another machine had a moment ago."""
    book = journal.Journal(tmp_path)
    book.write("job", run="a", options=["ppo"], env_steps=100, kind="ppo")
    book.write("start", run="a", slot=0, pid=os.getpid(), identity="other:1")
    book.close()
    (tmp_path / hold.LOCK).write_text(json.dumps([os.getpid(), "other:1", "node7"]))
    return tmp_path


def test_a_queue_of_another_machine_is_told_of_and_when_it_was_seen(elsewhere):
    sweep, lines = look_at(elsewhere)
    assert (sweep.status, sweep.runs[0].state) == ("running", "running")
    assert f"its queue is process {os.getpid()} on node7, seen 0:00:00 ago" in lines[0]
    then = time.time() - 3600
    os.utime(elsewhere / hold.LOCK, (then, then))
    sweep, lines = look_at(elsewhere)
    assert (sweep.status, sweep.runs[0].state) == ("stopped", "cut")
    assert lines[-1] == f"goes on with: rlpyt sweep retry {elsewhere}"
    assert f"its queue was process {os.getpid()} on node7, seen 1:00:00 ago" in lines[0]


def test_a_queue_of_another_machine_is_not_doubled_while_it_beats(elsewhere, monkeypatch, capsys):
    """Whatever its clock says, and where the disk has no locks."""
    monkeypatch.setattr(hold, "WATCH_SECONDS", 0.3)
    path, over = elsewhere / hold.LOCK, threading.Event()
    path.touch()

    def beat():
        while not over.wait(0.05):
            os.utime(path, (1.0, time.time() - 1e6))

    beating = threading.Thread(target=beat)
    beating.start()
    with pytest.raises(UsageError, match="another queue .*on node7"), hold.held(elsewhere):
        pass
    over.set()
    beating.join()
    assert hold.holder(elsewhere).host == "node7"
    with hold.held(elsewhere):  # it beats no more
        assert hold.holder(elsewhere).here
    assert "waiting to see whether another queue (process" in capsys.readouterr().err


def test_a_queue_beats_while_it_holds_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(hold, "BEAT_SECONDS", 0.01)
    with hold.held(tmp_path):
        os.utime(tmp_path / hold.LOCK, (1.0, 1.0))
        deadline = time.monotonic() + 5
        while hold.holder(tmp_path).seen_seconds > 60:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not any(thread.name == "beat" for thread in threading.enumerate())


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / hold.LOCK).mkdir()
    with pytest.raises(UsageError, match="cannot be written .Is a directory."), hold.held(tmp_path):
        pass


def test_a_full_disk_is_named_before_anything_starts(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hold.os, "pwrite", full)
    with (
        pytest.raises(UsageError, match="cannot be written .No space left on device.; make room"),
        hold.held(tmp_path),
    ):
        pass
