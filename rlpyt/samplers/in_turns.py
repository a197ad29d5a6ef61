"""What samplers have in common that collect when they are asked to, and rest in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from rlpyt.tree_format import like


class InTurns(ABC):
    """Takes turns with what learns: between two windows nothing moves.

    Attributes:
        window: the rows that are collected into, and the state that the agent is fed next.
    """

    window: Any

    @abstractmethod
    def snapshot_envs(self) -> dict[str, Any]:
        """The part of a snapshot that is of the environments."""

    @abstractmethod
    def restore_envs(self, state: dict[str, Any]) -> list[int]:
        """Bring them to where the row arrived that the window goes on with; see `restore`."""

    @property
    def losses(self) -> tuple[int, int]:
        """How often a process that collects was replaced, and how many columns nobody has now."""
        return 0, 0

    def rows_for(self, env_steps: int) -> int:
        """How many rows are collected next when so many env steps are missing to a run's end."""
        return self.window.rows_for(env_steps)

    def snapshot(self) -> dict[str, Any]:
        """What the next window depends on beside weights and replay."""
        envs = self.snapshot_envs()  # first: who is lost meanwhile may leave another row behind
        return {"window": self.window.carry(), "envs": envs}

    def restore(self, state: dict[str, Any]) -> list[int]:
        """Take up a snapshot, of whatever sampler; returns the columns that were cut."""
        self.window.restore(like(self.window.example_carry(), state["window"], "window"))
        return self.restore_envs(state["envs"])

    def settle(self) -> Iterable[Any]:
        """Windows that have come and were not returned by `collect`: none."""
        return ()
