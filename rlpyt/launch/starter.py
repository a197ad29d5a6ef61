"""The process that starts runs: it has PyTorch loaded, and forks.

A run started so begins in 0.1 s instead of 2, and shares the memory of what is loaded. The queue
writes requests to its standard input, a line of JSON each, and reads what became of them from its
standard output. It ends with the queue, and nothing that it started outlives it:

- a run has a process group of its own, and is killed when this process is (PDEATHSIG);
- what a run leaves behind comes back to this process (it is their subreaper) and is killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

PRELOADED = ("rlpyt.training", "rlpyt.cli.train", "rlpyt.cli.resume", "gymnasium")
LEAVE_SECONDS = 0.5  # for what a run leaves behind to end by itself, as it does when all is well
_END_SECONDS = 1.0  # for what was killed to be gone
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(argv: Sequence[str]) -> NoReturn:
    """Serve requests until standard input ends; with --no-preload runs get new interpreters."""
    answers, queue = os.dup(1), os.getppid()
    os.dup2(2, 1)  # what a package prints while it is loaded is no answer
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # not SIGKILL: the runs are ended first
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the queue's to answer
    preload = "--no-preload" not in argv
    if preload:
        for name in PRELOADED:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()  # no collection in a run is to copy the pages of what is loaded
    Starter(answers, woken, queue, preload).serve()
    os._exit(0)  # taking PyTorch down takes 0.5 s


class Starter:
    """Starts runs, says when they end, and ends them.

    Args:
        answers: descriptor that answers are written to.
        woken: descriptor that holds the numbers of the signals that came.
        queue: the process that asks.
        preload: whether runs are forked; otherwise each gets a new interpreter.
    """

    def __init__(self, answers: int, woken: int, queue: int, preload: bool) -> None:
        self._answers, self._woken, self._queue = answers, woken, queue
        self._preload = preload
        self._runs: dict[int, str] = {}  # process -> name
        self._leaving: dict[int, float] = {}  # ended, its group not yet -> until when
        self._text = b""

    def serve(self) -> None:
        """Answer until the queue has gone; then end what runs."""
        try:
            self._say(ready=True)
            while os.getppid() == self._queue and self._serve_once():
                pass
        except BrokenPipeError:
            pass
        finally:
            self._end_all()

    def _serve_once(self) -> bool:
        """Wait for a request or a signal; False where there will be no more."""
        ready, _, _ = select.select([0, self._woken], [], [], 0.05 if self._leaving else 1.0)
        if self._woken in ready and signal.SIGTERM in os.read(self._woken, 4096):
            return False
        self._see_ends()
        if 0 in ready:
            got = os.read(0, 1 << 16)
            if not got:
                return False
            *lines, self._text = (self._text + got).split(b"\n")
            for line in lines:
                self._answer(json.loads(line))
        return True

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked["ask"] == "start":
            self._fork(asked["run"], lambda: _run(asked, self._answers, self._preload))
        elif asked["ask"] == "look":
            self._fork(asked["run"], lambda: _look(asked, self._say))
        else:
            for pid in [pid for pid, name in self._runs.items() if name == asked["run"]]:
                whole = asked["signal"] == signal.SIGKILL
                with contextlib.suppress(ProcessLookupError):
                    (os.killpg if whole else os.kill)(pid, asked["signal"])

    def _fork(self, name: str, work: Callable[[], int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        here = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; those of NumPy's library know of forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _become(work, here)
        with contextlib.suppress(OSError):  # both do it, so that it is so for either from here on
            os.setpgid(pid, pid)
        self._runs[pid] = name
        self._say(started=name, pid=pid)

    def _see_ends(self) -> None:
        """Say which runs have ended, and end what they left."""
        for pid in list(self._runs):
            # Not reaped yet: its number stays its own, and that of its group.
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                continue
            killed = found.si_code != os.CLD_EXITED
            code = -found.si_status if killed else found.si_status
            self._say(ended=self._runs.pop(pid), code=code)
            self._leaving[pid] = time.monotonic() + LEAVE_SECONDS
        due = [pid for pid, until in self._leaving.items() if until <= time.monotonic()]
        for pid in due:
            self._kill_group(pid)
            del self._leaving[pid]
            os.waitpid(pid, 0)  # it has ended already
        if due:
            self._end_orphans()

    def _end_orphans(self) -> None:
        """Kill what runs left behind and the system gave to this process."""
        for pid in _children():
            if pid not in self._runs and pid not in self._leaving:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _end_all(self) -> None:
        for pid in (*self._runs, *self._leaving):
            self._kill_group(pid)
        self._runs, self._leaving = {}, {}
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            self._end_orphans()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.005)

    def _kill_group(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _say(self, **answer: Any) -> None:
        line = memoryview((json.dumps(answer) + "\n").encode())
        while line:
            line = line[os.write(self._answers, line) :]


def _become(work: Callable[[], int], starter: int) -> NoReturn:
    """What a forked process does: its own work, and nothing of the starter's."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == starter:  # else it ended before that was asked for
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def module(ranks: int) -> list[str]:
    """What Python runs for a run of so many ranks."""
    if ranks == 1:
        return ["-m", "rlpyt"]
    here = ["--standalone", "--nproc-per-node", str(ranks)]
    return ["-m", "torch.distributed.run", *here, "-m", "rlpyt"]


def _run(asked: dict[str, Any], answers: int, preload: bool) -> int:
    """Be a run: on its CPUs, with its environment, its output in its file."""
    os.close(answers)
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target in (1, 2):
        os.dup2(log, target)
    os.close(log)
    os.environ.update(asked["environment"])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, asked["cpus"])
    if not preload or asked["ranks"] > 1:
        os.execv(sys.executable, [sys.executable, *module(asked["ranks"]), *asked["argv"]])
    from rlpyt import __main__

    sys.argv = [os.path.join(os.path.dirname(sys.executable), "rlpyt"), *asked["argv"]]
    try:
        __main__.run()
    except SystemExit as end:  # nothing of torch was loaded
        return end.code if isinstance(end.code, int) else 1


def _look(asked: dict[str, Any], say: Callable[..., None]) -> int:
    """Make the agent of a run once: what is wrong with it is known before anything is started."""
    try:
        from rlpyt.acting import open_agent
        from rlpyt.cli.train import parse

        resolved = open_agent(parse(asked["argv"])[0]).resolved
        found = {"device": resolved.device, "threads": resolved.threads}
    except Exception as error:
        usage = type(error).__name__ in ("UsageError", "OptionError")
        text = str(error) if usage else f"{type(error).__name__}: {error}"
        found = {"error": text[:2000], "usage": usage}
    say(looked=asked["run"], found=found)
    return 0


def _children() -> list[int]:
    """Processes whose parent this one is (Linux)."""
    try:
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    except OSError:
        pass
    found, here = [], os.getpid()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == here:
                found.append(int(entry.parent.name))
    return found


def _prctl(option: int, value: int) -> None:
    """Ask the Linux kernel for something about this process; elsewhere nothing."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
