"""The options of a run by flat name, derived from their dataclasses: for `cli` and `api`."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
import typing
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from rlpyt.suggest import did_you_mean

_Arg: Any = type(arg())


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option: a field of a dataclass, and how it is written."""

    name: str  # the field's: num_envs
    path: tuple[str, ...]  # of the dataclass within the outermost one: ("env",)
    spellings: tuple[str, ...]  # all that are accepted: ("--num-envs", "--n-envs")
    hint: Any  # its type
    positional: bool = False

    @property
    def text(self) -> str:
        """The spelling that is ours: --num-envs."""
        return self.name.upper() if self.positional else self.spellings[0]


def flags_of(kind: Any, path: tuple[str, ...] = ()) -> Iterator[Flag]:
    """The flags of a dataclass, those of the dataclasses in it included.

    Args:
        kind: a dataclass; fields whose type is a type variable are found in an instance only.
        path: where it lies in an outer one.
    """
    cls = kind if isinstance(kind, type) else type(kind)
    hints = _hints(cls)
    for field in dataclasses.fields(cls):
        hint, extras = hints[field.name], ()
        if typing.get_origin(hint) is Annotated:
            hint, *extras = typing.get_args(hint)
        inner = hint if dataclasses.is_dataclass(hint) else getattr(kind, field.name, None)
        if dataclasses.is_dataclass(inner):
            yield from flags_of(inner, (*path, field.name))
            continue
        own = f"--{field.name.replace('_', '-')}"
        others: list[str] = []
        for extra in extras:
            if isinstance(extra, _Arg):
                others += [f"--{extra.name}"] if extra.name else []
                others += extra.aliases or ()
        spellings = tuple(dict.fromkeys((own, *others)))
        yield Flag(field.name, path, spellings, hint, Positional in extras)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """Types of the fields; a sweep asks for those of every run."""
    return typing.get_type_hints(cls, include_extras=True)


def fitted(value: Any, hint: Any) -> Any:
    """A value from Python as an option of this type holds it: NumPy's numbers as plain ones.

    Raises:
        ValueError: with the rule that the value breaks.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (x for x in arguments if x is not type(None))
        return None if value is None else fitted(value, inner)
    if origin is Literal:
        if value in arguments:
            return value
        choices = ", ".join(arguments)
        raise ValueError(f"must be one of {choices}{did_you_mean(str(value), arguments)}")
    if origin is tuple and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(fitted(x, arguments[0]) for x in value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str | os.PathLike):
        return os.fspath(value)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if hint is float and number:
        return float(value)
    if hint is int and number and value % 1 == 0:  # 1e6 is one
        return int(value)  # pyright: ignore[reportArgumentType]
    raise ValueError(f"must be {_KINDS.get(hint, 'a list')}")


_KINDS = {bool: "True or False", str: "text", float: "a number", int: "a whole number"}


def replaced(instance: Any, values: dict[Flag, Any]) -> Any:
    """The dataclass instance with the flags' values in place of its own, at any depth."""
    changes: dict[str, Any] = {}
    inner: dict[str, dict[Flag, Any]] = {}
    for flag, value in values.items():
        if flag.path:
            below = dataclasses.replace(flag, path=flag.path[1:])
            inner.setdefault(flag.path[0], {})[below] = value
        else:
            changes[flag.name] = value
    for name, part in inner.items():
        changes[name] = replaced(getattr(instance, name), part)
    return dataclasses.replace(instance, **changes)
