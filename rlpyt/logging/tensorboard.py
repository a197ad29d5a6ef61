"""Event files for TensorBoard, written without importing it.

`torch.utils.tensorboard` takes 0.5 s to import (and seconds more where TensorFlow is installed)
to write records that are 40 lines: the TFRecord framing and three protocol buffer messages, both
unchanged since 2015 (tensorflow/core/util/event.proto, core/framework/summary.proto).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

FLOAT32_MAX = 3.4028234e38


def open_sinks(run_dir: Path, env_steps: int, tell: Callable[[str], None]) -> list[EventFile]:
    """The event file of a run where TensorBoard is installed; else none, and one hint."""
    if importlib.util.find_spec("tensorboard") is not None:
        return [EventFile(run_dir, env_steps)]
    tell("no TensorBoard here (pip install tensorboard): progress.csv has the numbers")
    return []


class EventFile:
    """A sink for TensorBoard.

    Args:
        folder: of the run.
        env_steps: where the run stands: TensorBoard drops what earlier files hold beyond it.
    """

    def __init__(self, folder: Path, env_steps: int = 0) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("ab")
        self._write(0, _bytes(3, b"brain.Event:2"))
        if env_steps:
            self._write(env_steps + 1, _bytes(7, b"\x08\x01"))  # SessionLog(status=START)

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        scalars = (_bytes(1, tag.encode()) + _float(2, x) for tag, x in values.items())
        self._write(env_steps, _bytes(5, b"".join(_bytes(1, x) for x in scalars)))

    def close(self) -> None:
        self._file.close()

    def _write(self, step: int, content: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + content
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, x: float) -> bytes:
    finite = x if x != x or abs(x) == float("inf") else min(max(x, -FLOAT32_MAX), FLOAT32_MAX)
    return _varint(field << 3 | 5) + struct.pack("<f", finite)


@functools.cache
def _crc_table() -> list[int]:
    """CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, one byte at a time."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def _checksum(content: bytes) -> bytes:
    """The masked CRC of the TFRecord format."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
