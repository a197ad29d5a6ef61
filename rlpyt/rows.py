"""Rows: what arrives from the environments and what the agent answers, time-major [T, B].

Row t of a column holds what arrived together (observation, reward, endings) and the answer to it.
An episode's final observation is a row of its own, and the reset observation is the next row. So
the next row of any row that is not `last` is its true successor, and a truncated episode needs no
special case: its final row is there to be bootstrapped from. `docs/design.md` has the whole story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlpyt.arrays import NamedArrayTuple, as_tensors, tree_leaves, tree_map, zeros

if TYPE_CHECKING:
    from rlpyt.envs.spec import EnvSpec


class Row(NamedArrayTuple):
    """One time index of B columns: what arrived, then what answered it.

    A row is *dead* if it is last: its action is never executed. Both flags set: `terminated`
    decides the bootstrap. At a first row the reward is 0.
    """

    observation: Any
    reward: Any  # raw: clipping and scaling happen on reading
    terminated: Any
    truncated: Any
    first: Any
    cut: Any  # begins an episode because the one before was lost, not ended
    action: Any  # as the agent answers it; the environment's coordinates are vector/'s business
    info: Any = ()  # what the agent asks to keep beside the action
    mask: Any = None  # [..., A] actions that are allowed, where the environment says so
    env_info: Any = ()  # recorded scalars of the environment's info

    @property
    def last(self) -> Any:
        return self.terminated | self.truncated


class Inputs(NamedArrayTuple):
    """What an agent reads of a row; a field that its model does not read is None."""

    observation: Any
    reward: Any = None
    first: Any = None
    previous_action: Any = None  # of the row before; the model zeroes it where `first`
    mask: Any = None


class Slot(NamedTuple):
    """One row of a window: as arrays for the environments, as tensors for the agent's answer."""

    row: Row  # numpy, [B, ...]
    answer: Row  # the same memory as tensors


def example_row(spec: EnvSpec, info: Any = ()) -> Row:
    """A row of zeros without leading dimensions, from which storage is allocated."""
    from rlpyt.envs.spec import example

    flag = np.zeros((), np.bool_)
    return Row(
        observation=example(spec.observation),
        reward=np.zeros((), np.float32),
        terminated=flag,
        truncated=flag,
        first=flag,
        cut=flag,
        action=example(spec.action),
        info=info,
        mask=np.zeros(spec.mask_size, np.bool_) if spec.mask else None,
        env_info={name: np.zeros((), np.float32) for name in spec.env_info} or (),
    )


def stack_frames(frames: Any, first: Any, k: int, start: int, out: Any) -> Any:
    """Stacks of the last k frames of each row, oldest first, zero before an episode's start.

    Args:
        frames: [S, B, *frame] single frames.
        first: [S, B]; True where a row begins an episode.
        k: frames in a stack.
        start: the rows start .. start+n-1 are wanted; start >= k - 1.
        out: [n, B, k, *frame], written and returned.
    """
    n = out.shape[0]
    alive = None
    for i in range(k):
        out[:, :, k - 1 - i] = frames[start - i : start - i + n]
        if alive is not None and not alive.all():
            out[:, :, k - 1 - i][~alive] = 0
        began = first[start - i : start - i + n]
        alive = ~began if alive is None else alive & ~began
    return out


class Window:
    """T answered rows and the boundary row that arrived after them, in linear storage.

    The boundary row becomes row 0 of the next window, where it is answered with newer weights.
    H rows of history before row 0 serve frame stacks and previous actions; only this class knows
    of them.

    Args:
        example: one row without leading dimensions.
        horizon, num_envs: T and B.
        reads: the fields of Inputs that the agent's model reads.
        frame_stack: k; leaves that hold images are stored singly and read as [..., k, *frame].
        state: the agent's initial state, [B, ...] tensors or ().
        state_interval: the state is kept at rows 0, L, 2L, ...; L divides T.
    """

    def __init__(
        self,
        example: Row,
        horizon: int,
        num_envs: int,
        *,
        reads: frozenset[str] = frozenset({"observation"}),
        frame_stack: int = 1,
        state: Any = (),
        state_interval: int | None = None,
    ) -> None:
        self.horizon, self.num_envs, self.frame_stack = horizon, num_envs, frame_stack
        self.state_interval = state_interval if state_interval and tree_leaves(state) else horizon
        self.start = 0  # absolute number of row 0
        self.answered = 0  # rows of this window that are complete: 0 or T
        self.state = state  # what the agent is fed at row 0, later at the boundary row
        self._reads = reads
        self._history = h = max(frame_stack - 1, 1)
        self.storage: Row = zeros(example, (h + horizon + 1, num_envs))
        self._tensors: Row = as_tensors(self.storage)
        self.rows: Row = self.storage[h:]  # numpy, [T+1, B, ...]
        self.tensors: Row = self._tensors[h:]
        slots = [(self.rows[t], self.tensors[t]) for t in range(horizon + 1)]
        self.slots = [Slot(row, answer) for row, answer in slots]
        chunks = horizon // self.state_interval
        self.states = tree_map(lambda x: x.new_zeros((chunks, *x.shape)), state)  # [C, B, ...]
        self._stacks = self._stack_storage(horizon + 1)
        self._acting_stacks = self._stack_storage(1)
        views = self._views(slice(h, None), slice(h - 1, -1), self._stacks)
        self._inputs, self._acting = (
            views,
            [
                self._views(h + t, h + t - 1, tree_map(lambda x: x[0], self._acting_stacks))
                for t in range(horizon + 1)
            ],
        )

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [B, ...]; stacks are valid until the next call."""
        if self.frame_stack > 1:
            self._stack(self._acting_stacks, t)
        return self._acting[t]

    def inputs(self) -> Inputs:
        """What the agent reads at rows 0 .. T, tensors [T+1, B, ...]."""
        if self.frame_stack > 1:
            self._stack(self._stacks, 0)
        return self._inputs

    @property
    def sample_length(self) -> int:
        """Rows of a training sample: the state interval with memory, 1 without."""
        return self.state_interval if tree_leaves(self.states) else 1

    def kept_state(self, c: int) -> Any:
        """The state as fed at row c * L, [B, ...]; a view."""
        return tree_map(lambda x: x[c], self.states)

    def advance(self) -> None:
        """Move the boundary row and its history to the front of the next window."""
        carried = self._history + 1
        for leaf in tree_leaves(self.storage):
            leaf[:carried] = leaf[self.horizon :].copy()
        self.start += self.horizon
        self.answered = 0

    def carry(self) -> dict[str, Any]:
        """The part that the next window needs: history, boundary row, state, row number."""
        if not self.answered:
            raise RuntimeError("a window is saved between collections, not within one")
        return self.example_carry()

    def example_carry(self) -> dict[str, Any]:
        """A carry's structure, whatever its values."""
        return {
            "rows": tree_map(lambda x: x[self.horizon :].copy(), self.storage),
            "state": self.state,
            "start": self.start,
        }

    def restore(self, carry: dict[str, Any]) -> None:
        """Take up a carry: the next collect() goes on from its boundary row."""
        tree_map(_write_from(self.horizon), self.storage, carry["rows"])
        self.state = carry["state"]
        self.start = int(carry["start"])
        self.answered = self.horizon

    def _stack_storage(self, n: int) -> Any:
        """[n, B, k, *frame] for image leaves, None for the others and without stacking."""
        if self.frame_stack == 1:
            return ()
        shape = (n, self.num_envs, self.frame_stack)
        return tree_map(
            lambda x: np.zeros((*shape, *x.shape[2:]), x.dtype) if is_image(x) else x[:n],
            self.storage.observation,
        )

    def _stack(self, out: Any, t: int) -> None:
        k, start, first = self.frame_stack, self._history + t, self.storage.first
        tree_map(
            lambda x, y: stack_frames(x, first, k, start, y) if is_image(x) else None,
            self.storage.observation,
            out,
        )

    def _views(self, at: Any, before: Any, stacks: Any) -> Inputs:
        tensors, reads = self._tensors, self._reads
        observation = tensors.observation[at]
        if self.frame_stack > 1:
            observation = tree_map(
                lambda x, y, z: as_tensors(z) if is_image(x) else y,
                self.storage.observation,
                observation,
                stacks,
            )
        return Inputs(
            observation=observation,
            reward=tensors.reward[at] if "reward" in reads else None,
            first=tensors.first[at] if "first" in reads else None,
            previous_action=tensors.action[before] if "previous_action" in reads else None,
            mask=None if tensors.mask is None else tensors.mask[at],
        )


def is_image(storage: np.ndarray) -> bool:
    """Whether [S, B, ...] storage holds frames: 8-bit, of two or three dimensions."""
    return storage.dtype == np.uint8 and storage.ndim - 2 in (2, 3)


def _write_from(begin: int) -> Any:
    def write(storage: np.ndarray, rows: np.ndarray) -> None:
        storage[begin:] = rows

    return write
