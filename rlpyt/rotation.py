"""Linear windows that take turns: one is filled while the learner reads others.

To whoever collects it is one window that always is the next one; to the learner it gives each
window by number. What a window carries to the next is copied from one storage to the other, where
a `Window` alone moves it within its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from rlpyt.arrays import tree_leaves
from rlpyt.rows import Inputs, Row, Slot, Window, WindowPart
from rlpyt.storage import zeros

if TYPE_CHECKING:
    from rlpyt.storage import Memory


@dataclass(frozen=True)
class Rotating:
    """Where row n lies in K storages [H + T + 1, B, ...], one behind the other."""

    example: Row  # without leading dimensions
    history: int
    horizon: int
    num_envs: int
    windows: int

    @property
    def length(self) -> int:
        """Rows of one storage."""
        return self.history + self.horizon + 1

    def rows(self, memory: Memory | None) -> Row:
        """The storage [K * (H + T + 1), B, ...], new or, on received memory, the same."""
        return zeros(self.example, (self.windows * self.length, self.num_envs), shared=memory)

    def arrives(self, n: int) -> int:
        """The slot into which row n is written."""
        w, t = divmod(n - 1, self.horizon) if n else (0, -1)
        return self._begin(w) + self.history + 1 + t

    def answered(self, n: int) -> int:
        """The slot in which row n is answered."""
        w, t = divmod(n, self.horizon)
        return self._begin(w) + self.history + t

    def _begin(self, w: int) -> int:
        return w % self.windows * self.length


@final
class Rotation:
    """K windows of T rows; window w lies in storage w mod K.

    Args:
        example, horizon, num_envs: as a Window takes them.
        windows: K, at least 2.
        reads, frame_stack, state, state_interval: as a Window takes them.
        memory, state_memory: shared, for rows and for states.
    """

    def __init__(
        self,
        example: Row,
        horizon: int,
        num_envs: int,
        windows: int,
        *,
        reads: frozenset[str] = frozenset({"observation"}),
        frame_stack: int = 1,
        state: Any = (),
        state_interval: int | None = None,
        memory: Memory | None = None,
        state_memory: Memory | None = None,
    ) -> None:
        self.horizon = self.longest = horizon
        self.num_envs = self.total_envs = num_envs
        self.columns, self.memory = slice(0, num_envs), memory
        history = max(frame_stack - 1, 1)
        self.places = Rotating(example, history, horizon, num_envs, windows)
        storage, length = self.places.rows(memory), self.places.length
        self.windows = [
            Window(
                example,
                horizon,
                num_envs,
                reads=reads,
                frame_stack=frame_stack,
                state=state,
                state_interval=state_interval,
                storage=storage[k * length : (k + 1) * length],
                state_memory=state_memory,
            )
            for k in range(windows)
        ]
        self.present = self.windows[0]

    def at(self, start: int) -> Window:
        """The window whose row 0 has this absolute number."""
        return self.windows[start // self.horizon % len(self.windows)]

    def begin(self, horizon: int | None = None) -> None:
        """Go on with the next window: the boundary row of the one before becomes its row 0."""
        before = self.present
        if before.answered:
            self.present = self.at(before.boundary)
            carried = self.places.history + 1
            to, given = tree_leaves(self.present.storage), tree_leaves(before.storage)
            for leaf, other in zip(to, given, strict=True):
                leaf[:carried] = other[self.horizon :]
            self.present.start, self.present.answered = before.boundary, 0
            self.present.state = before.state
        self.present.begin(horizon)

    def restart(self, state: Any) -> Row:
        """Begin anew; returns the row that the environments write first."""
        self.present = self.windows[0]
        return self.present.restart(state)

    def finish(self, state: Any) -> None:
        """All rows are answered and the boundary row has arrived, at which `state` is fed."""
        self.present.finish(state)

    def restore(self, carry: dict[str, Any]) -> None:
        """Take up a carry: the next collect() goes on from its boundary row."""
        self.present = self.at(int(carry["start"]))
        self.present.restore(carry)

    def go_on_behind(self, boundary: int) -> None:
        """Let the next window begin with this row, which another process received."""
        self.resume(boundary - self.horizon)

    def resume(self, start: int) -> None:
        """Go on behind the window that begins with this row, as another process left it."""
        self.present = self.at(start)
        self.present.start, self.present.answered = start, self.horizon

    def part(self, columns: slice) -> RotationPart:
        """Some columns, seen as a window of their own."""
        return RotationPart(self, columns)

    def rows_for(self, env_steps: int) -> int:
        """How many rows are collected when so many env steps are missing: always T."""
        return self.horizon

    def carry(self) -> dict[str, Any]:
        """The part that the next window needs: history, boundary row, state, row number."""
        return self.present.carry()

    def example_carry(self) -> dict[str, Any]:
        """A carry's structure, whatever its values."""
        return self.present.example_carry()

    @property
    def start(self) -> int:
        return self.present.start

    @property
    def boundary(self) -> int:
        """Absolute number of the row that has arrived and is not answered, between windows."""
        return self.present.boundary

    @property
    def state(self) -> Any:
        """What the agent is fed at row 0, and after the window at the boundary row; [B, ...]."""
        return self.present.state

    @property
    def slots(self) -> list[Slot]:
        return self.present.slots

    @property
    def rows(self) -> Row:
        """Rows 0 .. T, numpy [T+1, B, ...]."""
        return self.present.rows

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        self.present.keep(t, state)

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [B, ...]; stacks are valid until the next call."""
        return self.present.acting_inputs(t)

    whole_inputs = acting_inputs


@final
class RotationPart:
    """Some columns of the windows that take turns, seen as a window of [T + 1, b].

    Where the windows are collected by another process, who is at work here says by `follow` which
    rows are present.
    """

    def __init__(self, whole: Rotation, columns: slice) -> None:
        self.whole, self.columns, self.total_envs = whole, columns, whole.num_envs
        self.horizon = whole.horizon
        self.num_envs = columns.stop - columns.start
        self._parts = [window.part(columns) for window in whole.windows]
        self.present: WindowPart = self._parts[0]

    def follow(self, start: int, horizon: int | None = None) -> None:
        """The present rows are those from number `start` on."""
        self.present = self._parts[start // self.horizon % len(self._parts)]
        self.present.follow(start, horizon)

    def begin(self, horizon: int | None = None) -> None:
        """The window itself has made room."""
        self.present.begin(horizon)

    def keep(self, t: int, state: Any) -> None:
        """Keep the state as fed at row t, if it is one of every `state_interval` rows."""
        self.present.keep(t, state)

    def kept(self) -> Iterator[tuple[int, Any]]:
        """The rows whose state is kept, and the states."""
        return self.present.kept()

    def finish(self, state: Any) -> None:
        """The boundary row of these columns has arrived, at which `state` is fed."""
        self.present.finish(state)

    def restart(self, state: Any) -> Row:
        """Begin anew; returns the row that the environments write first."""
        self.present = self._parts[0]
        return self.present.restart(state)

    @property
    def start(self) -> int:
        return self.present.start

    @property
    def state(self) -> Any:
        """What the agent is fed next, [b, ...]; views of the present window's."""
        return self.present.state

    @property
    def slots(self) -> list[Slot]:
        return self.present.slots

    @property
    def rows(self) -> Row:
        """Rows 0 .. T, numpy [T+1, b, ...]."""
        return self.present.rows

    def acting_inputs(self, t: int) -> Inputs:
        """What the agent reads at row t, tensors [b, ...]; stacks are valid until the next call."""
        return self.present.acting_inputs(t)

    def whole_inputs(self, t: int) -> Inputs:
        """The same of all columns of the window, [B, ...]."""
        return self.present.whole_inputs(t)
