"""Pickles of anything, also of functions of the user's script, between processes of one run."""

from __future__ import annotations

import io
from collections import ChainMap
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar

import cloudpickle


class _Pickler(cloudpickle.Pickler):
    """Knows functions of scripts by value, and sockets and connections by descriptor."""

    dispatch_table: ClassVar[Any] = ChainMap(
        ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        cloudpickle.Pickler.dispatch_table,  # type: ignore[arg-type]
    )


def dumps(content: Any) -> bytes:
    """Pickle anything."""
    file = io.BytesIO()
    _Pickler(file).dump(content)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """The content again; only ever of what this program's own processes sent."""
    return cloudpickle.loads(data)
