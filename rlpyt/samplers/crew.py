"""Replicas, and who has them: the process that started them, or one that it lent them to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from rlpyt.errors import WorkerError
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.handle import Child
from rlpyt.processes.start import Processes
from rlpyt.processes.wait import Waiting
from rlpyt.samplers.published import Published
from rlpyt.samplers.replica import Desk, MakePart, replica
from rlpyt.storage import Memory
from rlpyt.vector.columns import cut


@final
class Crew:
    """Replicas with what they are driven by; a process that is handed it can drive them.

    Args:
        children: one for each part of the columns.
        columns: of each.
        desk: where they are asked.
        weights: memory in which they find the newest.
        bell: of their driver.
    """

    def __init__(
        self,
        children: list[Child],
        columns: tuple[slice, ...],
        desk: Desk,
        weights: Memory,
        bell: Bell,
    ) -> None:
        self.children, self.columns, self.desk = children, columns, desk
        self.weights, self.bell = weights, bell
        self.published: Published | None = None  # in the driver, once it has

    def __reduce__(self) -> tuple[Any, ...]:
        return Crew, (self.children, self.columns, self.desk, self.weights, self.bell)

    def publish(self, agent: Any) -> None:
        """Let replicas act with an agent's present weights from the next window on."""
        if self.published is None:
            self.published = Published(agent, self.weights)
        self.published.publish()


class Staff(ABC):
    """Has the replicas that a `ReplicatedSampler` drives."""

    @abstractmethod
    def crew(self) -> Crew:
        """The replicas; they are started when this is first asked for."""

    @abstractmethod
    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        """A wait for the replicas there are now; it ends by WorkerError if one is at fault."""

    @abstractmethod
    def overdue(self, child: Child, seconds: float, option: str) -> WorkerError:
        """What to raise where a replica did nothing for so long; it is ended.

        Args:
            option: that sets how long it may take.
        """

    @abstractmethod
    def replace(self, i: int) -> None:
        """Put a new process in the place of a failed one, if this process can."""

    @abstractmethod
    def dismiss(self, i: int) -> None:
        """End what is left of a failed one, if this process can."""

    @abstractmethod
    def close(self) -> None:
        """End those that this process started."""


@final
class Hired(Staff):
    """Replicas of the process that starts them.

    Args:
        processes: makes what they are started by.
        make: makes the sampler of some columns; it is handed to them.
        agent: whose weights they will act with.
        num_envs, replicas: B and W.
        bell: of the driver, where that is another process.
    """

    def __init__(
        self,
        processes: Callable[[], Processes],
        make: MakePart,
        agent: Any,
        num_envs: int,
        replicas: int,
        bell: Bell | None = None,
    ) -> None:
        self._make_processes, self._make, self._agent = processes, make, agent
        self._columns = tuple(slice(x.start, x.stop) for x in cut(range(num_envs), replicas))
        self._bell = bell
        self._processes: Processes | None = None
        self._crew: Crew | None = None

    def crew(self) -> Crew:
        if self._crew is None:
            processes = self._processes = self._make_processes()
            desk = Desk(Memory(), len(self._columns))
            crew = Crew([], self._columns, desk, Memory(), self._bell or processes.bell)
            crew.published = Published(self._agent, crew.weights)  # replicas find it made
            self._crew = crew
            crew.children += [self._started(i) for i in range(len(self._columns))]
        return self._crew

    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        processes, crew = self._there()

        def look() -> None:
            processes.look()
            watch()

        return processes.waiting(what, bell=crew.bell, watch=look, every=every)

    def overdue(self, child: Child, seconds: float, option: str) -> WorkerError:
        error = self._there()[0].overdue(child, seconds)
        error.how += f"; {option} sets how long it may take"
        return error

    def replace(self, i: int) -> None:
        _, crew = self._there()
        self.dismiss(i)
        crew.children[i] = self._started(i)

    def dismiss(self, i: int) -> None:
        processes, crew = self._there()
        processes.forget(crew.children[i])

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()

    def _there(self) -> tuple[Processes, Crew]:
        assert self._processes is not None
        assert self._crew is not None
        return self._processes, self._crew

    def _started(self, i: int) -> Child:
        processes, crew = self._there()
        at = self._columns[i]
        given = self._make, crew.weights, crew.desk, i, at, crew.bell
        return processes.start(f"replica {i}", replica, *given, columns=range(at.start, at.stop))


@final
class Lent(Staff):
    """Replicas that the main process started for this one, and keeps or ends.

    Args:
        context: of this process.
        crew: as it was handed over.
    """

    def __init__(self, context: Context, crew: Crew) -> None:
        self._context, self._crew = context, crew

    def crew(self) -> Crew:
        return self._crew

    def waiting(self, what: str, watch: Callable[[], object], every: float) -> Waiting:
        crew = self._crew
        return self._context.waiting(
            what, bell=crew.bell, children=crew.children, watch=watch, every=every
        )

    def overdue(self, child: Child, seconds: float, option: str) -> WorkerError:
        doing = str(child.heart) or "between calls"
        return child.blame(
            f"did not answer for {seconds:g} s ({doing}); {option} sets how long it may take"
        )

    def replace(self, i: int) -> None:
        raise RuntimeError("only the process that started a replica can replace it")

    dismiss = replace

    def close(self) -> None:
        """Nothing: the main process ends them."""
