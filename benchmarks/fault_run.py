"""Runs one cell of the fault matrix in a process of its own, and says what was not as it must."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_cells import Cell, command, demand, interval

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from small_mains import MARKER, gone, marked

from rlpyt import checkpoint

HERE = Path(__file__).parent
GONE = 2.0  # seconds from the end of the main process to that of all others
SPAN = 8.0  # seconds from the start of a run in which kills at random moments lie
WAIT = 1.0  # seconds from the first steps of a run in which the other random moments lie
WINDOWS = 128  # environment steps that a run may be ahead of what it has logged or saved
LIMITS = {"files of at most 16 kB (ulimit -f)": "FSIZE=16384",
          "30 descriptors (ulimit -n)": "NOFILE=30"}  # fmt: skip


class Failed(Exception):
    """Something was not as it must be."""


def run(cell: Cell, patience: float = 1.0) -> dict[str, Any]:
    """Run a cell; what is found is one line of the matrix.

    Args:
        patience: by which times are multiplied, on a machine with other work.
    """
    begun, mark = time.monotonic(), uuid.uuid4().hex
    found: dict[str, Any] = {"row": cell.row, "sampler": cell.sampler, "number": cell.number}
    found |= {"patience": patience} if patience != 1 else {}
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        attempt = _Attempt(cell, Path(name), mark, patience)
        before = shared_names()
        try:
            attempt.make()
            attempt.leaves_nothing(before)
            attempt.can_go_on()
            failed = ""
        except Failed as error:
            failed = str(error)
        except Exception as error:  # a checkpoint that cannot be read, say: it is this cell's
            failed = repr(error)
        finally:
            for pid in marked(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        found |= {"failed": failed, "seconds": attempt.seconds, "code": attempt.code}
        if failed:
            found["printed"] = attempt.printed()[-3000:]
    return found | {"took": round(time.monotonic() - begun, 1), "at": time.strftime("%F %T")}


class _Attempt:
    def __init__(self, cell: Cell, folder: Path, mark: str, patience: float) -> None:
        self.cell, self.folder, self.mark, self.patience = cell, folder, mark, patience
        self.run, self.demand = folder / "run", demand(cell)
        self.seconds: float | None = None  # from the fault to the end, where it ended by that
        self.code: int | None = None
        self.again = 0  # commands after the first
        self.chance = random.Random(cell.id)

    def make(self) -> None:
        """Start the command, strike it if that is the fault, and look at how it ends."""
        cell, must = self.cell, self.demand
        process = self._start(command(cell, self.folder))
        try:
            struck = self._strike(process) if cell.injected.signals else None
            limit = 90.0 if must.seconds is None else must.seconds + 60
            self.code = process.wait(limit * self.patience)
            ended = time.time()
        except subprocess.TimeoutExpired:
            raise Failed("did not end") from None
        if self.code == 0 and (must.seconds is None or must.may_finish):
            self._finished()
            if must.seconds is None:
                self._says()
            return
        if self.code not in must.codes:
            raise Failed(f"exit code {self.code} for {' or '.join(map(str, must.codes))}")
        if must.seconds is None:
            self._finished()
            return
        self.seconds = round(ended - (struck or self._injected() or ended), 2)
        if self.seconds > must.seconds * self.patience:
            raise Failed(f"took {self.seconds:.1f} s for {must.seconds:g}")
        self._says()

    def _says(self) -> None:
        for what in self.demand.says:
            if not re.search(what, self.printed()):
                raise Failed(f"does not say {what!r}")

    def leaves_nothing(self, before: set[str]) -> None:
        """No process and no name in /dev/shm."""
        if not gone(lambda: marked(self.mark), GONE * self.patience):
            raise Failed(f"left {len(marked(self.mark))} processes")
        left = shared_names() - before
        if left:
            raise Failed(f"left {', '.join(sorted(left))} in /dev/shm")

    def can_go_on(self) -> None:
        """The newest checkpoint is whole, and no older than it may be; the run goes on from it."""
        kept = self.run / "checkpoints"
        newest = checkpoint.steps(kept) if kept.exists() else 0
        if newest:
            checkpoint.load(kept)
        old = self._logged() - newest
        if old > interval(self.cell) + WINDOWS and self.cell.injected.kind != "limit":
            raise Failed(f"newest checkpoint is {old} steps old")
        if self.code == 0 or self.cell.injected.kind == "limit":
            return
        if not (self.run / "run.json").exists():
            return  # nothing had begun
        argv = ["resume", str(self.run), "--env-steps", str(newest + 400), "--quiet"]
        try:
            code = self._start(argv).wait(90 * self.patience)
        except subprocess.TimeoutExpired:
            raise Failed("does not end once resumed") from None
        if code != 0:
            raise Failed(f"resumed, exits with code {code}")
        self._finished()
        if not gone(lambda: marked(self.mark), GONE * self.patience):
            raise Failed("left processes once resumed")

    def printed(self) -> str:
        """What all commands so far printed."""
        return "".join(p.read_text(errors="replace") for p in sorted(self.folder.glob("printed-*")))

    def _start(self, argv: list[str]) -> subprocess.Popen[bytes]:
        cell, place = self.cell, self.folder / f"printed-{self.again}"
        self.again += 1
        limits = "-" if self.again > 1 else LIMITS.get(cell.fault, "-")
        full = [sys.executable, str(HERE / "fault_child.py"), cell.method, limits, *argv]
        if self.again == 1:
            full = _wrapped(cell.fault, full)
        environ = {**os.environ, MARKER: self.mark, "OMP_NUM_THREADS": "1", "RLPYT_CHECK": "1"}
        environ["PYTHONPATH"] = os.pathsep.join(map(str, (HERE.parent / "tests", HERE.parent)))
        with open(place, "wb") as file:
            out: Any = file
            if cell.fault == "prints, reader of stdout gone" and self.again == 1:
                read, out = os.pipe()
                os.close(read)
            process = subprocess.Popen(
                full, env=environ, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=file, start_new_session=True,
            )  # fmt: skip
            if out is not file:
                os.close(out)
        return process

    def _strike(self, process: subprocess.Popen[bytes]) -> float:
        """Send the signals, when it is time; returns when the last one was sent."""
        fault, begun = self.cell.injected, time.monotonic()
        if fault.how:
            self._until(process, lambda: (self.folder / "once").exists(), "the environment's fault")
            time.sleep(0.5)
        elif self.cell.number:
            moment = begun + self.chance.uniform(0, SPAN * self.patience)
            self._until(process, _after(moment), "a moment")
        else:
            self._until(process, lambda: self._logged() > 0, "its first steps")
            wait = self.chance.uniform(0, WAIT)
            self._until(process, _after(time.monotonic() + wait), "a moment")
        sent = 0.0
        for name in fault.signals:
            if sent:
                time.sleep(0.5)
            pid = process.pid if fault.kind == "main" else self._helper()
            sent = time.time()
            with suppress(ProcessLookupError):  # it has ended by the first already
                os.kill(pid, getattr(signal, name))
        return sent

    def _until(self, process: subprocess.Popen[bytes], due: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60 * self.patience
        while not due():
            if process.poll() is not None:
                raise Failed(f"ended with code {process.returncode} before {what}")
            if time.monotonic() > deadline:
                raise Failed(f"did not come to {what}")
            time.sleep(0.01)

    def _helper(self) -> int:
        """The number of the process that is struck: its file of stacks begins with it."""
        kind, sampler = self.cell.injected.kind, self.cell.under
        name = "sampler" if kind == "sampler" else sampler.helper
        file = self.run / "stacks" / f"{name}.txt"
        pids = re.findall(r"^process (\d+)$", file.read_text() if file.exists() else "", re.M)
        if not pids:
            raise Failed(f"has no process {name}")
        return int(pids[-1])

    def _injected(self) -> float | None:
        """When the environment misbehaved."""
        once = self.folder / "once"
        return once.stat().st_mtime if once.exists() else None

    def _finished(self) -> None:
        status = json.loads((self.run / "run.json").read_text())["status"]
        if status != "finished":
            raise Failed(f"is {status}, not finished")
        if self.cell.policy == "raise" or self.again > 1:
            return
        name = {"restart": "workers/restarts", "drop": "workers/dropped"}[self.cell.policy]
        if not float(self._lines()[-1].get(name) or 0):
            raise Failed(f"{name} is not counted")

    def _lines(self) -> list[dict[str, str]]:
        file = self.run / "progress.csv"
        return list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []

    def _logged(self) -> int:
        lines = self._lines()
        steps = lines[-1].get("env_steps") if lines else None
        return int(steps) if steps and steps.isdigit() else 0


def shared_names() -> set[str]:
    """What has a name in /dev/shm."""
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def cannot(cell: Cell) -> str:
    """Why a cell cannot be tried here; "" where it can."""
    if cell.under.native and importlib.util.find_spec("ale_py") is None:
        return "no ale-py"
    if cell.fault == "/dev/shm of 64 kB":
        tried = subprocess.run(_wrapped(cell.fault, ["true"]), capture_output=True)
        return "mounting is not allowed here" if tried.returncode else ""
    return ""


def _wrapped(fault: str, command: list[str]) -> list[str]:
    """The command within what a fault needs around it."""
    if fault == "/dev/shm of 64 kB":
        mount = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *command]
    if fault == "prints, stdout closed":
        return ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    return command


def _after(moment: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= moment
