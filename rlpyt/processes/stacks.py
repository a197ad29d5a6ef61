"""Where a process writes its stacks: when it crashes, and whenever SIGUSR1 comes."""

from __future__ import annotations

import faulthandler
import io
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

_open: io.FileIO | None = None


def keep_stacks(folder: Path | None, name: str) -> None:
    """Let this process write its stacks into a file of its name; without a folder to stderr."""
    global _open
    faulthandler.unregister(signal.SIGUSR1)
    if folder is None:
        file = sys.__stderr__
        if file is None:
            return
    else:
        folder.mkdir(parents=True, exist_ok=True)
        file = io.FileIO(path_of(folder, name), "a")
        file.write(_head(os.getpid()))
        _open = file  # for as long as the process lives: the C code writes to its number
    faulthandler.enable(file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file, all_threads=True)


def path_of(folder: Path, name: str) -> Path:
    return folder / (re.sub(r"[^\w.-]+", "-", name) + ".txt")


def written_by(folder: Path, name: str, pid: int) -> str:
    """What the process wrote of itself."""
    with suppress(OSError):
        return path_of(folder, name).read_bytes().rpartition(_head(pid))[2].decode(errors="replace")
    return ""


def is_stopped(pid: int) -> bool:
    """Whether a process is suspended (SIGSTOP) and so cannot write its stacks."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def _head(pid: int) -> bytes:
    return f"process {pid}\n".encode()
