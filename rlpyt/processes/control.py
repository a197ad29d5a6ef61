"""A pipe for what is not a row: snapshots, requests, figures. No side can block the other."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

from rlpyt import stopping
from rlpyt.descriptors import Descriptor
from rlpyt.errors import StopAsked, WaitedTooLong
from rlpyt.processes import wait
from rlpyt.processes.parcel import dumps, loads

_LENGTH = 8  # bytes in front of each message


@final
class Control:
    """One end. Messages are anything that can be pickled; they arrive whole and in order.

    Args:
        end: a stream socket that does not block.
        who: is at the other end, for messages.
        watch: called while this end waits, once a second; raises if waiting is idle.
    """

    def __init__(self, end: Descriptor, who: str, watch: Callable[[], object]) -> None:
        self._end, self._who, self.watch = end, who, watch
        self._poll = select.poll()
        self._poll.register(end.fileno(), select.POLLIN)

    def fileno(self) -> int:
        """What is readable when a message has come."""
        return self._end.fileno()

    def send(self, message: Any, seconds: float) -> None:
        """Hand over a message; WaitedTooLong where the other side does not take it in time."""
        data = dumps(message)
        rest = memoryview(len(data).to_bytes(_LENGTH, "little") + data)
        deadline = time.monotonic() + seconds
        while rest:
            with suppress(BlockingIOError):
                rest = rest[self._try(os.write, rest) :]
                continue
            self._wait(select.POLLOUT, deadline, f"{self._who} to take a message")

    def receive(self, seconds: float) -> Any:
        """The next message; WaitedTooLong where it does not come in time."""
        deadline = time.monotonic() + seconds
        length = int.from_bytes(self._read(_LENGTH, deadline), "little")
        return loads(self._read(length, deadline))

    def ask(self, message: Any, seconds: float) -> Any:
        """Send a message and receive the answer to it."""
        deadline = time.monotonic() + seconds
        self.send(message, seconds)
        return self.receive(deadline - time.monotonic())

    def has_message(self) -> bool:
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._end.close()

    def _read(self, length: int, deadline: float) -> bytearray:
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            with suppress(BlockingIOError):
                count = self._try(_read_into, rest)
                if not count:
                    self._gone()
                rest = rest[count:]
                continue
            self._wait(select.POLLIN, deadline, f"a message of {self._who}")
        return data

    def _try(self, transfer: Callable[[int, memoryview], int], data: memoryview) -> int:
        try:
            return transfer(self.fileno(), data)
        except (BrokenPipeError, ConnectionResetError):
            return self._gone()

    def _gone(self) -> int:
        self.watch()  # knows more
        raise EOFError(f"{self._who} has closed its end of the pipe")

    def _wait(self, event: int, deadline: float, what: str) -> None:
        poll = select.poll()
        poll.register(self.fileno(), event)
        wait.waits.begin(what.encode())
        begun = time.monotonic()
        try:
            while True:
                left = min(deadline - time.monotonic(), wait.LOOK)
                if poll.poll(max(0.0, left * 1000)):
                    return
                self.watch()
                now, asked = time.monotonic(), stopping.asked_at()
                if asked is not None and now >= asked + wait.GRACE:
                    raise StopAsked(f"gave up waiting for {what}: the run was asked to stop")
                if now >= deadline:
                    raise WaitedTooLong(f"waited {now - begun:.1f} s for {what}")
        finally:
            wait.waits.end()


def _read_into(number: int, data: memoryview) -> int:
    return os.readv(number, [data])


def pair() -> tuple[Descriptor, Descriptor]:
    """The two ends of a new pipe."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return Descriptor(ends[0].detach()), Descriptor(ends[1].detach())
