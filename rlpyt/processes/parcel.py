"""What is handed to a process at its start, and unpacked there in its own time."""

from __future__ import annotations

from typing import Any, final

from rlpyt.descriptors import forking


@final
class Parcel:
    """Content that the new process unpacks when it is ready for it, not while it starts.

    Unpacking imports modules, which may fail, be killed, or take a second. This one imports none.
    """

    def __init__(self, content: Any) -> None:
        self._content: Any = content
        self._packed: bytes | None = None

    def pack_for_fork(self) -> Parcel:
        """The same, packed now: a fork pickles nothing."""
        with forking():
            return _arrived(_packed(self._content))

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (_packed(self._content),)

    def unpack(self) -> Any:
        assert self._packed is not None, "only the process that it was sent to unpacks it"
        from rlpyt.processes.pickling import loads

        return loads(self._packed)


def _arrived(packed: bytes) -> Parcel:
    parcel = Parcel(None)
    parcel._packed = packed
    return parcel


def _packed(content: Any) -> bytes:
    from rlpyt.processes.pickling import dumps

    return dumps(content)
