"""Where a process writes its stacks: when it crashes, and whenever SIGUSR1 comes."""

from __future__ import annotations

import faulthandler
import io
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from rlpyt.processes import wait


class SupportsDump(Protocol):
    """Has children whose stacks can be dumped."""

    def dump_stacks(self) -> None: ...


_open: io.FileIO | None = None
_dumping: WeakSet[Any] = WeakSet()
_answering: Path | None = None


def keep(folder: Path | None, name: str) -> None:
    """Let this process write its stacks into a file of its name; without a folder to stderr."""
    global _open
    faulthandler.unregister(signal.SIGUSR1)
    file = _new(folder, name) if folder else sys.__stderr__
    if file is None:
        return
    _open = file if isinstance(file, io.FileIO) else None  # the C code keeps only its number
    faulthandler.enable(file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file, all_threads=True)


@contextmanager
def answering(folder: Path | None) -> Iterator[None]:
    """While entered SIGUSR1 writes the stacks of this process and of all children that it has.

    Nothing is installed where it is already, and outside the main thread.
    """
    global _answering
    main_thread = threading.current_thread() is threading.main_thread()
    if folder is None or _answering is not None or not main_thread:
        yield
        return
    with _new(folder, "main") as file:
        before = signal.signal(signal.SIGUSR1, _dump_all)
        # Chained: this writes also while the interpreter is stuck, then the handler has its turn.
        faulthandler.register(signal.SIGUSR1, file, all_threads=True, chain=True)
        _answering = folder
        try:
            yield
        finally:
            _answering = None
            faulthandler.unregister(signal.SIGUSR1)
            signal.signal(signal.SIGUSR1, signal.SIG_DFL if before is None else before)


def add(owner: SupportsDump) -> None:
    """Let `owner.dump_stacks` be called when SIGUSR1 comes, until it is removed or gone."""
    _dumping.add(owner)


def remove(owner: SupportsDump) -> None:
    """Undo `add`."""
    _dumping.discard(owner)


def note(folder: Path | None, lines: Sequence[str]) -> None:
    """Write who waits for what, and the stacks of this process."""
    stamped = [time.strftime("%Y-%m-%d %H:%M:%S"), *lines]
    if folder is None:
        print(*stamped, sep="\n", file=sys.stderr, flush=True)
        return
    with open(folder / "waits.txt", "a") as file:
        print(*stamped, sep="\n", file=file)
    with _new(folder, "main") as file:
        faulthandler.dump_traceback(file, all_threads=True)


def _dump_all(number: int, frame: object) -> None:
    for owner in list(_dumping):
        owner.dump_stacks()
    if not _dumping:
        note(_answering, [f"the main process (pid {os.getpid()}) {wait.waits}"])


def _new(folder: Path, name: str) -> io.FileIO:
    folder.mkdir(parents=True, exist_ok=True)
    file = io.FileIO(path_of(folder, name), "a")
    file.write(_head(os.getpid()))
    return file


def path_of(folder: Path, name: str) -> Path:
    """The file of a process."""
    return folder / (re.sub(r"[^\w.-]+", "-", name) + ".txt")


def size(folder: Path, name: str) -> int:
    """Bytes that the process has written."""
    with suppress(OSError):
        return path_of(folder, name).stat().st_size
    return 0


def written(folder: Path, name: str, begin: int) -> str:
    """What the process has written from a byte on."""
    with suppress(OSError):
        return path_of(folder, name).read_bytes()[begin:].decode(errors="replace").strip()
    return ""


def whole(folder: Path, name: str, begin: int) -> bool:
    """Whether what was written from a byte on is complete: it ends where the main thread began."""
    return written(folder, name, begin).endswith(("in <module>", "..."))  # or with frames left out


def crash(folder: Path, name: str, pid: int) -> str:
    """The stacks that a process wrote when native code crashed it; "" if it did not."""
    last = written(folder, name, 0).rpartition(_head(pid).decode())[2]
    begin = last.rfind("Fatal Python error")
    return last[begin:].strip() if begin >= 0 else ""


def is_stopped(pid: int) -> bool:
    """Whether a process is suspended (SIGSTOP) and so cannot write its stacks."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def _head(pid: int) -> bytes:
    return f"process {pid}\n".encode()
