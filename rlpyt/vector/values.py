"""What environments return beside observations, as plain numbers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from rlpyt.envs.masks import MASK, valid_actions
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import EnvironmentFault
from rlpyt.rows import Row


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


def record(spec: EnvSpec, row: Row, b: int, observation: Any, info: dict[str, Any]) -> None:
    """Write the mask and the recorded info values of one column into a row."""
    if spec.mask is not None:
        source = observation if spec.mask == "observation" else info
        mask = source.get(MASK)
        row.mask[b] = True if mask is None else valid_actions(mask, spec.mask_size)
    for name in spec.env_info:
        value = info.get(name)
        try:
            row.env_info[name][b] = np.nan if value is None else value
        except (TypeError, ValueError):
            raise EnvironmentFault(
                f"info[{name!r}] is {value!r}; only numbers can be recorded: drop --info {name}"
            ) from None
