"""How ranks wait for each other where they meet: not longer than a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def within(seconds: float, make: Callable[[], T]) -> T:
    """What is made, from a thread that nobody waits for any longer.

    Raises:
        TimeoutError: it is not made in time.
    """
    found: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            found.append(make())
        except Exception as error:
            errors.append(error)

    maker = threading.Thread(target=run, name="ranks: meet", daemon=True)
    maker.start()
    maker.join(seconds)
    if errors:
        raise errors[0]
    if not found:
        raise TimeoutError(f"what listens there did not answer as a rank does in {seconds:.0f} s")
    return found[0]


def await_all(store: Any, size: int, seconds: float) -> None:
    """Wait until every rank has come.

    Raises:
        TimeoutError: some have not, and are named.
    """
    until = time.monotonic() + seconds
    while True:
        missing = [r for r in range(size) if not store.check([f"came/{r}"])]
        if not missing:
            return
        if time.monotonic() > until:
            named = ", ".join(f"rank {r}" for r in missing)
            raise TimeoutError(f"{named} did not come in {seconds:.0f} s")
        time.sleep(0.05)
