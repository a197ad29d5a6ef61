"""Help derived from the dataclasses of options and their docstrings, rendered by tyro."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import tyro
from tyro.conf import OmitArgPrefixes
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from rlpyt.cli.values import reader, show
from rlpyt.flags import flags_of


def print_help(kind: Any, default: Any, prog: str, description: str) -> None:
    """Print the options of a command with their defaults.

    Args:
        kind: the command's type, its type variables bound.
        default: an instance; its values are the defaults shown.
    """
    required = [flag.name for flag in flags_of(default) if flag.positional]
    missing = {name: tyro.MISSING for name in required if getattr(default, name) == ""}
    default = dataclasses.replace(default, **missing)
    try:
        tyro.cli(
            kind,
            args=["--help"],
            default=default,
            prog=prog,
            description=description,
            registry=_registry(),
            config=(OmitArgPrefixes,),
        )
    except SystemExit:
        return


def _registry() -> ConstructorRegistry:
    registry = ConstructorRegistry()
    registry.primitive_rule(_as_read)
    return registry


def _as_read(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Show a value's form and default the way `values.reader` reads them."""
    hint: Any = info.type
    if hint is bool or not _is_ours(hint):
        return None
    one = reader(hint)
    return PrimitiveConstructorSpec(
        nargs="*" if one.many else 1,
        metavar=f"{one.metavar} ..." if one.many else one.metavar,
        instance_from_str=lambda texts: one.read(texts[0]),
        is_instance=lambda _: True,
        str_from_instance=lambda value: show(value).split() if one.many else [show(value)],
    )


def _is_ours(hint: Any) -> bool:
    origins = (typing.Literal, tuple, typing.Union, types.UnionType)
    return hint in (int, float, str) or typing.get_origin(hint) in origins
