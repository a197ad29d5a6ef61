"""The journal: what was written is read, whatever a kill left at its end."""

import json
import os
import resource
import signal
import subprocess

import pytest

from rlpyt.errors import UsageError
from rlpyt.launch import journal
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Journal


def written(folder):
    book = Journal(folder)
    for name in "ab":
        book.write_all([journal.job_event(Job(name, ("ppo", "--seed", name), 100, "ppo"))])
    book.write("start", run="a", slot=0, pid=1, identity="x")
    book.write("end", run="a", state="failed", code=1, seconds=2.5, tail=["why"])
    book.write("start", run="b", slot=1, pid=2, identity="y")
    book.close()
    return folder / journal.FILE


def test_records_are_what_the_events_say(tmp_path):
    written(tmp_path)
    found = journal.records(journal.read(tmp_path))
    a, b = found["a"], found["b"]
    assert (a.state, a.code, a.failures, a.tail, a.seconds) == ("failed", 1, 1, ("why",), 2.5)
    assert (b.state, b.pid, b.slot) == ("running", 2, 1)
    assert a.job == Job("a", ("ppo", "--seed", "a"), 100, "ppo")


def test_a_torn_last_line_is_left_out_wherever_it_is_torn(tmp_path):
    path = written(tmp_path)
    whole = path.read_bytes()
    *before, last = whole.splitlines(keepends=True)
    for cut in range(len(last)):
        path.write_bytes(b"".join(before) + last[:cut])
        events = journal.read(tmp_path)
        torn = cut < len(last) - 1  # a line without its end is whole
        assert len(events) == len(before) + (not torn)
        book = Journal(tmp_path)
        book.write("stopped", why="finished")
        book.close()
        assert len(journal.read(tmp_path)) == len(events) + 1


def test_what_is_no_sweep_or_of_a_newer_rlpyt_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"is no sweep: it has no journal\.jsonl"):
        journal.read(tmp_path)
    (tmp_path / journal.FILE).write_text(json.dumps({"event": "queue", "format": 99}) + "\n")
    with pytest.raises(UsageError, match="format 99.*install a newer rlpyt"):
        journal.read(tmp_path)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "job", "run": "c"},
        {"event": "end", "run": "a"},
        {"event": "start", "run": "b", "slot": 0},
        {"event": "end", "run": ["a"]},
    ],
)
def test_a_line_that_no_queue_wrote_is_named(tmp_path, event):
    path = written(tmp_path)
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")
    with pytest.raises(UsageError, match="a line that no queue wrote: .*take it out"):
        journal.records(journal.read(tmp_path))


def test_lines_of_others_are_left_out(tmp_path):
    path = written(tmp_path)
    before = journal.records(journal.read(tmp_path))
    with path.open("ab") as file:
        file.write(b'\0\0\0\n[1, 2]\n{"event": "queue"}\n{"event": "note", "run": "x"}\n\xff\n')
    assert journal.records(journal.read(tmp_path)) == before


def test_a_full_disk_is_named_and_what_was_written_is_whole(tmp_path):
    path = written(tmp_path)
    before, size = journal.records(journal.read(tmp_path)), path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    book = Journal(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        with pytest.raises(OSError, match=r"journal\.jsonl not written: the sweep ends"):
            book.write("end", run="b", state="finished", code=0, seconds=1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
        book.close()
    assert path.stat().st_size == size + 20  # a torn line
    assert journal.records(journal.read(tmp_path)) == before


def test_a_process_is_told_from_a_later_one_of_its_number():
    here = journal.identity(os.getpid())
    assert journal.is_alive(os.getpid(), here)
    assert not journal.is_alive(os.getpid(), here + "0")
    child = subprocess.Popen(["true"])
    child_was = journal.identity(child.pid) or "ended already"
    child.wait(timeout=10)
    assert not journal.is_alive(child.pid, child_was)
