"""What `torchrun` tells the processes that it starts, by their environment."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Final

from rlpyt.errors import UsageError, from_here

NAMES: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)
SILENCE: Final = "RLPYT_RANK_TIMEOUT"
"""Names the seconds without a heartbeat after which a rank is given up: a matter of the network."""
SILENT_SECONDS: Final = 60.0
LEAST_SILENCE: Final = 4.0
ALONE_SECONDS: Final = 3.0
"""In which torchrun ends the other ranks once one has ended with an error."""
met = False
"""Whether this process trains with the others: what goes wrong then may be its own."""


def expected() -> int:
    """How many processes it has started in all; 1 where it has not started this one."""
    return whole("WORLD_SIZE", 1) if "WORLD_SIZE" in os.environ else 1


def here() -> int:
    """How many of them on this machine."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(text)) if text.isdecimal() else 1


def local_rank() -> int:
    """Number of this process among those on its machine."""
    return whole("LOCAL_RANK", 0) if "LOCAL_RANK" in os.environ else 0


def speaks() -> bool:
    """Whether this process says what goes wrong before all have met: it does in each of them."""
    return os.environ.get("RANK", "0") == "0" or "TORCHELASTIC_RUN_ID" not in os.environ


def fails_alone() -> bool:
    """Whether no other rank has failed, too: torchrun would have ended this one meanwhile."""
    time.sleep(ALONE_SECONDS)
    return True


def resuming(folder: Path, ranks: int) -> str:
    """The command that goes on with a run of so many ranks, on as many machines as there are."""
    command, each = f"rlpyt resume {from_here(folder)}", here()
    if ranks == 1:
        return command
    if each == ranks or os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        return f"torchrun --standalone --nproc-per-node {ranks} -m {command}"
    meet = "--rdzv-backend c10d --rdzv-endpoint HOST:PORT"
    return f"torchrun --nnodes {ranks // each} --nproc-per-node {each} {meet} -m {command}"


def without(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for processes that are no ranks."""
    return {name: text for name, text in environ.items() if name not in NAMES}


def check() -> None:
    """Raise where what it sets is incomplete, or where it has begun anew by itself."""
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise UsageError(
                f"WORLD_SIZE={os.environ['WORLD_SIZE']} without {name}: torchrun sets it; "
                "start with torchrun, or unset WORLD_SIZE to train in one process"
            )
    rank, size = whole("RANK", 0), whole("WORLD_SIZE", 1)
    if rank >= size:
        raise UsageError(
            f"RANK={rank} is not less than WORLD_SIZE={size}: ranks are 0 to {size - 1}, as "
            "torchrun sets them"
        )
    if (restarts := os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) != "0":
        raise UsageError(
            f"torchrun has started its processes anew (restart {restarts}), which would begin "
            "another run; leave out --max-restarts, and go on with -m rlpyt resume RUN"
        )


def silence() -> float:
    """Seconds without a heartbeat after which a rank is given up."""
    text = os.environ.get(SILENCE, str(SILENT_SECONDS))
    with suppress(ValueError):
        if isfinite(seconds := float(text)) and seconds >= LEAST_SILENCE:
            return seconds
    raise UsageError(f"{SILENCE}={text} must be a number of seconds, at least {LEAST_SILENCE:g}")


def whole(name: str, least: int, most: int = 1 << 31) -> int:
    """A variable that is a whole number."""
    text = os.environ[name]
    if text.isdecimal() and least <= int(text) <= most:
        return int(text)
    limit = f" and at most {most}" if text.isdecimal() and int(text) > most else ""
    raise UsageError(
        f"{name}={text} is no whole number of at least {least}{limit}; torchrun sets it"
    )
