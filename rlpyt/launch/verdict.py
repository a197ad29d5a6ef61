"""What the end of a run means: by its exit code, and by what its folder says."""

from __future__ import annotations

import signal
from pathlib import Path

from rlpyt.launch.journal import State
from rlpyt.launch.progress import is_finished, was_stopped

SEEN_SECONDS = 10.0  # in which a file that one machine wrote shows on the others
STOPPED = (75, 130, 143, -signal.SIGINT, -signal.SIGTERM)  # exit codes of a run that was stopped


def judge(
    folder: Path, code: int | None, seconds: float, *, pruned: bool = False, killed: bool = False
) -> State:
    """What became of a run that ended.

    Args:
        folder: its own.
        code: its exit code; None says that it was lost with what ran it.
        seconds: that it took.
        pruned: it was asked to end because others do better.
        killed: whoever asked it to end kills what does not.
    """
    if code == 0 and is_finished(folder):
        return "finished"
    if pruned:
        return "pruned"
    stopped = code is None or code in STOPPED or (killed and code == -signal.SIGKILL)
    stopped |= code == 1 and was_stopped(folder, seconds)
    return "cut" if stopped else "failed"


def may_be_late(folder: Path, code: int | None) -> bool:
    """Whether code and folder disagree: a network disk may not show yet that the run finished.

    An environment that calls `os._exit(0)` leaves the same.
    """
    return code == 0 and not is_finished(folder)
