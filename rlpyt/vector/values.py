"""What environments return, as plain numbers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from rlpyt.errors import EnvironmentFault


def numbers(info: dict[str, Any]) -> dict[str, float]:
    """The numeric scalars of an info; text, arrays and None are left out."""
    found = {}
    for name, value in info.items():
        if isinstance(value, int | float | np.integer | np.floating | np.bool_):
            with suppress(OverflowError):  # Python's integers have no bounds
                found[str(name)] = float(value)
    return found


def flag(value: Any) -> bool:
    """An ending, which may also be an array of one element."""
    return bool(value) if type(value) in (bool, np.bool_) else number(value) != 0


def number(value: Any) -> float:
    """A reward or flag, which may also be an array of one element."""
    number = np.asarray(value)
    if number.dtype == object and number.size == 1:
        number = np.asarray(number.item())
    if number.size != 1 or number.dtype.kind not in "biuf":
        raise EnvironmentFault(
            f"returned {value!r} as a reward or flag; step() must return (observation, reward: "
            "float, terminated: bool, truncated: bool, info)"
        )
    return number.item()
