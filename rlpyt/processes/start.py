"""The children of a run: started, watched and ended by the one process that owns them."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401  # what it registers to happen at exit comes after ours
import os
import secrets
import signal
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self, final

from rlpyt.descriptors import Descriptor
from rlpyt.errors import WorkerError
from rlpyt.processes import control, ending, server, stacks, wait
from rlpyt.processes.bell import Bell
from rlpyt.processes.box import Box
from rlpyt.processes.child import Birth
from rlpyt.processes.control import Control
from rlpyt.processes.handle import Child, end_strays, ends_of
from rlpyt.processes.parcel import Parcel
from rlpyt.storage import Memory

_DUMP = 1.0  # seconds for all children to write their stacks
_SHUTDOWN = 10.0  # seconds for all children together to leave by themselves
_HURRY = 1.0  # seconds for one call of each, once some child was found to hang


@final
class Processes:
    """Children of this process, which leave nothing behind when they are closed, or it ends.

    Args:
        folder: of the run; stacks are written to files in its folder `stacks`.
        start_method: how they start; the default forks from a small server.
        preload: modules that the fork server imports once for all; the first use decides.
    """

    def __init__(
        self,
        folder: Path | None = None,
        start_method: server.StartMethod = server.DEFAULT,
        preload: Sequence[str] = (),
    ) -> None:
        self.bell = Bell()  # rung by all children
        self._stacks = folder / "stacks" if folder else None
        self._method: server.StartMethod = start_method
        self._preload = ("rlpyt.processes.child", *preload, "rlpyt.processes.leave")
        self._children: list[Child] = []
        self._begun, self._hangs = time.monotonic(), False
        self._main = Descriptor(os.pidfd_open(os.getpid())) if hasattr(os, "pidfd_open") else None
        self._answering = ExitStack()
        self._answering.enter_context(stacks.answering(self._stacks))
        stacks.add(self)
        _open[id(self)] = self._children, os.getpid()
        self._on_exit = weakref.finalize(self, _forgotten, id(self))
        self._on_exit.atexit = False
        atexit.unregister(_kill_all)
        atexit.register(_kill_all)  # the last registered, the first to run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(self._children)

    def start(
        self,
        name: str,
        target: Callable[..., object],
        *args: object,
        columns: Sequence[int] = (),
    ) -> Child:
        """Start a child that calls `target(context, *args)`; see `child.Context`.

        Args:
            name: "worker 1"; for messages, and the file of its stacks.
            target: a function of a module in the package.
            args: whatever can be pickled, functions of the user's script too; memory, bells and
                other children are handed over.
            columns: of the environments that it will step.
        """
        with server.limits_told(name):
            child = self._started(name, target, args, tuple(columns))
        self._children.append(child)
        return child

    def _started(
        self,
        name: str,
        target: Callable[..., object],
        args: tuple[object, ...],
        columns: tuple[int, ...],
    ) -> Child:
        bell, box = Bell(), Box(Memory())
        ours, theirs = control.pair()
        mark = secrets.token_hex(8)
        environ = server.environ() | {ending.MARK: mark}
        birth = Birth(name, box, bell, self.bell, self._main, self._stacks, environ)
        rest = Parcel((target, args, theirs))
        process = server.start(self._method, name, Parcel(birth), rest, self._preload)
        theirs.close()
        pid = process.pid
        assert pid is not None
        try:
            ends = ends_of(process)
        except OSError:  # no descriptor is left
            process.kill()
            raise
        look = weakref.WeakMethod(self.look)  # dropped, this object must be able to go
        return Child(
            name,
            pid,
            columns,
            ends,
            bell,
            box,
            ours,
            process=process,
            folder=self._stacks,
            watch=lambda: (method := look()) and method(),
            mark=mark,
        )

    def control(self, child: Child) -> Control:
        """The pipe to a child for what is not a row."""
        return child.control

    def look(self) -> None:
        """Raise WorkerError for the first child that failed or ended: the cause of the others.

        Cheap: a few loads and one call into the system.
        """
        children = self._children
        ended = ending.ready([child.sentinel for child in children])
        if not ended and not any(child.box.troubled for child in children):
            return
        errors = [(child, error) for child in children if (error := child.error())]
        if not errors:
            return
        child, error = min(errors, key=lambda pair: _rank(pair[0]))
        if child.box.blamed and child.alive():  # by a process that may not end it
            self._end_hung(child)
            error = child.error() or error
        raise error

    def overdue(self, child: Child, seconds: float) -> WorkerError:
        """Dump all stacks and kill a child that did nothing for `seconds`; the error to raise."""
        doing = str(child.heart) or "between calls"
        stopped = "; it was stopped (SIGSTOP)" if stacks.is_stopped(child.pid) else ""
        error = child.blame(f"did not answer for {seconds:g} s ({doing}) and was killed{stopped}")
        self._end_hung(child)
        return child.error() or error

    def _end_hung(self, child: Child) -> None:
        self._hangs = True
        begin = stacks.size(self._stacks, child.name) if self._stacks else 0
        self.dump_stacks()
        if self._stacks:
            child.stacks_when_hung = stacks.written(self._stacks, child.name, begin)
        child.kill()

    def waiting(
        self,
        what: str,
        *,
        bell: Bell | None = None,
        children: Iterable[Child] | None = None,
        watch: Callable[[], object] | None = None,
        every: float = wait.LOOK,
    ) -> wait.Waiting:
        """A wait that ends by WorkerError if a child is at fault.

        Args:
            what: for messages and stacks.
            bell: that of this object where none is given.
            children: whose end wakes; all there are now where none are given.
            watch: in place of `look`; raises if waiting is idle.
            every: seconds between looks at the latest.
        """
        children = self._children if children is None else children
        sentinels = [child.sentinel for child in children]
        watch = watch or self.look
        return wait.Waiting(
            bell or self.bell,
            what,
            watch,
            sentinels=sentinels,
            every=every,
            late=self.dump_stacks,
        )

    def dump_stacks(self) -> None:
        """Let all children write their stacks; bounded, also where one is stopped."""
        children, folder = self._children, self._stacks
        stopped = [child for child in children if stacks.is_stopped(child.pid)]
        lines = [f"the main process (pid {os.getpid()}) {wait.waits}"]
        for child in children:
            state = "is stopped (SIGSTOP) and " if child in stopped else ""
            lines.append(f"{child.name} (pid {child.pid}) {state}{child.box.waits}")
        stacks.note(folder, lines)
        begins = {c: stacks.size(folder, c.name) if folder else 0 for c in children}
        for child in children:
            if child.alive():
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _DUMP
        awaited = [child for child in children if child not in stopped]
        while folder and awaited and time.monotonic() < deadline:
            time.sleep(0.002)
            awaited = [
                c for c in awaited if c.alive() and not stacks.whole(folder, c.name, begins[c])
            ]

    def forget(self, child: Child) -> None:
        """Close one child, which is looked at no more."""
        child.close()
        self._children.remove(child)

    def stop(self, seconds: float = _SHUTDOWN) -> list[WorkerError]:
        """Ask all children to end, and kill those that do not; returns what went wrong then.

        Where one was found to hang, or kept this process waiting when it was asked to stop, those
        that do not come out of a call are not waited for.
        """
        for child in self._children:
            child.box.ask_to_stop()
            with suppress(ValueError):  # closed
                child.bell.ring()
        begun = time.monotonic()
        hurry = self._hangs or wait.gave_up_at > self._begun
        waiting = [child for child in self._children if child.alive()]
        while waiting and (left := begun + seconds - time.monotonic()) > 0:
            ending.ready([child.sentinel for child in waiting], min(left, _HURRY / 4))
            waiting = [child for child in waiting if child.alive()]
            if hurry:
                for child in [x for x in waiting if x.heart.age(begun) > _HURRY]:
                    self._end_stuck(child, _HURRY)
                    waiting.remove(child)
        for child in waiting:
            self._end_stuck(child, seconds)
        errors = [error for child in self._children if (error := child.error())]
        self.kill()
        return errors

    def _end_stuck(self, child: Child, seconds: float) -> None:
        doing = f" ({child.heart})" if str(child.heart) else ""
        child.blame(f"did not end in {seconds:g} s{doing} and was killed")
        child.kill()

    def close(self) -> None:
        """Stop what still runs and give everything back; a second time nothing happens."""
        try:
            self.stop()
        finally:  # a second Ctrl-C, say
            self.kill()
            for child in self._children:
                child.close()
            self._children.clear()
            self.bell.close()
            if self._main is not None:
                self._main.close()
            self._on_exit()
            self._answering.close()
            stacks.remove(self)

    def kill(self) -> None:
        """End all children at once."""
        _kill(self._children, os.getpid())


_open: dict[int, tuple[list[Child], int]] = {}
"""The children of each object that is not closed, and the process that started them."""


def _kill(children: list[Child], owner: int) -> None:
    if owner == os.getpid():  # not in a fork that somebody made of this process
        for child in children:
            child.strike()
        for child in children:
            child.reap()
        end_strays(children)


def _kill_all() -> None:
    """At exit: multiprocessing would ask politely, which is ignored, and wait without limit."""
    for children, owner in list(_open.values()):
        _kill(children, owner)


def _forgotten(key: int) -> None:
    _kill(*_open.pop(key))


def _rank(child: Child) -> tuple[bool, float]:
    """Causes before consequences, then the earlier; who was killed could leave no time."""
    box = child.box
    return box.secondary, box.failed_at if box.failed else -1.0
