"""How the value of an option is written and read, by its type."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from rlpyt.suggest import did_you_mean

_SUFFIXES = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}
_TOO_LARGE = 10**18  # for a count of anything, and for an array's index


@dataclass(frozen=True)
class Reader:
    """Reads one value; `many` of them make a tuple."""

    metavar: str
    read: Callable[[str], Any]  # raises ValueError with the rule that the text breaks
    many: bool = False


def reader(hint: Any) -> Reader:
    """How values of a type are read: int, float, str, Literal, X | None, tuple[X, ...]."""
    if hint is int:
        return Reader("INT", count)
    if hint is float:
        return Reader("FLOAT", number)
    if hint is str:
        return Reader("STR", str)
    if hint is bool:
        return Reader("{true,false}", truth)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return Reader("{" + ",".join(arguments) + "}", lambda text: choice(text, arguments))
    if origin is tuple:
        one = reader(arguments[0])
        return Reader(one.metavar, one.read, many=True)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (x for x in arguments if x is not type(None))
        one = reader(inner)
        return Reader(one.metavar, lambda text: None if unset(text) else one.read(text), one.many)
    raise TypeError(f"options of type {hint} cannot be read")


def count(text: str) -> int:
    """A whole number: 100000, 100_000, 100k, 1e6 and 2.5M are some."""
    digits = text.replace("_", "")
    scale = _SUFFIXES.get(digits[-1:].lower(), 1)
    try:
        value = Decimal(digits if scale == 1 else digits[:-1]) * scale
        if " " not in text and abs(value) < _TOO_LARGE and value == value.to_integral_value():
            return int(value)
    except InvalidOperation:  # no digits, or NaN compared
        pass
    raise ValueError("must be a whole number, such as 8, 100k, 1e6 or 100_000")


def number(text: str) -> float:
    """A number, infinite ones included."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number, such as 0.5 or 3e-4") from None
    if value != value:
        raise ValueError("must be a number, not NaN")
    return value


def truth(text: str) -> bool:
    """True or false, where an option may also be left open."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("must be true or false")


def choice(text: str, choices: tuple[str, ...]) -> str:
    """One of the choices."""
    if text in choices:
        return text
    raise ValueError(f"must be one of {', '.join(choices)}{did_you_mean(text, choices)}")


def unset(text: str) -> bool:
    """Whether an option that may be left open is."""
    return text.lower() in ("none", "unset")


def show(value: Any) -> str:
    """A default as the help shows it: the way it would be written."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(map(show, value)) or "none"
    if type(value) is int and value >= 10_000:
        for suffix, scale in (("M", 1_000_000), ("k", 1_000)):
            if value % scale == 0:
                return f"{value // scale}{suffix}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
