"""Rows: what arrives from the environments and what the agent answers, time-major [T, B].

Row t of a column holds what arrived together (observation, reward, endings) and the answer to it.
An episode's final observation is a row of its own, and the reset observation is the next row. So
the next row of any row that is not `last` is its true successor, and a truncated episode needs no
special case: its final row is there to be bootstrapped from. `docs/design.md` has the whole story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlpyt.arrays import NamedArrayTuple, tree_leaves, tree_map
from rlpyt.storage import as_tensors, zeros

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
    """One row of a window, in place."""

    row: Row  # numpy, [B, ...]
    floats: list[np.ndarray]  # leaves of the action that can hold a NaN; views


def float_leaves(tree: Any) -> list[np.ndarray]:
    """The leaves that can hold a NaN, as they lie: flattened, those of packed rows were copies."""
    return [x for x in tree_leaves(tree) if x.dtype.kind == "f"]


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


def stack_frames(frames: np.ndarray, first: np.ndarray, k: int, out: np.ndarray) -> None:
    """Stacks of the last k frames of each row, oldest first, zero before an episode's start.

    Args:
        frames: [k-1+n, B, *frame] single frames; stacks of the last n rows are wanted.
        first: [k-1+n, B]; True where a row begins an episode.
        k: frames in a stack.
        out: [n, B, k, *frame], written.
    """
    n = len(out)
    alive = None  # [n, B]: the frame i rows before is of the row's own episode; None: all are
    for i in range(k):
        rows = slice(k - 1 - i, k - 1 - i + n)
        out[:, :, k - 1 - i] = frames[rows]
        if alive is not None and not alive.all():
            out[:, :, k - 1 - i][~alive] = 0
        began = first[rows]
        alive = ~began if alive is None else alive & ~began


class FrameStacks:
    """Where the stacks of n rows are built from the single frames of a storage.

    Args:
        observation: the storage's, [S, B, ...] numpy.
        n: rows; None: one, which is read without a dimension for it.
        k: frames in a stack; with 1 every leaf is read as it is stored.
    """

    def __init__(self, observation: Any, n: int | None, k: int) -> None:
        self._k = k
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []  # single frames, and their stacks
        self._tensors = tree_map(lambda x: self._allocate(x, n), observation)

    def build(self, first: np.ndarray, at: Any) -> None:
        """Build the stacks of n rows.

        Args:
            first: [S, B].
            at: slice or array of the storage's k-1+n rows that end with the n.
        """
        k, began = self._k, first[at]
        for frames, out in self._pairs:
            stack_frames(frames[at], began, k, out)

    def over(self, observation: Any) -> Any:
        """The rows' own tensors [n, B, ...], with stacks [n, B, k, ...] in place of frames."""
        return tree_map(lambda x, y: x if y is None else y, observation, self._tensors)

    def _allocate(self, frames: np.ndarray, n: int | None) -> Any:
        """The tensor [n, B, k, *frame] for a leaf that holds images, None for any other."""
        if self._k == 1 or not is_image(frames):
            return None
        out = np.zeros((n or 1, frames.shape[1], self._k, *frames.shape[2:]), frames.dtype)
        self._pairs.append((frames, out))
        return as_tensors(out[0] if n is None else out)


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
        storage: numpy [H + T + 1, B, ...] in place of memory of its own.
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
        storage: Row | None = None,
    ) -> None:
        self.horizon, self.num_envs, self.frame_stack = horizon, num_envs, frame_stack
        self.state_interval = state_interval if state_interval and tree_leaves(state) else horizon
        self.start = 0  # absolute number of row 0
        self.answered = 0  # rows of this window that are complete: 0 or T
        self.state = state  # what the agent is fed at row 0, later at the boundary row
        self._history = h = max(frame_stack - 1, 1)
        leading = h + horizon + 1, num_envs
        self.storage: Row = zeros(example, leading) if storage is None else storage
        self._tensors: Row = as_tensors(self.storage)
        self.rows: Row = self.storage[h:]  # numpy, [T+1, B, ...]
        self.tensors: Row = self._tensors[h:]
        rows = [self.rows[t] for t in range(horizon + 1)]
        self.slots = [Slot(row, float_leaves(row.action)) for row in rows]
        chunks = horizon // self.state_interval
        self.states = tree_map(lambda x: x.new_zeros((chunks, *x.shape)), state)  # [C, B, ...]
        frames, before = self.storage.observation, self._tensors.action[h - 1 :]
        self._stacks = FrameStacks(frames, horizon + 1, frame_stack)
        observation = self._stacks.over(self.tensors.observation)
        self._inputs = read_inputs(self.tensors, observation, before[:-1], reads)
        self._acting_stacks = FrameStacks(frames, None, frame_stack)
        self._acting = []
        for t in range(horizon + 1):
            row = self.tensors[t]
            observation = self._acting_stacks.over(row.observation)
            self._acting.append(read_inputs(row, observation, before[t], reads))

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [B, ...]; stacks are valid until the next call."""
        if self.frame_stack > 1:
            begin = self._history + t + 1 - self.frame_stack
            self._acting_stacks.build(self.storage.first, slice(begin, begin + self.frame_stack))
        return self._acting[t]

    def inputs(self) -> Inputs:
        """What the agent reads at rows 0 .. T, tensors [T+1, B, ...]."""
        if self.frame_stack > 1:
            begin = self._history + 1 - self.frame_stack
            self._stacks.build(self.storage.first, slice(begin, None))
        return self._inputs

    @property
    def sample_length(self) -> int:
        """Rows of a training sample: the state interval with memory, 1 without."""
        return self.state_interval if tree_leaves(self.states) else 1

    def kept_state(self, c: int) -> Any:
        """The state as fed at row c * L, [B, ...]; a view."""
        return tree_map(lambda x: x[c], self.states)

    def begin(self, horizon: int | None = None) -> None:
        """Make room for T rows behind the boundary row, which becomes row 0."""
        if horizon not in (None, self.horizon):
            raise ValueError(f"a window of {self.horizon} rows is never {horizon} rows long")
        if self.answered:
            self.advance()

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        if t % self.state_interval == 0:
            kept = self.kept_state(t // self.state_interval)
            tree_map(lambda old, new: old.copy_(new), kept, state)

    def finish(self, state: Any) -> None:
        """All rows are answered and the boundary row has arrived, at which `state` is fed."""
        self.state, self.answered = state, self.horizon

    def restart(self, state: Any) -> Row:
        """Begin anew; returns the row that the environments write first."""
        self.start = self.answered = 0
        self.state = state
        return self.slots[0].row

    def rows_for(self, env_steps: int) -> int:
        """How many rows are collected when so many env steps are missing: always T."""
        return self.horizon

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
        self.storage[self.horizon :] = carry["rows"]
        self.state = carry["state"]
        self.start = int(carry["start"])
        self.answered = self.horizon


def read_inputs(row: Row, observation: Any, previous_action: Any, reads: frozenset[str]) -> Inputs:
    """What an agent reads of rows; a field that its model does not read is None.

    Args:
        row: tensors of any leading dimensions.
        observation: the row's, images stacked.
        previous_action: of the row before.
        reads: fields of Inputs.
    """
    return Inputs(
        observation=observation,
        reward=row.reward if "reward" in reads else None,
        first=row.first if "first" in reads else None,
        previous_action=previous_action if "previous_action" in reads else None,
        mask=row.mask,
    )


def is_image(storage: np.ndarray, leading: int = 2) -> bool:
    """Whether storage [S, B, ...] holds frames: 8-bit, of two or three dimensions.

    The same for storage with another number of leading dimensions than S and B.
    """
    return storage.dtype == np.uint8 and storage.ndim - leading in (2, 3)
