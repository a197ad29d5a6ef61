"""What a child process does first and last, and what it has to work with."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rlpyt import stopping
from rlpyt.descriptors import Descriptor
from rlpyt.errors import StopAsked, WorkerError
from rlpyt.processes import ending, stacks, wait
from rlpyt.processes.bell import Bell
from rlpyt.processes.box import Box
from rlpyt.processes.control import Control
from rlpyt.processes.first import HELD_BACK
from rlpyt.processes.heart import Heart
from rlpyt.processes.parcel import Parcel

if TYPE_CHECKING:
    from rlpyt.processes.start import Child


@dataclass(frozen=True)
class Birth:
    """What a child needs before it imports anything of its target."""

    name: str
    box: Box
    bell: Bell  # of this child
    main_bell: Bell
    main: Descriptor | None  # readable when the main process ends; None where there is no such
    folder: Path | None  # of stacks
    environ: dict[str, str]


@final
class Context:
    """A child's own end of what it shares with the process that started it.

    Attributes:
        name: as it was started.
        bell: rung by who asks this process for something, and when it is asked to stop.
        main_bell: rings in the main process.
        heart: beats before each call that may hang.
        control: a pipe to the main process for what is not a row.
    """

    control: Control

    def __init__(self, birth: Birth, main: int) -> None:
        self.name, self.bell, self.main_bell = birth.name, birth.bell, birth.main_bell
        self.heart: Heart = birth.box.heart
        self._box, self._main = birth.box, main

    @property
    def stop_asked(self) -> bool:
        return self._box.stop_asked

    def look(self) -> None:
        """Raise StopAsked if the main process asks for an end."""
        if self._box.stop_asked:
            raise StopAsked(f"{self.name} was asked to stop")

    def waiting(
        self,
        what: str,
        *,
        bell: Bell | None = None,
        children: Iterable[Child] = (),
        watch: Callable[[], object] | None = None,
        every: float = wait.LOOK,
    ) -> wait.Waiting:
        """A wait that ends by StopAsked, and by WorkerError if one of other children is at fault.

        Args:
            what: for messages and stacks.
            bell: this process's own where none is given.
            children: that this one drives and may watch.
            watch: called besides; raises if waiting is idle.
            every: seconds between looks at the latest.
        """
        children = tuple(children)

        def look() -> None:
            self.heart.tick()  # else one that waits for long looks like one that was stopped
            self.look()
            for child in children:
                child.look()
            if watch is not None:
                watch()

        sentinels = [self._main, *(child.sentinel for child in children)]
        if bell is None:
            bell = self.bell
        elif bell is not self.bell:
            sentinels.append(self.bell.fileno())  # rung when this process is asked to stop
        return wait.Waiting(bell, what, look, sentinels=sentinels, every=every, watch_rings=True)


def live(first: Parcel, rest: Parcel) -> int:
    """All that follows the very first; returns the exit code."""
    try:
        birth: Birth = first.unpack()
    except BaseException:
        traceback.print_exc()
        return 1
    return _work(birth, rest)


def _work(birth: Birth, rest: Parcel) -> int:
    box = birth.box
    try:
        context = _settle(birth)
        target, args, control = rest.unpack()
        context.control = Control(control, "the main process", context.look)
        target(context, *args)
        box.finish()
        return 0
    except StopAsked:
        box.finish()
        return 0
    except BaseException as error:  # whatever it is: what follows is the end of the process
        box.fail(_summary(error), _text(error), secondary=_is_secondary(error))
        return 1
    finally:
        birth.main_bell.ring()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()


def _settle(birth: Birth) -> Context:
    """See to it that this process ends with the main one and can be asked what it does."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    main = birth.main.fileno() if birth.main else parent.sentinel
    ending.end_after(main)
    _leave_fork_server()
    _keep_descriptors()
    wait.waits = birth.box.waits
    stopping.listen_to(lambda: birth.box.stop_asked)
    stacks.keep(birth.folder, birth.name)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    os.environ.clear()
    os.environ.update(birth.environ)
    return Context(birth, main)


def _is_secondary(error: BaseException | None) -> bool:
    """Whether another process's failure is behind it."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, WorkerError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _summary(error: BaseException) -> str:
    """One line, like the last of a traceback."""
    try:
        text = next(iter(str(error).splitlines()), "")
    except BaseException:
        text = "it has no text"
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # of an exception whose own text cannot be made
        return "".join(traceback.format_tb(error.__traceback__))


def _leave_fork_server() -> None:
    """Let the fork server end with the main process, whose death it then passes on.

    Every child holds the write end of the pipe whose closing ends the server.
    """
    server: Any = forkserver._forkserver
    if server._inherited_fds is None:
        return
    alive, server._forkserver_alive_fd = server._forkserver_alive_fd, None
    if alive is not None:
        os.close(alive)
    ending.end_with_parent()


def _keep_descriptors() -> None:
    """Pass nothing on to programs that this process starts: they could outlive it."""
    with suppress(FileNotFoundError):
        for number in os.listdir("/dev/fd"):
            with suppress(OSError):  # that of the listing itself
                os.set_inheritable(int(number), int(number) <= 2)
