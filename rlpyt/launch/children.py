"""The queue's side of the starter: asks it for runs, and hears of them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rlpyt.errors import UsageError
from rlpyt.launch.slots import THREADS, Slot

READY_SECONDS = 300.0  # a cold network disk takes minutes to load PyTorch from
LOOK_SECONDS = 120.0
_PROGRAM = "import sys; {path}from rlpyt.launch.starter import main; main(sys.argv[1:])"


class StarterDied(RuntimeError):
    """The process that starts runs has ended, and with it all of them."""


class Children:
    """The starter of runs, as the queue sees it.

    Args:
        python: the interpreter of the runs; None is this one.
        cwd: where they run.
        threads: of what is loaded before a slot is known (NumPy's library keeps them).
        preload: fork runs from a process that has PyTorch loaded.
        ranks: of a run; those of several are started by torchrun.
    """

    def __init__(
        self,
        python: str | None,
        cwd: Path,
        threads: int = 1,
        preload: bool = True,
        ranks: int = 1,
    ) -> None:
        self.python, self._ranks = python or sys.executable, ranks
        # Without -P a random.py in the working directory would take the place of Python's own.
        here = "" if python else f"sys.path.append({str(Path(__file__).parents[2])!r}); "
        command = [self.python, "-P", "-c", _PROGRAM.format(path=here)]
        try:
            self._process = subprocess.Popen(
                command if preload else [*command, "--no-preload"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
                process_group=0,  # Ctrl-C in the terminal reaches the queue alone
            )
        except OSError as error:
            raise UsageError(f"python={self.python} cannot be started: {error}") from None
        self._text = b""
        self._errors = b""
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)

    @property
    def pid(self) -> int:
        """The starter's."""
        return self._process.pid

    def ready(self) -> None:
        """Return once it has loaded what runs need."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                if any("ready" in answer for answer in self.hear(1.0)):
                    return
            except StarterDied as death:
                raise UsageError(
                    f"python={self.python} cannot start runs; is this rlpyt installed there? "
                    f"{death}"
                ) from None
        raise UsageError(f"python={self.python} loaded nothing in {READY_SECONDS:.0f} s")

    def look(self, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Make the agents of some runs: their devices and threads, or what is wrong with them."""
        for i, argv in enumerate(commands):
            self._ask(ask="look", run=f"look {i}", argv=list(argv))
        found: dict[str, dict[str, Any]] = {}
        deadline = time.monotonic() + LOOK_SECONDS
        while len(found) < len(commands) and time.monotonic() < deadline:
            for answer in self.hear(1.0):
                if "looked" in answer:
                    found[answer["looked"]] = answer["found"]
                elif "ended" in answer:
                    found.setdefault(
                        answer["ended"], {"error": f"its process ended with {answer['code']}"}
                    )
        for i in range(len(commands)):
            self.signal(f"look {i}", signal.SIGKILL)
        late = {"error": f"its environment was not made in {LOOK_SECONDS:.0f} s"}
        return [found.get(f"look {i}", late) for i in range(len(commands))]

    def start(self, name: str, argv: Sequence[str], slot: Slot, log: Path) -> None:
        """Start a run in a slot; `hear` says with which process."""
        self._ask(
            ask="start",
            run=name,
            argv=list(argv),
            ranks=self._ranks,
            cpus=slot.cpus,
            environment=slot.environment(),
            log=str(log.resolve()),
        )

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a run; SIGKILL to all that it started, too."""
        with contextlib.suppress(StarterDied):  # then it is over anyway
            self._ask(ask="signal", run=name, signal=int(number))

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """What has happened: {"started", "pid"} and {"ended", "code"}, waiting for so long at most.

        Raises:
            StarterDied: with the last lines that it wrote.
        """
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        with contextlib.suppress(InterruptedError):
            select.select([out, err], [], [], seconds)
        self._errors = (self._errors + (_read(err.fileno()) or b""))[-8192:]
        got = _read(out.fileno())
        if got == b"":
            code = self._process.poll()
            said = self._errors.decode(errors="replace").strip().splitlines()
            raise StarterDied(f"it ended ({code}): {' / '.join(said[-3:]) or 'without a word'}")
        *lines, self._text = (self._text + (got or b"")).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """End all runs, and the starter."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5.0)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            raise StarterDied(f"nothing can be asked of it: {error}") from None


def _read(descriptor: int) -> bytes | None:
    """What is there to read; None where there is nothing yet, empty where nothing will come."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None
