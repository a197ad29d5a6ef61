"""Where a command's words go, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from rlpyt.errors import from_here

if TYPE_CHECKING:
    from rlpyt.cli.profiling import Profiler
    from rlpyt.training import Outcome

EXIT_CODES = {"finished": 0, "interrupted": 130, "terminated": 75}
UNSAVED = {"interrupted": 130, "terminated": 143}

PrintObject = Callable[[dict[str, Any]], None]


@contextmanager
def one_object(wanted: bool) -> Iterator[PrintObject]:
    """Keep stdout for one JSON object: whatever else is printed meanwhile goes to stderr.

    Yields:
        What prints the object; without `wanted` it prints nothing, and stdout is as it was.
    """
    if not wanted:
        yield lambda _: None
        return
    out, kept = sys.stdout, None
    with suppress(OSError, ValueError):  # a library's own prints in C go to the descriptor
        if out is not None and out.fileno() == 1:
            out.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
    found: list[dict[str, Any]] = []
    try:
        with redirect_stdout(sys.stderr):
            yield found.append
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)
    for content in found:
        print(json.dumps(content), file=out, flush=True)


@contextmanager
def profiled(wanted: bool) -> Iterator[Profiler | None]:
    """Sample where the time goes meanwhile."""
    if not wanted:
        yield None
        return
    from rlpyt.cli.profiling import Profiler

    with Profiler() as profiler:
        yield profiler


def report(
    outcome: Outcome, print_object: PrintObject, *, quiet: bool, profiler: Profiler | None
) -> int:
    """Say how training ended, and return the exit code of that."""
    first = outcome.runner.ranks.first  # of several ranks one speaks
    summary = outcome.summary()
    if profiler is not None and first:
        print(profiler.report(summary["env_steps"]))
        summary["profile"] = profiler.shares()
    elif quiet and first:
        value = summary["eval_return"]
        evaluated = "" if value is None else f", eval_return {value:.2f}"
        print(f"{summary['status']}: {from_here(outcome.folder)}{evaluated}")
    if first:
        print_object(summary)
    return (EXIT_CODES if outcome.saved else UNSAVED)[outcome.status]
