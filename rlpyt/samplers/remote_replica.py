"""What a replica on another machine does: it collects its columns, and hands over what came.

It has a window of its own of which it fills its columns alone, by the ordinary `Sampler`; row
numbers, noise, resets and kept states are those of the run.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.arrays import tree_map
from rlpyt.processes.heart import Heart
from rlpyt.rows import Row
from rlpyt.samplers.published import acting_tensors, copy_tensors
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import as_arrays, as_tensors


class RemotePart(NamedTuple):
    """What a remote replica is made of."""

    sampler: Sampler  # of its columns alone
    agent: Any  # answers them
    whole: Any  # the window that they are columns of, in the memory of its process


class Collected(NamedTuple):
    """A window of some columns, for whoever asked for it."""

    rows: Row  # numpy, [T+1, b, ...]
    kept: list[tuple[int, Any]]  # row of the window, and the state [b, ...] that it was fed
    state: Any  # numpy, [b, ...], to be fed next
    infos: dict[tuple[int, int], dict[str, float]]  # of the window's endings
    seconds: dict[str, float]


class RemoteReplica:
    """Collects some columns of a run.

    Args:
        part: what it does so with.
        heart: beats meanwhile.
    """

    def __init__(self, part: RemotePart, heart: Heart) -> None:
        torch.set_num_threads(1)
        self._sampler, self._agent, self._whole = part
        self._window: Any = part.sampler.window
        self._heart = heart
        self._initial = tree_map(lambda x: x.clone(), part.whole.state)
        self._version = 0

    def take(self, version: int, weights: list[Any]) -> None:
        """Act with these weights [arrays] from now on."""
        copy_tensors(acting_tensors(self._agent), [torch.as_tensor(x.copy()) for x in weights])
        self._version = version

    @property
    def version(self) -> int:
        """Of the weights that it acts with; 0 before any came."""
        return self._version

    def age(self) -> tuple[float, str]:
        """Seconds in the call of an environment in which it is, and which; 0 between calls."""
        doing = str(self._heart)
        return (self._heart.age() if doing else 0.0), doing

    def reset(self) -> Row:
        """Start every environment anew; returns the row that arrived, [b, ...]."""
        self._whole.restart(self._initial)
        self._sampler.reset()
        return self._window.slots[0].row

    def restore(self, carry: dict[str, Any], envs: dict[str, Any]) -> tuple[list[int], Row]:
        """Go on where a snapshot was taken; returns the columns that were cut, and the row.

        Args:
            carry: of these columns.
            envs: their environments.
        """
        whole, columns = self._whole, self._window.columns
        taken_up = whole.example_carry()
        taken_up["rows"][:, columns] = carry["rows"]
        taken_up["state"] = tree_map(torch.clone, taken_up["state"])
        state = as_tensors(tree_map(np.copy, carry["state"]))
        tree_map(lambda x, y: x[columns].copy_(y), taken_up["state"], state)
        whole.restore({**taken_up, "start": carry["start"]})
        row = whole.slots[-1].row[columns]  # that has arrived
        cut = self._sampler.envs.restore(deepcopy(envs), row)
        return [columns.start + b for b in cut], row

    def snapshot(self) -> dict[str, Any]:
        """Of the environments."""
        return self._sampler.snapshot_envs()

    def collect(self, horizon: int, env_steps: int | None, state: Any) -> Collected:
        """Answer T rows, and receive the one after them; arrays are valid until the next call.

        Args:
            state: [b, ...] that row 0 is fed.
        """
        whole, sampler, window = self._whole, self._sampler, self._window
        whole.begin(horizon)
        window.follow(whole.start, whole.horizon)
        window.finish(as_tensors(tree_map(np.copy, state)))
        sampler.seconds = {"env": 0.0, "act": 0.0}
        sampler.collect(horizon, env_steps)
        whole.finish(whole.state)
        self._heart.rest()
        kept = [(t, as_arrays(fed)) for t, fed in window.kept()]
        after = as_arrays(window.state)
        return Collected(window.rows, kept, after, dict(sampler.infos), sampler.seconds)

    def close(self) -> None:
        """End the environments."""
        self._sampler.close()
