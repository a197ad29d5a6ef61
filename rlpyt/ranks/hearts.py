"""Ranks that are no more, noticed: each beats in a thread of its own, and listens to the others."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, final

BEAT_SECONDS: Final = 2.0
END_SECONDS: Final = 10.0
"""In which a rank ends by itself once another one has said why it failed; and in which the one that
holds the store waits for the others to have read that."""
_LEFT = b"left"


@final
class Hearts:
    """Beats for this rank, and watches the others'.

    One thread talks with the store, another judges: where a machine is cut off, talking may never
    end. A time in which this process was suspended is nobody's silence.

    Args:
        store: a connection of its own.
        rank, size: of this process.
        limit: seconds without a beat after which this process ends.
        failure: what another rank has said of its failure; "" where none has.
    """

    def __init__(
        self, store: Any, rank: int, size: int, limit: float, failure: Callable[[Any], str]
    ) -> None:
        self._store, self._rank, self._limit, self._failure = store, rank, limit, failure
        self._heard = now = time.monotonic()  # of the store
        self._seen = {r: (b"", now) for r in range(size) if r != rank}  # newest beat, and when
        self._told: tuple[str, float] | None = None  # of a failure, and when
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"ranks: {name}", daemon=True)
            for name, work in (("beat", self._beat), ("judge", self._judge))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def silent(self, seconds: float) -> list[int]:
        """Ranks that have not beaten for so long."""
        now = time.monotonic()
        return [r for r, (beat, at) in self._seen.items() if beat != _LEFT and now - at > seconds]

    def told(self) -> bool:
        """Whether another rank has said that it failed."""
        return self._told is not None

    def left(self) -> list[int]:
        """Ranks that have ended without a failure."""
        return [r for r, (beat, _) in self._seen.items() if beat == _LEFT]

    def end(self, hosts: bool) -> None:
        """No beat follows, and none is expected.

        Args:
            hosts: the store ends with this process: the others are given a moment to read it.
        """
        self._over.set()
        talking, _ = self._threads
        talking.join(BEAT_SECONDS)
        if talking.is_alive():
            return
        with suppress(Exception):
            self._store.set(f"beat/{self._rank}", _LEFT)
            until = time.monotonic() + END_SECONDS
            while hosts and time.monotonic() < until:
                self._look()
                if len(self.left()) == len(self._seen):
                    break
                time.sleep(0.05)

    def _beat(self) -> None:
        beats = 0
        while not self._over.wait(BEAT_SECONDS if beats else 0):
            beats += 1
            with suppress(Exception):  # of whichever store: none is a reason to end at once
                self._store.set(f"beat/{self._rank}", str(beats))
                self._look()
                if self._told is None and (text := self._failure(self._store)):
                    self._told = text, time.monotonic()
                self._heard = time.monotonic()

    def _judge(self) -> None:
        every, looked = BEAT_SECONDS / 2, time.monotonic()
        while not self._over.wait(every):
            now = time.monotonic()
            if now - looked > 3 * BEAT_SECONDS:  # this process was suspended
                self._forgive(now - looked)
            looked = now
            if now - self._heard > 2 * BEAT_SECONDS:  # so that no rank is heard of
                if now - self._heard > self._limit + BEAT_SECONDS:
                    self._end("the store that ranks share does not answer (stopped? cut off?)")
            elif silent := self.silent(self._limit):
                self._end(
                    f"rank {silent[0]} has not answered for {self._limit:.0f} s (stopped? cut off?)"
                )
            if self._told and now - self._told[1] > END_SECONDS:
                self._end(self._told[0])

    def _forgive(self, seconds: float) -> None:
        self._heard += seconds
        self._seen = {r: (beat, at + seconds) for r, (beat, at) in self._seen.items()}
        if self._told:
            self._told = self._told[0], self._told[1] + seconds

    def _look(self) -> None:
        for rank, (before, _) in self._seen.items():
            key = f"beat/{rank}"
            if self._store.check([key]) and (beat := self._store.get(key)) != before:
                self._seen[rank] = (beat, time.monotonic())

    def _end(self, why: str) -> None:
        """End this process, whatever it waits for; its run is resumed from what was saved."""
        print(f"rlpyt: rank {self._rank} ends: {why}", file=sys.stderr, flush=True)
        os._exit(1)
