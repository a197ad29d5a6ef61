"""A ring whose draws reach a device by way of page-locked memory, in one transfer of each array.

The device copies from such memory by itself: while it does, and while it computes, the next draw is
gathered. Frames travel singly; stacks are built where they arrive.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from rlpyt.arrays import tree_leaves
from rlpyt.block import RESERVED, fence
from rlpyt.replays.on_device import DeviceWindow, like, words_of
from rlpyt.ring import Ring


class Staging(NamedTuple):
    """Memory that the device copies a window from."""

    rows: list[Tensor]  # [H + L, N, w] each
    states: list[Tensor]  # [1, N, w] each
    copied: torch.cuda.Event | None  # reached once the newest draw is on the device


@final
class PinnedRing(Ring):
    """A ring whose windows lie on a device, filled from its rows in host memory.

    Args:
        ring, options: as a Ring takes them.
        device: of windows; where it is no GPU, memory is not page-locked and nothing is gained.
    """

    def __init__(self, *ring: Any, device: torch.device, **options: Any) -> None:
        super().__init__(*ring, **options)
        self.device = device
        self._pins = device.type == "cuda"
        self._rows_words = [_flat(x) for x in self._packed.arrays]  # [S * B, w] each
        self._states_words = [_flat(x) for x in tree_leaves(self.states)]  # [S / k * B, w] each
        self._staging: WeakKeyDictionary[DeviceWindow, Staging] = WeakKeyDictionary()

    def window(self, items: int, length: int) -> Any:
        """Memory on the device, and to copy from, for items of `length` rows (2 or more)."""
        window = DeviceWindow(
            self._packed,
            self.states,
            items,
            length,
            self.history,
            reads=self.reads,
            frame_stack=self.frame_stack,
            device=self.device,
        )
        rows, leading = self._packed.arrays, (self.history + length, items)
        self._staging[window] = Staging(
            [like(x, leading, "cpu", pin=self._pins) for x in rows],
            [like(x, (1, items), "cpu", pin=self._pins) for x in tree_leaves(self.states)],
            torch.cuda.Event() if self._pins else None,
        )
        return window

    def gather(
        self, window: Any, starts: np.ndarray, columns: np.ndarray, items: Any = None
    ) -> np.ndarray:
        """Copy chosen items, their history and the states at their starts into a `window()`.

        Fills the window's columns `items` (all). Returns [N] whether an item is whole: where the
        writer came too close meanwhile, draw it again.
        """
        staging = self._staging[window]
        if staging.copied is not None:
            staging.copied.synchronize()  # the device has what was gathered before
        begin = starts - self.history
        ahead = np.arange(self.history + window.horizon + 1)[:, None] * self.num_envs
        at = begin % self.num_slots * self.num_envs + columns + ahead  # [H + L, N]
        for source, out in zip(self._rows_words, staging.rows, strict=True):
            _take(source, at, out.numpy(), items)
        at = starts[None] % self.num_slots // self.state_interval * self.num_envs + columns
        for source, out in zip(self._states_words, staging.states, strict=True):
            _take(source, at, out.numpy(), items)
        fence()
        reserved = self._counters[RESERVED].copy()
        whole = begin >= reserved[self.block_of[columns]] - self.num_slots
        self.overtaken += len(whole) - np.count_nonzero(whole)
        self._transfer(staging, window)
        return whole

    def _transfer(self, staging: Staging, window: DeviceWindow) -> None:
        sources = *staging.rows, *staging.states
        for source, out in zip(sources, (*window.rows_words, *window.states_words), strict=True):
            out.copy_(source, non_blocking=self._pins)
        if staging.copied is not None:
            staging.copied.record(torch.cuda.current_stream(self.device))


def _flat(array: np.ndarray) -> np.ndarray:
    """Words of an array's entries, [S * B, w]."""
    return words_of(array).flatten(0, 1).numpy()


def _take(source: np.ndarray, at: np.ndarray, out: np.ndarray, items: Any) -> None:
    """Copy the entries `at` [n, N] to out[:, items]; behind the last is the first again."""
    if items is None:
        source.take(at, 0, out, "wrap")
    else:
        out[:, items] = source.take(at, 0, mode="wrap")
