"""A run on a node of a Ray cluster: what the actor does that Ray starts there for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray

from rlpyt.errors import UsageError
from rlpyt.launch import journal
from rlpyt.launch.children import Children, StarterDied
from rlpyt.launch.claims import Claims
from rlpyt.launch.slots import Slot
from rlpyt.launch.starter import LEAVE_SECONDS

SEEN_SECONDS = 10.0  # in which a file of one node shows on the others
_HEAR_SECONDS = 1.0


class RayRun:
    """Starts one command, says how it ended, and ends it.

    The command is a child of a process of this actor's (`starter.py`), which ends it and all that
    it started when Ray, the node's or the queue's end ends the actor.

    Args:
        folder: the sweep's.
        cwd: where the command runs.
        python: its interpreter; None is the one of Ray's workers.
        cpus: so many of the node's are its own.
    """

    def __init__(
        self, folder: str, cwd: str, python: str | None, cpus: int, ranks: int = 1
    ) -> None:
        self._folder, self._cwd, self._python = folder, cwd, python
        self._cpus, self._ranks = cpus, ranks
        self._children: Children | None = None
        self._claims: Claims | None = None

    def look(self, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Make the agents of some runs here: what was found of each, or {"refused": why}."""
        try:
            with self._open() as children:
                return {"found": children.look(commands)}
        except UsageError as error:
            return {"refused": f"node {node_here()}: {error}"}

    def start(self, name: str, argv: Sequence[str], log: str) -> dict[str, Any]:
        """Start the command; returns {"pid", "node"}, or {"refused": why}."""
        node = node_here()
        try:
            self._children = self._open()
        except UsageError as error:
            return {"refused": f"node {node}: {error}"}
        self._claims = Claims(self._cpus)
        gpus = tuple(map(str, ray.get_gpu_ids()))
        slot = Slot(0, self._claims.cpus, gpus, threads=self._cpus)
        self._children.start(name, argv, slot, Path(log))
        return {"pid": self._hear("started")["pid"], "node": node}

    def wait(self) -> int | None:
        """The command's exit code, once it and what it left are over; None where it was lost."""
        assert self._children is not None
        try:
            code = self._hear("ended")["code"]
        except StarterDied:
            return None
        time.sleep(LEAVE_SECONDS)
        self._children.close()
        return code

    def signal(self, name: str, number: int) -> None:
        """Send it a signal; SIGKILL to all that it started, too."""
        if self._children is not None:
            self._children.signal(name, signal.Signals(number))

    def _hear(self, what: str) -> dict[str, Any]:
        assert self._children is not None
        while True:
            for answer in self._children.hear(_HEAR_SECONDS):
                if what in answer:
                    return answer

    def _open(self) -> Children:
        """The process that starts the command; refuses a node that lacks what it needs."""
        deadline = time.monotonic() + SEEN_SECONDS
        while not (Path(self._folder) / journal.FILE).exists():
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{self._folder} of the sweep is not seen here; give --runs a folder on a "
                    "disk that all nodes share"
                )
            time.sleep(0.1)
        if not Path(self._cwd).is_dir():
            raise UsageError(
                f"{self._cwd}, where the sweep was started, is not there; start it in a folder "
                "that all nodes have"
            )
        # Ray kills its workers' children, and would leave what these started.
        cwd, cpus = Path(self._cwd), self._cpus
        children = Children(self._python, cwd, cpus, False, self._ranks, shielded=True)
        try:
            children.ready()
        except UsageError:
            children.close()
            raise
        return children


def node_here() -> str:
    """The node's address, and the beginning of what Ray calls it: a machine may be several."""
    return f"{ray.util.get_node_ip_address()} {ray.get_runtime_context().get_node_id()[:8]}"
