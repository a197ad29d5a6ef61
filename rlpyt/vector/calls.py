"""Calls into users' environments: somebody watches how long each takes, and errors name it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from rlpyt.envs.exits import no_exit, refuse_exit
from rlpyt.errors import EnvironmentFault
from rlpyt.processes.heart import STEP, Heart

Step = Callable[[Any], tuple[Any, ...]]
_FORM = (
    "step() must return (observation, reward, terminated, truncated, info) and reset() "
    "(observation, info); wrap an environment of the older form, whose step() returns four values "
    "(shimmy's GymV21CompatibilityV0)"
)


class Calls:
    """What is said of a call, by the column of its environment.

    Args:
        env_id: of the environments.
        numbers: of these columns among those of the run.
        total: how many columns the run has.
        heart: beats before each call, where somebody watches.
    """

    def __init__(self, env_id: str, numbers: range, total: int, heart: Heart | None) -> None:
        self._id, self.numbers, self._total, self._heart = env_id, numbers, total, heart

    def beat(self, b: int, call: int) -> None:
        """Say that a call of column b begins: one of `processes.heart`."""
        if self._heart is not None:
            self._heart.beat(self.numbers[b], call)

    def rest(self) -> None:
        """Say that no call is under way."""
        if self._heart is not None:
            self._heart.rest()

    def beating(self, steps: list[Step]) -> list[Step]:
        """The same steps, each with a heartbeat before it."""
        if self._heart is None:
            return steps
        return [
            _beating(step, self._heart, number)
            for step, number in zip(steps, self.numbers, strict=True)
        ]

    def short(self, b: int) -> str:
        """An environment, as "environment 1 (Foo-v0)"."""
        return f"environment {self.numbers[b]} ({self._id})"

    def no_exit(self, b: int, call: str) -> AbstractContextManager[None]:
        """Have a call that would end the process be a fault of the environment."""
        return no_exit(f"{self._called(b)}, {call}")

    def name(self, error: BaseException, b: int, call: str) -> None:
        """Say in an error which environment it came from, and in which call."""
        name = self._called(b)
        refuse_exit(error, f"{name}, {call}")
        if _is_of_form(error):
            raise EnvironmentFault(f"{name}, {call}: {error}; {_FORM}") from None
        if isinstance(error, EnvironmentFault):
            error.args = (f"{name}, {call}: {error}",)
        else:
            error.add_note(f"in {name}, {call}")

    def _called(self, b: int) -> str:
        return f"environment {self.numbers[b]} of {self._total} ({self._id})"


def _is_of_form(error: BaseException) -> bool:
    """Whether what a call returned could not be taken apart: nothing inside of it has raised."""
    at = error.__traceback__
    inside = at is not None and at.tb_next is not None
    return isinstance(error, ValueError | TypeError) and not inside and "unpack" in str(error)


def _beating(step: Step, heart: Heart, number: int) -> Step:
    beat = heart.beat

    def beaten(action: Any) -> tuple[Any, ...]:
        beat(number, STEP)
        return step(action)

    return beaten
