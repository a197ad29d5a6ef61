"""What is handed to a process at its start: anything, also functions of the user's script."""

from __future__ import annotations

import io
from collections import ChainMap
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, final

import cloudpickle

from rlpyt.descriptors import forking


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


@final
class Parcel:
    """Content that the new process unpacks when it is ready for it, not while it starts.

    Unpacking imports modules, which may fail, be killed, or take a second.
    """

    def __init__(self, content: Any) -> None:
        self._content: Any = content
        self._packed: bytes | None = None

    def pack_for_fork(self) -> Parcel:
        """The same, packed now: a fork pickles nothing."""
        with forking():
            return _arrived(dumps(self._content))

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (dumps(self._content),)

    def unpack(self) -> Any:
        assert self._packed is not None, "only the process that it was sent to unpacks it"
        return loads(self._packed)


def _arrived(packed: bytes) -> Parcel:
    parcel = Parcel(None)
    parcel._packed = packed
    return parcel
