"""The collection loop: environments and agent in turn, every row written in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch

from rlpyt.arrays import tree_leaves
from rlpyt.envs.spec import EnvSpec
from rlpyt.noise import Noise
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Inputs, Row, Window
from rlpyt.samplers.checks import Checks


class Environments(Protocol):
    """B environments that write what arrives into rows of [B, ...] views."""

    spec: EnvSpec
    num_envs: int
    ended: list[tuple[int, dict[str, float]]]

    def reset(self, row: Row) -> None: ...
    def send(self, row: Row, next_row: Row) -> None: ...
    def recv(self, row: Row) -> None: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any], row: Row) -> list[int]: ...
    def close(self) -> None: ...


class Agent(Protocol):
    """State in, state out: it keeps nothing between rows.

    `draws` makes of noise [T, B, n] what `act` takes at each of T rows; None: its likeliest action.
    """

    def draws(self, noise: np.ndarray, /) -> Sequence[Any]: ...
    def act(self, inputs: Inputs, state: Any, draw: Any, /) -> tuple[Any, Any, Any]: ...


class Sampler:
    """Fills one window after another.

    Args:
        envs: who steps; in this process or elsewhere.
        agent: who answers.
        window: where the rows lie; its state is what the agent is fed next.
        noise: acting noise by row and column; None acts without (greedily).
        strict_bounds: whether an observation out of its declared bounds is an error.
        check: called before each window; raises where the agent's weights are not finite.
    """

    def __init__(
        self,
        envs: Environments,
        agent: Agent,
        window: Window | RingWindow,
        noise: Noise | None,
        *,
        strict_bounds: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.envs, self.agent, self.window, self.noise = envs, agent, window, noise
        self._checks, self._check_agent = Checks(envs.spec, strict_bounds), check
        self.seconds = {"env": 0.0, "act": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the window's endings
        self._initial_state = window.state

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        row = self.window.restart(self._initial_state)
        self.envs.reset(row)
        self._checks.arrived(row[None], 0)

    @torch.inference_mode()
    def collect(self, horizon: int | None = None) -> Any:
        """Answer T rows with the agent's present weights and receive the boundary row.

        Args:
            horizon: T, where it is not the window's own.
        """
        window, act, checks = self.window, self.agent.act, self._checks
        send, recv, ended, keep = self.envs.send, self.envs.recv, self.envs.ended, window.keep
        self.infos.clear()
        if self._check_agent is not None:
            self._check_agent()
        window.begin(horizon)
        slots, state = window.slots, window.state
        keeps = type(slots[0].row.info) is not tuple
        remembers = bool(tree_leaves(state))
        acting, begun = 0.0, perf_counter()
        t = 0
        try:
            for t, draw in enumerate(self._draws()):
                if remembers:
                    keep(t, state)
                row, floats = slots[t]
                before = perf_counter()
                action, info, state = act(window.acting_inputs(t), state, draw)
                _write(row.action, action)
                if keeps:
                    _write(row.info, info)
                for leaf in floats:
                    if np.count_nonzero(np.isfinite(leaf)) < leaf.size:
                        checks.answered(row, window.start + t)
                acting += perf_counter() - before
                next_row = slots[t + 1].row
                send(row, next_row)
                recv(next_row)
                if ended:
                    self.infos.update({(t + 1, b): numbers for b, numbers in ended})
                    ended.clear()
        except Exception:
            # What had arrived may be the cause: it is named first.
            checks.arrived(window.rows[: t + 1], window.start)
            raise
        window.finish(state)
        checks.arrived(window.rows, window.start)
        self.seconds["act"] += acting
        self.seconds["env"] += perf_counter() - begun - acting
        return window

    def _draws(self) -> Iterable[Any]:
        """What is random about the answer to each row of the window."""
        window = self.window
        if self.noise is None:
            return repeat(None, window.horizon)
        return self.agent.draws(self.noise.rows(window.start, window.horizon))


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
