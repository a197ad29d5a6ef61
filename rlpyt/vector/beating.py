"""Environments that do not beat a heart themselves: pools, whose threads step out of sight."""

from __future__ import annotations

from typing import Any, final

from rlpyt.processes.heart import CLOSE, RESET, RESTORE, STEP, Heart
from rlpyt.rows import Row
from rlpyt.vector.in_process import Ended


@final
class Beating:
    """The same environments, with a heartbeat before each call that may not return.

    Args:
        envs: all of them.
        heart: shows what is waited for to another process.
    """

    def __init__(self, envs: Any, heart: Heart) -> None:
        self._envs, self._heart = envs, heart
        self.spec, self.num_envs, self.groups = envs.spec, envs.num_envs, envs.groups

    def reset(self, row: Row) -> None:
        """Write the first observation of every column into `row`."""
        self._heart.beat(-1, RESET)
        self._envs.reset(row)

    def send(self, row: Row, next_row: Row, group: int = 0) -> None:
        """Have the actions of a group's row executed."""
        self._envs.send(row, next_row, group)

    def recv(self, row: Row, group: int = 0) -> Ended:
        """Wait for a group's row; the columns of it whose episodes ended there."""
        self._heart.beat(-1, STEP)
        return self._envs.recv(row, group)

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on."""
        return self._envs.snapshot()

    def restore(self, state: dict[str, Any], row: Row) -> list[int]:
        """Go on where `row` arrived; returns the columns that were cut."""
        self._heart.beat(-1, RESTORE)
        return self._envs.restore(state, row)

    def metrics(self) -> dict[str, float]:
        """What a line of the log says of them."""
        return self._envs.metrics()

    def close(self) -> None:
        """End every environment."""
        self._heart.beat(-1, CLOSE)
        self._envs.close()
