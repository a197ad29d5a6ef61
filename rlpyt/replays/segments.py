"""The ring on disk: immutable segments of whole rows, of which a checkpoint lists what it needs.

    replay/
      0-000000000000-000000009362-3f9a….safetensors     block, rows begin to end - 1, content
      0-000000009362-000000011050-c04e….safetensors     the tail, which the next save supersedes

A segment is one safetensors file: each field of a block's rows as [rows, b, ...], and the agent's
states that were kept at those rows. It goes to disk in slices of a few MB, straight from the ring
and hashed on the way; aside, fsynced, renamed. Reading goes the same way back. A name holds the
beginning of the content's SHA-256: nothing is ever replaced by something else, so whatever stops a
save, and on whatever course the run goes on, the checkpoints before it find what they list.

The row answered last is not final, for a later cut may still mark it truncated: it is always in
the tail.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlpyt.arrays import tree_items, tree_map
from rlpyt.block import Block
from rlpyt.checkpoint import Damaged, sync
from rlpyt.errors import UsageError, reason_of
from rlpyt.faultpoints import faultpoint
from rlpyt.ring import Ring

FORMAT = 1
SEGMENT_BYTES = 1 << 26
SLICE_BYTES = 1 << 22
OURS = re.compile(r"[0-9]+-[0-9]{12,}-[0-9]{12,}-[0-9a-f]{16}\.safetensors|\.[0-9-]+\.part")


class Segment(NamedTuple):
    """Rows begin .. end-1 of a block, in a file."""

    name: str
    begin: int
    end: int
    sha256: str


class Leaf(NamedTuple):
    """One field of a block's rows, or one part of the states kept at every k-th of them."""

    name: str  # a dotted path
    array: np.ndarray  # [S / every, b, ...], a view into the ring
    every: int  # 1, or k for a state


class Segments:
    """Saves a ring into a folder, and loads it; one whose rows begin anew needs another.

    Args:
        folder: for this ring alone; made when first saved to.
        ring: no writer is at work while it is saved or loaded.
        segment_bytes: of the rows of all columns that make up one segment of each block.
    """

    def __init__(self, folder: Path | str, ring: Ring, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self.ring = Path(folder), ring
        self._leaves = [_leaves(block) for block in ring.blocks]
        self._fields = {
            leaf.name: f"{_dtype(leaf)} {list(leaf.array.shape[2:])}"
            + (f", every {leaf.every} rows" if leaf.every > 1 else "")
            for leaf in self._leaves[0]
        }  # what a ring has in common with a saved one, beside its columns
        self._row_bytes = sum(_nbytes(leaf) / leaf.every for leaf in chain(*self._leaves))
        self._rows = max(1, int(segment_bytes / self._row_bytes))  # of a segment
        self._final: list[list[Segment]] = [[] for _ in ring.blocks]  # on disk, in order

    def bytes_to_write(self, rows: int | None = None) -> int:
        """The most that a save writes when `rows` of each column are new: a full ring's by default.

        The unfinished segment, which is written again, is counted.
        """
        new = self.ring.capacity if rows is None else rows
        return int(min(new + self._rows, self.ring.capacity) * self._row_bytes)

    def save(self) -> dict[str, Any]:
        """Write what is not on disk yet; returns the listing from which `load` finds everything.

        A listing is JSON: text, numbers, lists and dicts. Nothing is deleted: see `prune`.
        """
        parts = []
        try:
            if not self.folder.exists():
                faultpoint("segments:make folder")
                self.folder.mkdir(parents=True)
                sync(self.folder.parent)
            for i, lo in enumerate(self.ring.bounds()[0].tolist()):
                files = [segment._asdict() for segment in self._save_block(i, max(lo, 0))]
                answered = self.ring.blocks[i].answered
                parts.append({"lo": lo, "answered": answered, "files": files})
            sync(self.folder)
        except OSError as error:
            for part in self.folder.glob(".*.part"):
                part.unlink(missing_ok=True)
            why = reason_of(error)
            what = f"{why}; {self.folder} not saved, the checkpoints before it are whole"
            raise OSError(error.errno, what) from error
        envs = self.ring.sizes.tolist()
        return {"format": FORMAT, "envs": envs, "fields": self._fields, "blocks": parts}

    def load(self, listing: dict[str, Any]) -> None:
        """Fill the ring with what a listing names, or what a ring of less capacity can hold of it.

        Exactly the saved rows can be read then. Slots of other rows stay as they are, that of the
        row in flight too. Where a file is missing or is not what was written, none can be read and
        Damaged names it.
        """
        self._refuse_another(listing)
        parts, blocks = listing["blocks"], self.ring.blocks
        for block, part in zip(blocks, parts, strict=True):
            block.go_on_at(part["answered"])
        saved = [[Segment(**file) for file in part["files"]] for part in parts]
        begins = [max(x["lo"], x["answered"] - self.ring.capacity) for x in parts]
        for leaves, segments, lo in zip(self._leaves, saved, begins, strict=True):
            for segment in segments:
                if segment.end > lo:
                    self._read(leaves, segment, lo)
        for i, (block, part, lo) in enumerate(zip(blocks, parts, begins, strict=True)):
            self._final[i] = [x for x in saved[i] if x.end < part["answered"]]
            block.go_on_at(part["answered"], lo)

    def prune(self, listings: Iterable[dict[str, Any]]) -> None:
        """Delete segments that none of the listings names, and the scraps of interrupted saves."""
        blocks = chain.from_iterable(listing["blocks"] for listing in listings)
        named = {file["name"] for block in blocks for file in block["files"]}
        for path in self.folder.iterdir() if self.folder.exists() else ():
            if OURS.fullmatch(path.name) and path.name not in named:
                faultpoint("segments:remove")
                path.unlink()

    def _save_block(self, i: int, lo: int) -> list[Segment]:
        """The segments that hold rows lo .. answered-1, those that were not on disk written."""
        answered, n, final = self.ring.blocks[i].answered, lo, []
        for segment in self._final[i]:
            if segment.begin <= n < segment.end and (self.folder / segment.name).exists():
                final.append(segment)
                n = segment.end
        self._final[i] = final
        while (end := (n // self._rows + 1) * self._rows) < answered:
            final.append(self._write(i, n, end))
            n = end
        return [*final, self._write(i, n, answered)] if n < answered else [*final]

    def _write(self, i: int, begin: int, end: int) -> Segment:
        leaves, digest = self._leaves[i], hashlib.sha256()
        part = self.folder / f".{i}-{begin}-{end}.part"
        faultpoint("segments:open")
        with open(part, "wb") as file:
            slices = (_bytes_of(x) for leaf in leaves for x in _slices(leaf, begin, end))
            for data in chain([_header(leaves, begin, end)], slices):
                faultpoint("segments:write")
                digest.update(data)
                file.write(data)
            file.flush()
            faultpoint("segments:fsync")
            os.fsync(file.fileno())
        sha256 = digest.hexdigest()
        name = f"{i}-{begin:012d}-{end:012d}-{sha256[:16]}.safetensors"
        faultpoint("segments:rename")
        os.replace(part, self.folder / name)
        return Segment(name, begin, end, sha256)

    def _read(self, leaves: list[Leaf], segment: Segment, lo: int) -> None:
        """Verify a whole segment and put its rows from `lo` on into their slots."""
        path, begin, end = self.folder / segment.name, segment.begin, segment.end
        named, digest = {leaf.name: leaf for leaf in leaves}, hashlib.sha256()
        size = sum(_count(leaf, begin, end) * _nbytes(leaf) for leaf in leaves)
        damaged = Damaged(f"{path} is damaged (its SHA-256 is not the one that was listed)")
        try:
            with open(path, "rb") as file:
                length, left = file.read(8), os.fstat(file.fileno()).st_size - 8 - size
                if int.from_bytes(length, "little") != left:
                    raise damaged
                header = file.read(left)
                digest.update(length + header)
                for name in list(json.loads(header))[1:]:
                    for data in _slices(named[name], begin, min(lo, end)):
                        _fill(np.empty(data.shape, data.dtype), file, digest)
                    for data in _slices(named[name], max(lo, begin), end):
                        _fill(data, file, digest)
        except OSError as error:
            raise Damaged(f"{path} cannot be read ({error.strerror})") from None
        except (ValueError, TypeError, KeyError):  # of a header that is not ours
            raise damaged from None
        if digest.hexdigest() != segment.sha256:
            raise damaged

    def _refuse_another(self, listing: dict[str, Any]) -> None:
        """Raise where a saved replay is not of a ring like this one."""
        if listing["format"] > FORMAT:
            raise UsageError(
                f"the replay in {self.folder} has format {listing['format']} and this rlpyt reads "
                f"formats up to {FORMAT}; upgrade rlpyt"
            )
        if listing["envs"] != self.ring.sizes.tolist():
            raise UsageError(
                f"the saved replay has blocks of {listing['envs']} environments, this one of "
                f"{self.ring.sizes.tolist()}; resume with as many environments and workers"
            )
        saved, own = listing["fields"], self._fields
        for name in {**saved, **own}:
            if saved.get(name) != own.get(name):
                raise UsageError(
                    f"{name} is {own.get(name, 'not there')} here, but "
                    f"{saved.get(name, 'not there')} in the saved replay; resume with the options "
                    "that it was written with"
                )


def _leaves(block: Block) -> list[Leaf]:
    """In the order of a file: the widest numbers first, so that each field is aligned."""
    ring = block.ring
    states = tree_map(lambda x: x[:, block.columns], ring.states)
    fields = [Leaf(f"rows.{name}", x, 1) for name, x in tree_items(block.rows)]
    fields += [
        Leaf(f"states.{name}".rstrip("."), x, ring.state_interval) for name, x in tree_items(states)
    ]
    return sorted(fields, key=lambda leaf: -leaf.array.itemsize)


def _header(leaves: list[Leaf], begin: int, end: int) -> bytes:
    """The beginning of a safetensors file: its length, then JSON, filled up with spaces."""
    header: dict[str, Any] = {"__metadata__": {"begin": str(begin), "end": str(end)}}
    offset = 0
    for leaf in leaves:
        count = _count(leaf, begin, end)
        header[leaf.name] = {
            "dtype": _dtype(leaf),
            "shape": [count, *leaf.array.shape[1:]],
            "data_offsets": [offset, offset := offset + count * _nbytes(leaf)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _dtype(leaf: Leaf) -> str:
    """In the words of safetensors: BOOL, U8, I64, F32."""
    dtype = leaf.array.dtype
    if dtype.kind not in "buif" or dtype.itemsize > 8 or dtype.str[0] == ">":
        raise TypeError(f"{leaf.name} has dtype {dtype}, which cannot be saved")
    return "BOOL" if dtype.kind == "b" else f"{dtype.kind.upper()}{8 * dtype.itemsize}"


def _count(leaf: Leaf, begin: int, end: int) -> int:
    """How many entries rows begin .. end-1 have."""
    return -(-end // leaf.every) + -begin // leaf.every


def _nbytes(leaf: Leaf) -> int:
    return leaf.array[0].nbytes


def _slices(leaf: Leaf, begin: int, end: int) -> Iterator[np.ndarray]:
    """The entries of rows begin .. end-1 in order, as views of SLICE_BYTES or one entry."""
    n, left = -(-begin // leaf.every), _count(leaf, begin, end)
    slots, most = len(leaf.array), max(1, SLICE_BYTES // max(1, _nbytes(leaf)))
    while left > 0:
        s = n % slots
        count = min(left, most, slots - s)
        yield leaf.array[s : s + count]
        n, left = n + count, left - count


def _fill(array: np.ndarray, file: BufferedReader, digest: Any) -> None:
    """Read an array's bytes and absorb them into the digest."""
    whole = np.ascontiguousarray(array)  # itself, or of columns among others a copy
    data = _bytes_of(whole)
    digest.update(data[: file.readinto(data)])
    if whole is not array:
        array[...] = whole


def _bytes_of(array: np.ndarray) -> memoryview:
    """An array's bytes [n]: a view, or of columns among others a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
