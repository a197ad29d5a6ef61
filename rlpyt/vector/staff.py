"""Worker processes, and who has them: the process that started them, or one they were lent to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from rlpyt.arrays import tree_leaves
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import WorkerError
from rlpyt.places import Places
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.handle import Child
from rlpyt.processes.start import Processes
from rlpyt.processes.wait import Waiting
from rlpyt.storage import Memory
from rlpyt.vector.columns import cut
from rlpyt.vector.handover import Handover
from rlpyt.vector.making import Making
from rlpyt.vector.worker_loop import Post, work

PRELOADED = ("rlpyt.vector.worker_loop",)  # by the fork server, once for all processes


@dataclass
class Workers:
    """Worker processes with what they are driven by; a process that is handed it can drive them.

    Args:
        children: one for each worker.
        posts: what each does.
    """

    children: list[Child]
    posts: list[Post]

    @property
    def handover(self) -> Handover:
        return self.posts[0].handover

    @property
    def bell(self) -> Bell:
        """Of the driver."""
        return self.posts[0].driver


class Staff(ABC):
    """Has the workers that `WorkerEnvironments` drives.

    Attributes:
        spec: of the environments.
        groups: columns of each.
    """

    spec: EnvSpec
    groups: tuple[range, ...]

    @abstractmethod
    def workers(self) -> Workers:
        """The workers; they are started when this is first asked for."""

    @abstractmethod
    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        """A wait for the workers there are now; it ends by WorkerError if one is at fault."""

    @abstractmethod
    def overdue(self, child: Child, seconds: float) -> WorkerError:
        """What to raise where a worker did nothing for so long; it is ended."""

    @abstractmethod
    def replace(self, i: int) -> None:
        """Put a new process in the place of a failed one, if this process can."""

    @abstractmethod
    def dismiss(self, i: int) -> None:
        """End what is left of a failed one, if this process can."""

    @abstractmethod
    def close(self) -> list[WorkerError]:
        """End those that this process started, the slow ones by force; what went wrong."""


@final
class Hired(Staff):
    """Workers of the process that starts them.

    Args:
        processes: makes what they are started by.
        making: makes their environments.
        places, rows: where they write.
        workers, groups: W and G, of the `making.total` columns.
        name: of each, before its number.
        bell: of the driver, where that is another process.
    """

    def __init__(
        self,
        processes: Callable[[], Processes],
        making: Making,
        places: Places,
        rows: Memory,
        workers: int,
        groups: int,
        *,
        name: str = "worker",
        bell: Bell | None = None,
    ) -> None:
        self._make_processes, self._making, self._name, self._bell = processes, making, name, bell
        # Classes of what agents keep would have a worker import torch, only to skip their fields.
        info = tuple(tree_leaves(places.example.info))
        self._places: Places = replace(places, example=places.example.replace(info=info))
        self._rows, self._count = rows, workers
        self.spec, self.groups = making.spec, tuple(cut(range(making.total), groups))
        self._processes: Processes | None = None
        self._workers: Workers | None = None

    def workers(self) -> Workers:
        if self._workers is None:
            processes = self._processes = self._make_processes()
            handover = Handover(Memory(), self._count, len(self.groups), self._making.total)
            bell = self._bell or processes.bell
            shares = zip(*(cut(columns, self._count) for columns in self.groups), strict=True)
            posts = [
                Post(i, share, self._making, self._places, self._rows, handover, bell)
                for i, share in enumerate(shares)
            ]
            self._workers = Workers([], posts)
            for post in posts:
                self._workers.children.append(self._started(post, replaces=False))
        return self._workers

    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        processes, workers = self._there()

        def look() -> None:
            processes.look()
            watch()

        return processes.waiting(what, bell=workers.bell, watch=look, every=every)

    def overdue(self, child: Child, seconds: float) -> WorkerError:
        return self._there()[0].overdue(child, seconds)

    def replace(self, i: int) -> None:
        _, workers = self._there()
        self.dismiss(i)
        workers.children[i] = self._started(workers.posts[i], replaces=True)

    def dismiss(self, i: int) -> None:
        processes, workers = self._there()
        processes.forget(workers.children[i])

    def close(self) -> list[WorkerError]:
        processes, self._processes, self._workers = self._processes, None, None
        if processes is None:
            return []
        try:
            return processes.stop()
        finally:
            processes.close()

    def _there(self) -> tuple[Processes, Workers]:
        assert self._processes is not None
        assert self._workers is not None
        return self._processes, self._workers

    def _started(self, post: Post, *, replaces: bool) -> Child:
        assert self._processes is not None
        columns = [b for share in post.columns for b in share]
        name = f"{self._name} {post.number}"
        return self._processes.start(name, work, post, replaces, columns=columns)


@final
class Lent(Staff):
    """Workers that the main process started for this one, and keeps or ends.

    Args:
        context: of this process.
        workers: as they were handed over.
    """

    def __init__(self, context: Context, workers: Workers) -> None:
        self._context, self._workers = context, workers
        shares = [post.columns for post in workers.posts]  # [W][G]
        self.groups = tuple(range(x[0].start, x[-1].stop) for x in zip(*shares, strict=True))
        self.spec = workers.posts[0].making.spec

    def workers(self) -> Workers:
        return self._workers

    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        workers = self._workers
        return self._context.waiting(
            what, bell=workers.bell, children=workers.children, watch=watch, every=every
        )

    def overdue(self, child: Child, seconds: float) -> WorkerError:
        return child.blame(f"did not answer for {seconds:g} s ({child.heart})")

    def replace(self, i: int) -> None:
        raise RuntimeError("only the process that started a worker can replace it")

    dismiss = replace

    def close(self) -> list[WorkerError]:
        """Nothing: the main process ends them."""
        return []
