"""A writer that overtakes a reader of a ring, three times."""

from collections.abc import Callable
from typing import Any

import pytest

from rlpyt.ring import Ring


def overtaken(ring: Ring, patch: pytest.MonkeyPatch, write: Callable[[], object]) -> list[int]:
    """Have every other item of the next three gathers be lost, each time to what `write` writes.

    Returns:
        How many items each gather is asked for, from now on.
    """
    gather, asked = ring.gather, []

    def losing(window: Any, starts: Any, columns: Any, items: Any = None) -> Any:
        whole = gather(window, starts, columns, items)
        asked.append(len(starts))
        if len(asked) < 4:
            whole[::2] = False
            write()
        return whole

    patch.setattr(ring, "gather", losing)
    return asked
