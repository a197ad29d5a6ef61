"""Numbered messages to other processes, and the answers to them, in whatever order they come."""

from __future__ import annotations

import math
from typing import Any, final

from rlpyt.processes.handle import Child
from rlpyt.processes.wait import Waiting


@final
class Messages:
    """What one process asks others, which answer with the number of the message.

    An answer that nobody waits for any more, because another process failed meanwhile, is left out
    when the next one is heard.
    """

    def __init__(self) -> None:
        self._count = 0

    def say(self, child: Child, what: str, *given: Any, seconds: float) -> int:
        """Send a message; returns the number that its answer will have.

        Args:
            seconds: that it may take a process to read one; WaitedTooLong if it does not.
        """
        self._count += 1
        child.control.send((self._count, what, given), seconds)
        child.bell.ring()
        return self._count

    def hear(self, child: Child, number: int, waiting: Waiting, seconds: float) -> Any:
        """The answer of this number.

        Args:
            waiting: for a ring that follows each answer; sets the limits.
            seconds: that the rest of an answer may take after its beginning.
        """
        while True:
            waiting.until(child.control.has_message, math.inf, f"an answer of {child.name}")
            heard, answer = child.control.receive(seconds)
            if heard == number:
                return answer
