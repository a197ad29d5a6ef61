"""Environments that were lost with their process: what another process needs to go on for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.spec import Box, EnvSpec, example, leaves
from rlpyt.rows import Row


def lost(resets: np.ndarray, starts: int = 0) -> dict[str, Any]:
    """The snapshot of environments of which nothing is left but how often they were reset.

    Whoever restores it cuts their episodes, and begins others with the next resets.

    Args:
        resets: [B], at least as many as there were.
        starts: the same of a pool whose environments are all reset together.
    """
    log = {"rows": (), "begins": np.full(len(resets), -1), "count": 0}
    return {"resets": resets, "log": log, "own": {}, "starts": starts}


def resets_of(state: dict[str, Any], num_envs: int) -> np.ndarray:
    """How often each column [B] was reset, by a snapshot of whatever environments.

    A pool resets all at once, and counts that alone.
    """
    if "resets" in state:
        return np.array(state["resets"])
    return np.full(num_envs, int(state["starts"]))


class Blank:
    """Writes rows of columns that nobody steps any more: of no episode, learned from by nobody.

    Args:
        spec: of the environments; what is observed is zero, or the nearest that its bounds allow.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._observation = example(spec.observation)
        boxes = [leaf for _, leaf in leaves(spec.observation)]
        for x, leaf in zip(tree_leaves(self._observation), boxes, strict=True):
            if isinstance(leaf, Box):
                x[...] = np.clip(0, leaf.low, leaf.high).astype(x.dtype)

    def write(self, row: Row, next_row: Row) -> None:
        """Cut what is open at `row`, whose action is lost, and write the row after it."""
        row.truncated[~row.last] = True
        tree_map(self._fill, next_row.observation, self._observation)
        for leaf in tree_leaves((next_row.reward, next_row.terminated, next_row.env_info)):
            leaf[...] = 0
        next_row.first[...] = next_row.truncated[...] = next_row.cut[...] = True
        if next_row.mask is not None:
            next_row.mask[...] = True

    @staticmethod
    def _fill(stored: np.ndarray, value: np.ndarray) -> None:
        stored[...] = value
