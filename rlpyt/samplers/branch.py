"""The processes that collect while this one learns, started and ended together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from rlpyt.errors import WorkerError
from rlpyt.processes.handle import Child
from rlpyt.processes.start import Processes
from rlpyt.processes.wait import Waiting
from rlpyt.samplers.background import MakeCollector, background
from rlpyt.samplers.link import Link
from rlpyt.samplers.options import STEP_LIMIT
from rlpyt.storage import Memory


@final
class Branch:
    """A sampler in a process of its own, and those that help it.

    Args:
        processes: makes what they are started by.
        make: makes what collects; it is handed over.
        helpers: starts the other processes that it drives, and returns what it needs for that.
        link, weights, total: as `background` takes them.
    """

    def __init__(
        self,
        processes: Callable[[], Processes],
        make: MakeCollector,
        helpers: Callable[[Processes], Any],
        link: Link,
        weights: Memory,
        total: int,
    ) -> None:
        self.link = link
        self._make_processes, self._helpers = processes, helpers
        self._given = make, link, weights, total
        self._processes: Processes | None = None
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The sampler's process."""
        assert self._child is not None
        return self._child

    @property
    def is_open(self) -> bool:
        return self._child is not None

    def open(self) -> None:
        """Start all of them."""
        processes = self._processes = self._make_processes()
        make, *given = self._given
        helpers = self._helpers(processes)
        self._child = processes.start("sampler", background, make, helpers, *given)

    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        """A wait that ends by WorkerError if one of them is at fault: the cause, not what follows.

        Args:
            what: for messages and stacks.
            watch: called besides.
            every: seconds between looks.
        """
        processes = self._processes
        assert processes is not None

        def look() -> None:
            processes.look()
            watch()

        return processes.waiting(what, watch=look, every=every)

    def look_for_hangs(self, since: float, seconds: float) -> None:
        """Raise WorkerError, and end the sampler, where it shows no life for too long.

        Args:
            since: when it was asked for something that it has not given.
            seconds: that a call of an environment may take, and whatever else it does at once.
        """
        if self.child.heart.age(since) > seconds:
            raise self.overdue(seconds, STEP_LIMIT)

    def overdue(self, seconds: float, option: str) -> WorkerError:
        """What to raise where the sampler did not answer for so long; it is ended.

        Args:
            option: that sets how long it may take.
        """
        assert self._processes is not None
        error = self._processes.overdue(self.child, seconds)
        error.how += f"; {option} sets how long it may take"
        return error

    def close(self, kill: bool = False) -> None:
        """Ask all to end, and see to it.

        Args:
            kill: at once.
        """
        if self._processes is not None:
            if kill:
                self._processes.kill()
            self._processes.close()
        self._processes = self._child = None
