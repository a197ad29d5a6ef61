"""Rows: what arrives from the environments and what the agent answers, time-major [T, B].

Row t of a column holds what arrived together (observation, reward, endings) and the answer to it.
An episode's final observation is a row of its own, and the reset observation is the next row. So
the next row of any row that is not `last` is its true successor, and a truncated episode needs no
special case: its final row is there to be bootstrapped from. `docs/design.md` has the whole story.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlpyt.arrays import NamedArrayTuple, tree_leaves, tree_map
from rlpyt.frames import FrameStacks
from rlpyt.frames import is_image as is_image
from rlpyt.frames import stack_frames as stack_frames
from rlpyt.places import Linear
from rlpyt.storage import as_arrays, as_tensors, to_device, zeros

if TYPE_CHECKING:
    from rlpyt.envs.spec import EnvSpec
    from rlpyt.storage import Memory


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
        memory: shared, for the rows.
        state_memory: shared, for the states, which are then on the CPU: of replicated acting.
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
        memory: Memory | None = None,
        state_memory: Memory | None = None,
    ) -> None:
        self.horizon, self.num_envs, self.frame_stack = horizon, num_envs, frame_stack
        self.columns, self.total_envs = slice(0, num_envs), num_envs
        self.state_interval = state_interval if state_interval and tree_leaves(state) else horizon
        self.start = 0  # absolute number of row 0
        self.answered = 0  # rows of this window that are complete: 0 or T
        self._history = h = max(frame_stack - 1, 1)
        self.places, self.memory = Linear(example, h, horizon, num_envs), memory
        self.storage: Row = self.places.rows(memory) if storage is None else storage
        self.reads = reads
        self._tensors: Row = as_tensors(self.storage)
        self.rows: Row = self.storage[h:]  # numpy, [T+1, B, ...]
        self.tensors: Row = self._tensors[h:]
        rows = [self.rows[t] for t in range(horizon + 1)]
        self.slots = [Slot(row, float_leaves(row.action)) for row in rows]
        self.states = kept_states(state, horizon // self.state_interval, state_memory)
        self._fed = FedState(state, state_memory)
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

    @property
    def state(self) -> Any:
        """What the agent is fed at row 0, and after the window at the boundary row; [B, ...]."""
        return self._fed.state

    @state.setter
    def state(self, state: Any) -> None:
        self._fed.set(state)

    @property
    def boundary(self) -> int:
        """Absolute number of the row that has arrived and is not answered, between windows."""
        return self.start + self.answered

    def part(self, columns: slice) -> WindowPart:
        """Some columns, seen as a window of their own."""
        return WindowPart(self, columns)

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [B, ...]; stacks are valid until the next call."""
        if self.frame_stack > 1:
            begin = self._history + t + 1 - self.frame_stack
            self._acting_stacks.build(self.storage.first, slice(begin, begin + self.frame_stack))
        return self._acting[t]

    whole_inputs = acting_inputs

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


class WindowPart:
    """Some columns of a window: the same rows and states, seen as a window of [T + 1, b].

    It never moves a row. Where the window itself is in another process, who is at work there says
    by `follow` which rows are present.
    """

    def __init__(self, whole: Window, columns: slice) -> None:
        self.whole, self.columns, self.total_envs = whole, columns, whole.num_envs
        seen = Window(
            whole.places.example,
            whole.horizon,
            columns.stop - columns.start,
            reads=whole.reads,
            frame_stack=whole.frame_stack,
            storage=whole.storage[:, columns],
        )
        self.horizon, self.num_envs, self.start = seen.horizon, seen.num_envs, whole.start
        self.rows, self.slots, self.acting_inputs = seen.rows, seen.slots, seen.acting_inputs
        self.whole_inputs = whole.acting_inputs
        self._states = tree_map(lambda x: x[:, columns], whole.states)

    @property
    def state(self) -> Any:
        """What the agent is fed next, [b, ...]; views of the whole window's."""
        return tree_map(lambda x: x[self.columns], self.whole.state)

    def follow(self, start: int, horizon: int | None = None) -> None:
        """The present rows are those from number `start` on."""
        self.start = start

    def begin(self, horizon: int | None = None) -> None:
        """The window itself has made room."""
        if horizon not in (None, self.horizon):
            raise ValueError(f"a window of {self.horizon} rows is never {horizon} rows long")

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        c, rest = divmod(t, self.whole.state_interval)
        if not rest:
            tree_map(lambda old, new: old[c].copy_(new), self._states, state)

    def kept(self) -> Iterator[tuple[int, Any]]:
        """The rows whose state is kept, and the states."""
        for c, t in enumerate(range(0, self.horizon, self.whole.state_interval)):
            yield t, tree_map(lambda x, c=c: x[c], self._states)

    def finish(self, state: Any) -> None:
        """The boundary row of these columns has arrived, at which `state` is fed."""
        tree_map(lambda old, new: old.copy_(new), self.state, state)

    def restart(self, state: Any) -> Row:
        """Begin anew; returns the row that the environments write first."""
        self.start = 0
        self.finish(state)
        return self.slots[0].row


class FedState:
    """What the agent is fed next: any tensors, or such as lie in shared memory.

    What is shared lies on the CPU, and is read where the state was that it began with.
    """

    def __init__(self, state: Any, memory: Memory | None) -> None:
        self._kept = state
        self._shared = memory is not None
        self._device = next((x.device for x in tree_leaves(state)), None)
        if self._shared:
            self._kept = as_tensors(zeros(as_arrays(state), shared=memory))
        if memory is not None and memory.created:
            self.set(state)

    @property
    def state(self) -> Any:
        return to_device(self._kept, self._device) if self._shared else self._kept

    def set(self, state: Any) -> None:
        if self._shared:
            tree_map(lambda old, new: old.copy_(new), self._kept, state)
        else:
            self._kept = state


def kept_states(state: Any, count: int, memory: Memory | None) -> Any:
    """Zeros [count, B, ...] of a state: on its device, or in shared memory."""
    if memory is None:
        return tree_map(lambda x: x.new_zeros((count, *x.shape)), state)
    return as_tensors(zeros(as_arrays(state), (count,), shared=memory))


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
