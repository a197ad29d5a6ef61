"""The collection loop: environments and agent in turn, every row written in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.spec import EnvSpec
from rlpyt.models.prepacked import PASSES, prepackable, prepacked
from rlpyt.noise import Noise
from rlpyt.processes.heart import ACT, Heart
from rlpyt.ring_window import RingPart, RingWindow
from rlpyt.rotation import Rotation, RotationPart
from rlpyt.rows import Inputs, Row, Slot, Window, WindowPart
from rlpyt.samplers.checks import Checks
from rlpyt.samplers.in_turns import InTurns
from rlpyt.samplers.padded import Padded, acting_threads
from rlpyt.vector.in_process import Ended


class Environments(Protocol):
    """B environments, in groups that take turns, which write what arrives into rows in place.

    `send` and `recv` have a group's rows, of [b, ...] views; the others have whole rows.
    """

    spec: EnvSpec
    num_envs: int
    groups: tuple[slice, ...]

    def reset(self, row: Row, /) -> None: ...
    def send(self, row: Row, next_row: Row, group: int = 0, /) -> None: ...
    def recv(self, row: Row, group: int = 0, /) -> Ended: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any], row: Row, /) -> list[int]: ...
    def metrics(self) -> dict[str, float]: ...
    def close(self) -> None: ...


class Agent(Protocol):
    """State in, state out: it keeps nothing between rows.

    `draws` makes of noise [T, B, n] what `act` takes at each of T rows; None: its likeliest action.
    Its `columns` say which of all columns the noise is of, where it is not of all.
    """

    def draws(self, noise: np.ndarray, /) -> Sequence[Any]: ...
    def act(self, inputs: Inputs, state: Any, draw: Any, /) -> tuple[Any, Any, Any]: ...


class _Turn(NamedTuple):
    """What one group's turn at row t takes."""

    group: int
    columns: slice  # of the window that is collected
    slots: list[Slot]
    inputs: Callable[[int], Inputs]
    keep: Callable[[int, Any], None]
    act: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    draws: Sequence[Any]


class Sampler(InTurns):
    """Fills one window after another.

    Args:
        envs: who steps; in this process or elsewhere.
        agent: who answers.
        window: where the rows lie; its state is what the agent is fed next. Some columns of a
            window that another process collects are a window, too.
        noise: acting noise by row, of the columns that a forward pass has: the window's, or in
            strict mode all; None acts without (greedily).
        strict: every forward pass has all columns of the whole window, and one thread.
        strict_bounds: whether an observation out of its declared bounds is an error.
        finite: whether an observation or a reward that is not finite is one.
        check: called before each window; raises where the agent's weights are not finite.
        heart: beats before each forward pass, where somebody watches.
        threads: of forward passes, where they are fewer than of learning; strict mode has one.
    """

    def __init__(
        self,
        envs: Environments,
        agent: Agent,
        window: Window | RingWindow | Rotation | WindowPart | RingPart | RotationPart,
        noise: Noise | None,
        *,
        strict: bool = False,
        strict_bounds: bool = False,
        finite: bool = True,
        check: Callable[[], None] | None = None,
        heart: Heart | None = None,
        threads: int | None = None,
    ) -> None:
        self._heart = heart
        self.envs, self.agent, self.window, self.noise = envs, agent, window, noise
        self._checks = Checks(envs.spec, strict_bounds, window.columns.start, finite)
        self._check_agent = check
        self._strict, self._threads = strict, 1 if strict else threads
        self.seconds = {"env": 0.0, "act": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the window's endings
        self._arrived = 1  # rows of every group, of the window that is collected
        self._initial_state = tree_map(torch.clone, window.state)
        self._parts: list[Any] = [window]
        if len(envs.groups) > 1:
            assert isinstance(window, Window | RingWindow | Rotation)
            self._parts = [window.part(columns) for columns in envs.groups]

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        row = self.window.restart(self._initial_state)
        self.envs.reset(row)
        self._checks.arrived(row[None], 0)

    def collect(self, horizon: int | None = None, env_steps: int | None = None) -> Any:
        """Answer T rows with the agent's present weights and receive the boundary row.

        Args:
            horizon: T, where it is not the window's own.
            env_steps: of the run so far, by which an agent sets its exploration; None: as it is.
        """
        if env_steps is not None:
            agent: Any = self.agent
            agent.set_exploration(env_steps)
        with acting_threads(self._threads):
            return self._collect(horizon)

    def snapshot_envs(self) -> dict[str, Any]:
        """The part of a snapshot that is of the environments."""
        return self.envs.snapshot()

    def restore_envs(self, state: dict[str, Any]) -> list[int]:
        """Bring them to where the row arrived that the window goes on with; see `restore`."""
        return self.envs.restore(state, self.window.slots[-1].row)

    def metrics(self) -> dict[str, float]:
        """What a line of the log says of who steps, since the line before."""
        return self.envs.metrics()

    def close(self) -> None:
        """End every environment."""
        self.envs.close()

    @torch.inference_mode()
    def _collect(self, horizon: int | None) -> Any:
        window, checks = self.window, self._checks
        self.infos.clear()
        if self._check_agent is not None:
            self._check_agent()
        window.begin(horizon)
        turns, states = self._turns()
        self._arrived = 1
        begun = perf_counter()
        try:
            with self._prepacked():
                acting = perf_counter() - begun + self._play(turns, states)
        except Exception:
            # What had arrived may be the cause: it is named first.
            checks.arrived(window.rows[: self._arrived], window.start)
            raise
        window.finish(states[0] if len(turns) == 1 else _joined(states))
        checks.arrived(window.rows, window.start)
        self.seconds["act"] += acting
        self.seconds["env"] += perf_counter() - begun - acting
        return window

    def _play(self, turns: list[_Turn], states: list[Any]) -> float:
        """Take every group's turns at all rows; seconds of acting."""
        window, checks = self.window, self._checks
        send, recv = self.envs.send, self.envs.recv
        last = len(turns) - 1
        keeps = type(window.slots[0].row.info) is not tuple
        remembers = bool(tree_leaves(window.state))
        heart = self._heart
        acting = 0.0
        for t in range(window.horizon):
            for g, columns, slots, inputs, keep, act, draws in turns:
                row, floats = slots[t]
                if t and (ended := recv(row, g)):
                    self._note(t, columns, ended)
                if g == last:
                    self._arrived = t + 1
                before = perf_counter()
                if heart is not None:
                    heart.beat(-1, ACT)
                state = states[g]
                if remembers:
                    keep(t, state)
                action, info, states[g] = act(inputs(t), state, draws[t])
                _write(row.action, action)
                if keeps:
                    _write(row.info, info)
                for leaf in floats:
                    if np.count_nonzero(np.isfinite(leaf)) < leaf.size:
                        checks.answered(row, window.start + t, columns.start)
                if heart is not None:
                    heart.rest()
                acting += perf_counter() - before
                send(row, slots[t + 1].row, g)
        for g, columns, slots, *_ in turns:
            if ended := recv(slots[window.horizon].row, g):
                self._note(window.horizon, columns, ended)
        return acting

    def _prepacked(self) -> AbstractContextManager[object]:
        """Large layers made ready for a window of many rows: its weights do not change."""
        window = self.window
        if window.horizon < PASSES:
            return nullcontext()
        batch = window.total_envs if self._strict else window.num_envs // len(self._parts)
        return prepacked(prepackable(self.agent), batch)

    def _turns(self) -> tuple[list[_Turn], list[Any]]:
        """What each group's turns take in the window that begins, and the state that it is fed."""
        window, act, fed = self.window, self.agent.act, self.window.state
        noise = None if self.noise is None else self.noise.rows(window.start, window.horizon)
        shared = self._draws(noise, None) if self._strict or len(self._parts) == 1 else None
        turns, states = [], []
        for g, (part, columns) in enumerate(zip(self._parts, self.envs.groups, strict=True)):
            state, inputs, answer = fed, part.acting_inputs, act
            if part is not window:
                part.follow(window.start, window.horizon)
                state = tree_map(lambda x, at=columns: x[at], fed)
            if self._strict:
                inputs = part.whole_inputs
                answer = Padded(act, part.columns, window.total_envs, state).act
            draws = shared or self._draws(noise, columns)
            turns.append(_Turn(g, columns, part.slots, inputs, part.keep, answer, draws))
            states.append(state)
        return turns, states

    def _draws(self, noise: np.ndarray | None, columns: slice | None) -> Sequence[Any]:
        """What is random about the answers to each row of the window.

        Args:
            noise: [T, b, n].
            columns: of the window, whose answers these are; None: of all that the noise is of.
        """
        if noise is None:
            return [None] * self.window.horizon
        draws: Any = self.agent.draws
        if columns is not None:
            noise = noise[:, columns]
        elif self._strict or self.window.num_envs == self.window.total_envs:
            return draws(noise)
        first = self.window.columns.start
        columns = columns or slice(0, self.window.num_envs)
        return draws(noise, slice(first + columns.start, first + columns.stop))

    def _note(self, t: int, columns: slice, ended: Ended) -> None:
        self.infos.update({(t, columns.start + b): numbers for b, numbers in ended})


def _joined(states: list[Any]) -> Any:
    """The state of all columns, [B, ...], of those of their groups."""
    return tree_map(lambda *xs: torch.cat(xs), *states)


def _write(stored: Any, answer: Any) -> None:
    """Write an answer, a tree of tensors, where it is stored, a tree of arrays.

    A graph that an agent may have answered with stays behind.
    """
    if type(stored) is np.ndarray:
        answer = answer if answer.is_cpu else answer.cpu()
        stored[...] = (answer.detach() if answer.requires_grad else answer).numpy()
    else:
        for array, tensor in zip(stored, answer, strict=True):
            _write(array, tensor)
