"""What an option is searched over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlpyt.errors import UsageError
from rlpyt.flags import Flag
from rlpyt.launch.jobs import split
from rlpyt.suggest import did_you_mean

DIGITS = 6  # of a number that is drawn; gamma near 1 needs them


@dataclass(frozen=True)
class Space:
    """An option, and the values that it may take: a range of numbers, or choices."""

    name: str  # as it was typed
    low: float = 0.0
    high: float = 0.0
    log: bool = False  # draw the logarithm uniformly
    whole: bool = False
    choices: tuple[str, ...] = ()

    def text(self, value: float | str) -> str:
        """A value as it is typed."""
        if self.choices:
            return str(value)
        return (
            str(int(value)) if self.whole else f"{min(max(value, self.low), self.high):.{DIGITS}g}"
        )

    def examples(self) -> tuple[str, ...]:
        """Values that show whether all can be: the choices, or both ends."""
        return self.choices or (self.text(self.low), self.text(self.high))


def read_space(
    text: str, flags: Sequence[Flag], count: Callable[[str], int], number: Callable[[str], float]
) -> Space:
    """A space as it is typed: name=low..high, name=log:low..high or name=value,value.

    Args:
        flags: all options that there are.
        count, number: read a whole number, and any number.
    """
    name, equals, values = text.partition("=")
    name = name.strip().lstrip("-")
    spelling = f"--{name.replace('_', '-')}"
    flag = next((flag for flag in flags if spelling in flag.spellings), None)
    if flag is None:
        known = [spelling for flag in flags for spelling in flag.spellings]
        raise UsageError(f"there is no option {spelling}{did_you_mean(spelling, known)}")
    form = f"--over {text}: write name=low..high, name=log:low..high or name=value,value"
    if not equals or not values:
        raise UsageError(form)
    log, ends = values.startswith("log:"), values.removeprefix("log:").split("..")
    if len(ends) != 2:
        choices = tuple(split(values, ","))
        if log or len(set(choices)) < 2 or not all(choices):
            raise UsageError(f"{form}; of choices there are at least two, each once")
        return Space(name, choices=choices)
    whole = "int" in str(flag.hint)
    if not whole and "float" not in str(flag.hint):
        raise UsageError(f"--over {text}: {spelling} is no number; write {name}=value,value")
    try:
        low, high = ((count if whole else number)(end) for end in ends)
    except ValueError as error:
        raise UsageError(f"--over {text}: each end {error}") from None
    if not low < high or (log and low <= 0):
        raise UsageError(
            f"--over {text}: from {ends[0]} to {ends[1]} is no range"
            f"{' of logarithms' if log else ''}; write the lower end first"
            f"{', above 0' if log else ''}"
        )
    return Space(name, low, high, log, whole)
