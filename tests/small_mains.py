"""Main processes that a test starts, kills and looks for what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent
MARKER = "RLPYT_TEST_MARKER"


def marked(mark: str) -> list[int]:
    """Processes that have the mark in the environment that they began with."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARKER}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def gone(pids: Callable[[], list[int]], seconds: float) -> bool:
    """Whether no process is left in time."""
    deadline = time.monotonic() + seconds
    while pids() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not pids()


def script(mark: str, code: str) -> subprocess.Popen[str]:
    """A main process of its own, without a guard, which says when it is ready."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    environ = {**os.environ, "PYTHONPATH": path, MARKER: mark}
    head = "import os, sys, time, signal, math\nimport numpy as np\nimport small_children as c\n"
    head += "from rlpyt.processes.start import Processes\nfrom rlpyt.storage import Memory\n"
    file = Path.cwd() / "main.py"
    file.write_text(head + code)
    command = [sys.executable, "-W", "error", str(file)]
    return subprocess.Popen(
        command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def exists(pid: int) -> bool:
    """Whether a process is there and has not ended (nobody may have asked how)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
