"""The one wait of the code base: bounded, and aware of deaths and of being asked to stop."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Iterable
from typing import Any, final

from rlpyt import stopping
from rlpyt.errors import StopAsked, WaitedTooLong
from rlpyt.processes import heart
from rlpyt.processes.bell import Bell
from rlpyt.processes.box import Waits

SPIN = 100e-6  # seconds in which an answer often comes; sleeping and waking takes about as long
LOOK = 1.0  # seconds after which a wait looks about at the latest
GRACE = 5.0  # seconds that a wait may take once the run was asked to stop

waits = Waits()
"""What this process waits for; a child's lies in memory that the main process reads."""

gave_up_at = -math.inf
"""When this process last gave up waiting because it was asked to stop: somebody hangs."""

_yield: Callable[[], Any] = getattr(os, "sched_yield", lambda: time.sleep(0))


@final
class Waiting:
    """Waits, again and again, for something that comes with a ring of the same bell.

    Args:
        bell: rung after what is waited for was stored.
        what: for messages and stacks: "rows of worker 1".
        watch: called when a sentinel fires, and once in `every` seconds; raises if waiting is idle.
        sentinels: descriptors that become readable when a process that is depended on ends.
        every: seconds, LOOK at most.
        watch_rings: call `watch` after every ring that did not bring what is waited for, too.
        late: called before WaitedTooLong is raised.
    """

    def __init__(
        self,
        bell: Bell,
        what: str,
        watch: Callable[[], object],
        *,
        sentinels: Iterable[int] = (),
        every: float = LOOK,
        watch_rings: bool = False,
        late: Callable[[], object] | None = None,
    ) -> None:
        self._bell, self._number, self._what = bell, bell.fileno(), what
        self._watch, self._every, self._watch_rings = watch, min(every, LOOK), watch_rings
        self._late = late
        self._poll = select.poll()
        for number in (self._number, *sentinels):
            self._poll.register(number, select.POLLIN)

    def until(self, ready: Callable[[], object], seconds: float, what: str = "") -> None:
        """Return once `ready`.

        Args:
            ready: looks at shared memory; cheap.
            seconds: after which WaitedTooLong is raised; infinite only where `watch` sets limits.
            what: in place of the constructor's.
        """
        if ready():
            return
        end = time.perf_counter() + SPIN
        while time.perf_counter() < end:
            _yield()
            if ready():
                return
        what = what or self._what
        waits.begin(what.encode())
        try:
            self._sleep(ready, seconds, what)
        finally:
            waits.end()

    def _sleep(self, ready: Callable[[], object], seconds: float, what: str) -> None:
        begun = looked = time.monotonic()
        while True:
            before = time.monotonic()
            left = min(looked + self._every, begun + seconds) - before
            fired = [number for number, _ in self._poll.poll(max(0, math.ceil(left * 1000)))]
            rung = self._number in fired
            if rung:
                self._bell.clear()
            if ready():  # also where a sentinel fired: it may have come just before
                return
            now = time.monotonic()
            if now - before > self._every + LOOK:  # this process was suspended, and may be alone
                heart.resumed_at = begun = now
            if len(fired) > rung or now - looked >= self._every or (rung and self._watch_rings):
                looked = now
                self._watch()
                for number in fired:
                    if number != self._number:  # that it ended is known, and no reason to raise
                        self._poll.unregister(number)
            check(begun, begun + seconds, what, self._late)


def wait(
    ready: Callable[[], object],
    bell: Bell,
    *,
    watch: Callable[[], object],
    seconds: float,
    what: str,
    sentinels: Iterable[int] = (),
) -> None:
    """Wait once; see `Waiting`."""
    Waiting(bell, what, watch, sentinels=sentinels).until(ready, seconds)


def check(
    begun: float, deadline: float, what: str, late: Callable[[], object] | None = None
) -> None:
    """Raise if a wait since `begun` has lasted long enough."""
    now, asked = time.monotonic(), stopping.asked_at()
    if asked is not None and now >= max(asked, begun) + GRACE:
        global gave_up_at
        gave_up_at = now
        raise StopAsked(f"gave up waiting for {what}: the run was asked to stop {GRACE:.0f} s ago")
    if now >= deadline:
        if late is not None:
            late()
        raise WaitedTooLong(f"waited {now - begun:.1f} s for {what}")
