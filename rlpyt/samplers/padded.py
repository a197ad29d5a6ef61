"""Strict mode: every forward pass of acting has all B columns, and one thread.

On CPUs a row's last bits depend on how many rows are computed together, and on the number of
threads. With both fixed, each column's answers are the same bits whoever answers it: all columns at
once, groups in turn, or workers that have some columns each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rlpyt.arrays import tree_map


class Padded:
    """An agent that answers some columns of a batch of B, each at its own position.

    Args:
        act: of the agent.
        columns: whose answers are wanted; what stands in the others is of no matter.
        num_envs: B.
        state: as fed to these columns, for its structure.
    """

    def __init__(self, act: Any, columns: slice, num_envs: int, state: Any) -> None:
        self._act, self._columns = act, columns
        self._state = tree_map(lambda x: x.new_zeros((num_envs, *x.shape[1:])), state)

    def act(self, inputs: Any, state: Any, draw: Any) -> tuple[Any, Any, Any]:
        """Answer one row: inputs and draw of B columns; the state, and what is returned, of b."""
        tree_map(lambda whole, x: whole[self._columns].copy_(x), self._state, state)
        answer = self._act(inputs, self._state, draw)
        action, info, state = tree_map(lambda x: x[self._columns], answer)
        return action, info, state


@contextmanager
def acting_threads(number: int | None) -> Iterator[None]:
    """So many of PyTorch's threads meanwhile; None: as many as there are."""
    before = torch.get_num_threads()
    if number in (None, before):
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
