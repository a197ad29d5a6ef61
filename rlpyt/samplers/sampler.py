"""The collection loop: environments and agent in turn, every row written in place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import accumulate
from operator import attrgetter
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rlpyt.arrays import NamedArrayTuple, tree_items, tree_leaves
from rlpyt.envs.spec import EnvSpec, MultiDiscrete, not_finite, outside
from rlpyt.errors import EnvironmentFault
from rlpyt.noise import Noise
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Inputs, Row, Window


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
    """State in, state out: it keeps nothing between rows. Noise None: its likeliest action."""

    def act(self, inputs: Inputs, state: Any, noise: Tensor | None) -> tuple[Any, Any, Any]: ...


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
        self._strict_bounds, self._check_agent = strict_bounds, check
        self.seconds = {"env": 0.0, "act": 0.0}
        self.infos: dict[tuple[int, int], dict[str, float]] = {}  # of the window's endings
        self._bounds_seen = False
        self._initial_state = window.state
        action = envs.spec.action
        sizes = action.nvec if isinstance(action, MultiDiscrete) else (envs.spec.mask_size,)
        self._choices = [0, *accumulate(sizes[:-1])]  # where each one begins in a mask

    def reset(self) -> None:
        """Start every environment anew, as at the beginning of a run."""
        row = self.window.restart(self._initial_state)
        self.envs.reset(row)
        self._check(row[None], 0)

    @torch.inference_mode()
    def collect(self, horizon: int | None = None) -> Any:
        """Answer T rows with the agent's present weights and receive the boundary row.

        Args:
            horizon: T, where it is not the window's own.
        """
        window, act = self.window, self.agent.act
        send, recv, ended, keep = self.envs.send, self.envs.recv, self.envs.ended, window.keep
        self.infos.clear()
        if self._check_agent is not None:
            self._check_agent()
        window.begin(horizon)
        slots, state = window.slots, window.state
        noise, keeps = None, isinstance(slots[0].answer.info, NamedArrayTuple)
        if self.noise is not None:
            noise = torch.from_numpy(self.noise.rows(window.start, window.horizon)).unbind()
        alone = isinstance(slots[0].answer.action, Tensor)  # no tree: half the time
        remembers = bool(tree_leaves(state))
        acting, begun = 0.0, perf_counter()
        t = 0
        try:
            for t in range(window.horizon):
                if remembers:
                    keep(t, state)
                row, answer, floats = slots[t]
                before = perf_counter()
                action, info, state = act(
                    window.acting_inputs(t), state, None if noise is None else noise[t]
                )
                if alone:
                    answer.action.copy_(action)
                else:
                    answer.action[:] = action
                if keeps:
                    answer.info[:] = info
                for leaf in floats:
                    if np.count_nonzero(np.isfinite(leaf)) < leaf.size:
                        self._check_action(t)
                acting += perf_counter() - before
                send(row, slots[t + 1].row)
                recv(slots[t + 1].row)
                if ended:
                    self.infos.update({(t + 1, b): numbers for b, numbers in ended})
                    ended.clear()
        except Exception:
            # What had arrived may be the cause: it is named first.
            self._check(window.rows[: t + 1], window.start)
            raise
        window.finish(state)
        self._check(window.rows[1:], window.start + 1)
        self.seconds["act"] += acting
        self.seconds["env"] += perf_counter() - begun - acting
        return window

    def _check(self, rows: Row, first: int) -> None:
        """Refuse NaN and infinity in what arrived; say once when bounds are not kept.

        Args:
            rows: numpy [n, B, ...], rows that arrived.
            first: number of the first of them.
        """
        spec = self.envs.spec
        for path in not_finite(spec.observation, rows.observation, "observation"):
            self._raise(path, attrgetter(path)(rows), first)
        if not np.isfinite(rows.reward).all():
            self._raise("reward", rows.reward, first)
        if rows.mask is not None:
            allowed = np.logical_or.reduceat(rows.mask, self._choices, axis=-1).all(-1)  # [n, B]
            empty = ~allowed & ~rows.last
            if empty.any():
                t, b = np.argwhere(empty)[0]
                raise EnvironmentFault(
                    f"environment {b} ({spec.id}) allowed no action at row {first + t}: its action "
                    "mask is all false (or that of one component of a MultiDiscrete); a state "
                    "without a valid action must end the episode"
                )
        if not self._bounds_seen:
            paths = outside(spec.observation, rows.observation, "observation")
            if paths:
                self._outside(paths)

    def _check_action(self, t: int) -> None:
        """Refuse NaN and infinity in the answer to row t, before it is executed."""
        row = self.window.rows[t]
        for path, values in tree_items(row.action):
            wrong = ~np.isfinite(values).reshape(len(values), -1).all(-1) & ~row.last
            if wrong.any():
                b = int(wrong.argmax())
                raise FloatingPointError(
                    f"{f'action.{path}'.rstrip('.')} for environment {b} ({self.envs.spec.id}) is "
                    f"not finite at row {self.window.start + t}: {values[b]}; the network diverged "
                    "or its weights are damaged: lower --lr, or start from an earlier checkpoint"
                )

    def _outside(self, paths: list[str]) -> None:
        self._bounds_seen = True
        what = (
            f"{self.envs.spec.id}: {', '.join(paths)} left the bounds that the observation space "
            "declares"
        )
        if self._strict_bounds:
            raise EnvironmentFault(f"{what}; mend the space or drop --strict-bounds")
        warnings.warn(f"{what}; training goes on with the values as they are", stacklevel=4)

    def _raise(self, field: str, values: np.ndarray, first: int) -> None:
        flat = np.isfinite(values).reshape(*values.shape[:2], -1).all(-1)
        t, b = np.argwhere(~flat)[0]
        raise EnvironmentFault(
            f"{field} of environment {b} ({self.envs.spec.id}) is not finite at row {first + t}: "
            f"{values[t, b]}; mend the environment, or wrap it so that it ends the episode first"
        )
