"""A pipe for what is not a row: snapshots, requests, figures. No side can block the other."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, final

from rlpyt.descriptors import Descriptor
from rlpyt.processes import wait
from rlpyt.processes.pickling import dumps, loads

_LENGTH = 8  # bytes in front of each message
_CHUNK = 2**20


@final
class Control:
    """One end. Messages are anything that can be pickled; they arrive whole and in order.

    Args:
        end: a stream socket that does not block.
        who: is at the other end, for messages.
        watch: called while this end waits, once a second; raises if waiting is idle.
    """

    def __init__(self, end: Descriptor, who: str, watch: Callable[[], object]) -> None:
        self._end, self._who, self._watch = end, who, watch
        # What a time-out leaves unfinished: the next call goes on with it.
        self._outgoing, self._incoming = bytearray(), bytearray()

    def fileno(self) -> int:
        """What becomes readable when a message comes."""
        return self._end.fileno()

    def send(self, message: Any, seconds: float) -> None:
        """Hand over a message; WaitedTooLong where the other side does not take it in time."""
        self.put(message)
        self.flush(seconds)

    def put(self, message: Any) -> None:
        """Put down a message, which is handed over by `flush`."""
        data = dumps(message)
        self._outgoing += len(data).to_bytes(_LENGTH, "little") + data

    @property
    def unsent(self) -> int:
        """Bytes of messages that were not handed over yet."""
        return len(self._outgoing)

    def flush(self, seconds: float) -> None:
        """Hand over what is left of messages; as `send`, which may have been interrupted."""
        deadline = time.monotonic() + seconds
        while self._outgoing:
            try:
                sent = os.write(self.fileno(), memoryview(self._outgoing)[:_CHUNK])
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline, f"{self._who} to take a message")
            except (BrokenPipeError, ConnectionResetError):
                self._raise_gone()
            else:
                del self._outgoing[:sent]

    def receive(self, seconds: float) -> Any:
        """The next message; WaitedTooLong where it does not come in time."""
        deadline = time.monotonic() + seconds
        while (end := self._end_of_first()) is None:
            self._read(deadline)
        data = bytes(self._incoming[_LENGTH:end])
        del self._incoming[:end]
        return loads(data)

    def ask(self, message: Any, seconds: float) -> Any:
        """Send a message and receive the answer to it."""
        deadline = time.monotonic() + seconds
        self.send(message, seconds)
        return self.receive(deadline - time.monotonic())

    def has_message(self) -> bool:
        """Whether `receive` has something to begin with."""
        if self._incoming:
            return True
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _end_of_first(self) -> int | None:
        """Where the first message ends; None where not all of it has come."""
        length = int.from_bytes(self._incoming[:_LENGTH], "little")
        end = _LENGTH + length
        return end if len(self._incoming) >= max(end, _LENGTH) else None

    def _read(self, deadline: float) -> None:
        try:
            data = os.read(self.fileno(), _CHUNK)
        except BlockingIOError:
            self._wait(select.POLLIN, deadline, f"a message of {self._who}")
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._raise_gone()
        self._incoming += data

    def _raise_gone(self) -> None:
        deadline = time.monotonic() + wait.LOOK
        while time.monotonic() < deadline:
            self._watch()  # knows more, but a process closes its files a little before it ends
            time.sleep(0.005)
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
                self._watch()
                wait.check(begun, deadline, what)
        finally:
            wait.waits.end()


def pair() -> tuple[Descriptor, Descriptor]:
    """The two ends of a new pipe."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return Descriptor(ends[0].detach()), Descriptor(ends[1].detach())
