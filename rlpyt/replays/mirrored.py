"""A ring of which a device holds a copy: a row goes there once, and draws are made from it there.

Writers, selectors and the files of a checkpoint know the ring in host memory only. Before a draw is
gathered the copy is brought up to date with the rows answered since the one before: one transfer of
the small fields of a window and one for each large field, two across the ring's seam.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.arrays import tree_leaves
from rlpyt.block import ANSWERED, RENEWED, RESERVED, fence
from rlpyt.errors import UsageError
from rlpyt.replays.on_device import DeviceWindow, like, words_of
from rlpyt.ring import Ring


@final
class MirroredRing(Ring):
    """A ring whose windows lie on a device, filled from a copy of its rows that lies there too.

    The protocol is the ring's: rows that the writer reached while they were copied are given up.

    Args:
        ring, options: as a Ring takes them.
        device: where the copy lies.
    """

    def __init__(self, *ring: Any, device: torch.device, **options: Any) -> None:
        super().__init__(*ring, **options)
        self.device = device
        rows, states = self._packed.arrays, tree_leaves(self.states)
        self._rows_here = [words_of(x) for x in rows]  # [S, B, w] each
        self._states_here = [words_of(x) for x in states]  # [S / k, B, w] each
        try:
            self._rows_there = [like(x, x.shape[:2], device) for x in rows]
            self._states_there = [like(x, x.shape[:2], device) for x in states]
        except torch.OutOfMemoryError:
            needed = sum(x.nbytes for x in (*rows, *states))
            raise UsageError(
                f"replay_memory=device: a copy of the replay takes {needed:,} bytes of {device}, "
                "and they are not to be had; choose --replay-memory pinned, or a smaller "
                "--replay-size"
            ) from None
        blocks = len(self.blocks)
        self._end = np.zeros(blocks, np.int64)  # rows before this one were copied
        self._whole_from = np.zeros(blocks, np.int64)  # and are whole from this one on
        self._renewed = np.full(blocks, -1)  # as it was when they were
        self._progress_there = b""

    def window(self, items: int, length: int) -> Any:
        """Memory on the device for items of `length` rows (2 or more)."""
        return DeviceWindow(
            self._packed,
            self.states,
            items,
            length,
            self.history,
            reads=self.reads,
            frame_stack=self.frame_stack,
            device=self.device,
        )

    def gather(
        self, window: Any, starts: np.ndarray, columns: np.ndarray, items: Any = None
    ) -> np.ndarray:
        """Copy chosen items, their history and the states at their starts into a `window()`.

        Fills the window's columns `items` (all). Returns [N] whether an item is whole: where the
        writer came too close before its rows were on the device, draw it again.
        """
        self.bring_up_to_date()
        begin = starts - self.history
        rows = begin % self.num_slots * self.num_envs + columns
        states = starts % self.num_slots // self.state_interval * self.num_envs + columns
        at = self._send(torch.from_numpy(np.stack([rows, states])))  # [2, N]
        length = self.history + window.horizon + 1
        ahead = torch.arange(0, length * self.num_envs, self.num_envs, device=self.device)
        where = None if items is None else self._send(torch.from_numpy(np.asarray(items)))
        at_rows = (at[0] + ahead[:, None]) % (self.num_slots * self.num_envs)  # [H + L, N]
        for source, out in zip(self._rows_there, window.rows_words, strict=True):
            _take(source, at_rows, out, where)
        for source, out in zip(self._states_there, window.states_words, strict=True):
            _take(source, at[1:], out, where)
        whole = begin >= self._whole_from[self.block_of[columns]]
        self.overtaken += len(whole) - np.count_nonzero(whole)
        return whole

    def bring_up_to_date(self) -> None:
        """Copy to the device what was answered since the last time, or all if rows were replaced.

        The last row that was copied is copied again: a cut may have ended its episode.
        """
        progress = self.progress
        if progress == self._progress_there:
            return
        answered = self._counters[ANSWERED].copy()
        fence()
        renewed = self._counters[RENEWED].copy()
        lowest = self._counters[RESERVED] - self.num_slots  # no row before it can be whole
        new = np.where(renewed == self._renewed, self._end - 1, -self.history)
        for block, begin, end in zip(self.blocks, np.maximum(new, lowest), answered, strict=True):
            self._copy(block.columns, int(begin), int(end))
        fence()
        self._whole_from = self._counters[RESERVED] - self.num_slots
        self._end, self._renewed, self._progress_there = answered, renewed, progress

    def _copy(self, columns: slice, begin: int, end: int) -> None:
        """Copy rows begin .. end-1 of these columns, and the states kept at them."""
        k, pairs = self.state_interval, zip(self._rows_here, self._rows_there, strict=True)
        for here, there in pairs:
            for at in _runs(begin, end, self.num_slots):
                there[at, columns].copy_(here[at, columns], non_blocking=self._overlaps)
        for here, there in zip(self._states_here, self._states_there, strict=True):
            for at in _runs(-(-begin // k), -(-end // k), self.num_slots // k):
                there[at, columns].copy_(here[at, columns], non_blocking=self._overlaps)

    def _send(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, non_blocking=self._overlaps)

    @property
    def _overlaps(self) -> bool:
        """Whether a copy from pageable memory need not wait for the device's work.

        CUDA reads such memory before the call returns, so that it may be overwritten at once.
        """
        return self.device.type == "cuda"


def _take(source: Tensor, at: Tensor, out: Tensor, items: Tensor | None) -> None:
    """Copy the entries `at` [n, N] of [S, B, w], counted over both, to out[:, items], [n, N, w]."""
    if not out.numel():
        return
    flat = source.flatten(0, 1)
    if items is None:
        torch.index_select(flat, 0, at.flatten(), out=out.flatten(0, 1))
    else:
        out[:, items] = flat[at]


def _runs(begin: int, end: int, slots: int) -> Iterator[slice]:
    """Where entries begin .. end-1 lie, each in slot n mod `slots`: one slice, or two."""
    while begin < end:
        first = begin % slots
        count = min(end - begin, slots - first)
        yield slice(first, first + count)
        begin += count
