"""What a process says of itself in shared memory, where its death does not take it away."""

from __future__ import annotations

import struct
import time
from typing import Any, final

import numpy as np

from rlpyt.processes.heart import Heart
from rlpyt.storage import Memory

TEXT = 65536  # bytes of a traceback
WAIT = 256  # bytes of what a process waits for
_STOP, _FAILED, _SECONDARY, _FINISHED, _BLAMED = range(5)
_WAITS = struct.Struct("=dq")  # since when, how many bytes of text


@final
class Box:
    """One child's flags, heartbeat and last words; each part has one writer.

    Args:
        memory: its own; the child makes the same box on what it received.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        parts: dict[str, np.ndarray] = memory.zeros(
            {
                "flags": np.zeros(8, np.int64),
                "times": np.zeros(8, np.float64),
                "heart": np.zeros(8, np.int64),
                "text": np.zeros(8 + TEXT, np.uint8),
                "blame": np.zeros(8 + 4096, np.uint8),
                "waits": np.zeros(_WAITS.size + WAIT, np.uint8),
            }
        )
        self._flags = parts["flags"].data
        self._times, self._text, self._blame = parts["times"], parts["text"], parts["blame"]
        self.heart = Heart(parts["heart"])
        self.waits = Waits(parts["waits"].data)

    def __reduce__(self) -> tuple[Any, ...]:
        return Box, (self.memory,)

    def ask_to_stop(self) -> None:
        self._flags[_STOP] = 1

    @property
    def stop_asked(self) -> bool:
        return self._flags[_STOP] != 0

    def finish(self) -> None:
        self._flags[_FINISHED] = 1

    @property
    def finished(self) -> bool:
        return self._flags[_FINISHED] != 0

    def fail(self, summary: str, text: str, *, secondary: bool) -> None:
        """Leave a line and a traceback; `secondary`: another process's failure is the cause."""
        _write(self._text, f"{summary}\n{text}")
        self._times[0] = time.monotonic()
        self._flags[_SECONDARY] = secondary
        self._flags[_FAILED] = 1

    @property
    def failed(self) -> bool:
        return self._flags[_FAILED] != 0

    @property
    def failed_at(self) -> float:
        return float(self._times[0]) if self.failed else float("inf")

    @property
    def secondary(self) -> bool:
        return self._flags[_SECONDARY] != 0

    @property
    def failure(self) -> tuple[str, str] | None:
        """The line and the traceback."""
        if not self.failed:
            return None
        summary, _, text = _read(self._text).partition("\n")
        return summary, text

    def blame(self, text: str) -> None:
        """Say what is wrong with this process, from one that may not end it."""
        _write(self._blame, text)
        self._flags[_BLAMED] = 1

    @property
    def blamed(self) -> str | None:
        return _read(self._blame) if self._flags[_BLAMED] else None

    @property
    def troubled(self) -> bool:
        """Whether it failed or is blamed: what is looked at all the time."""
        flags = self._flags
        return bool(flags[_FAILED] or flags[_BLAMED])


@final
class Waits:
    """What a process waits for, and since when.

    Args:
        memory: bytes that others may see; of the process alone where nothing is given.
    """

    def __init__(self, memory: memoryview | None = None) -> None:
        self._memory = memory or memoryview(bytearray(_WAITS.size + WAIT))

    def begin(self, what: bytes) -> None:
        what = what[:WAIT]
        self._memory[_WAITS.size : _WAITS.size + len(what)] = what
        _WAITS.pack_into(self._memory, 0, time.monotonic(), len(what))

    def end(self) -> None:
        _WAITS.pack_into(self._memory, 0, 0.0, 0)

    def __str__(self) -> str:
        """ "waits for … since 3.2 s", or "waits for nobody"."""
        since, length = _WAITS.unpack_from(self._memory)
        if not length:
            return "waits for nobody"
        text = bytes(self._memory[_WAITS.size : _WAITS.size + length]).decode(errors="replace")
        return f"waits for {text} since {time.monotonic() - since:.1f} s"


def _write(place: np.ndarray, text: str) -> None:
    """Store a text; of one that is too long the middle is left out."""
    room = place.nbytes - 8
    data = text.encode(errors="replace")
    if len(data) > room:
        half = room // 2 - 16
        data = data[:half] + b"\n[...]\n" + data[-half:]
    place[8 : 8 + len(data)] = np.frombuffer(data, np.uint8)
    place[:8] = np.frombuffer(len(data).to_bytes(8, "little"), np.uint8)


def _read(place: np.ndarray) -> str:
    length = min(int.from_bytes(place[:8].tobytes(), "little"), place.nbytes - 8)
    return place[8 : 8 + length].tobytes().decode(errors="replace")
