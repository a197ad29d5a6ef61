"""Running statistics that belong to the agent: saved with it, frozen in evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.arrays import tree_items, tree_map
from rlpyt.ranks import merge_moments, world

_EPSILON = 1e-8


class ObservationNormalizer(nn.Module):
    """(observation - mean) / std of every leaf of floats, clipped; other leaves pass unchanged.

    Until the first update it is the identity. Statistics are exact moments of all rows seen,
    merged in float64 (Chan et al., 1979).

    Args:
        example: one observation without leading dimensions, numpy.
        scaled: for each leaf, whether the network scales it itself (images); None: none.
        clip: bound of the normalized values.
    """

    def __init__(
        self, example: Any, scaled: Sequence[bool] | None = None, clip: float = 10.0
    ) -> None:
        super().__init__()
        self.clip = clip
        self._example = example
        for i, (_, leaf) in enumerate(tree_items(example)):
            if leaf.dtype.kind == "f" and not (scaled and scaled[i]):
                shape = leaf.shape
                # What is stored in float64 may differ from its mean by less than float32 tells.
                wide = torch.float64 if leaf.dtype == np.float64 else torch.float32
                self.register_buffer(f"mean{i}", torch.zeros(shape, dtype=wide))
                self.register_buffer(f"scale{i}", torch.ones(shape))  # 1 / std
                moments = torch.zeros((2, *shape), dtype=torch.float64)  # mean, sum of squares
                self.register_buffer(f"moments{i}", moments)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @property
    def leaves(self) -> int:
        """How many leaves are normalized."""
        return sum(name.startswith("moments") for name in self._buffers)

    def forward(self, observation: Any) -> Any:
        """Normalize an observation of any leading dimensions."""
        leaves = iter(range(len(tree_items(self._example))))

        def read(x: Tensor) -> Tensor:
            i = next(leaves)
            mean = self._buffers.get(f"mean{i}")
            if mean is None:
                return x
            scaled = (x - mean) * self.get_buffer(f"scale{i}")
            return scaled.clamp_(-self.clip, self.clip)

        return tree_map(read, observation)

    def update(self, observation: Any, kept: Tensor | None = None) -> None:
        """Merge the statistics of rows, once each.

        Args:
            observation: [T, B, ...].
            kept: [T, B], those that are merged; None: all.
        """
        before, added = int(self.count), None
        for i, (_, leaf) in enumerate(tree_items(observation)):
            moments = self._buffers.get(f"moments{i}")
            if moments is None:
                continue
            values = leaf.flatten(0, 1) if kept is None else leaf[kept]
            values = values.to(torch.float64)
            mean = values.mean(0)
            squares = ((values - mean) ** 2).sum(0)
            added, mean, squares = world().moments(len(values), mean, squares)
            if not added:
                return
            merged = merge_moments(before, moments[0], moments[1], added, mean, squares)
            count, moments[0], moments[1] = merged
            std = (moments[1] / count + _EPSILON).sqrt()
            self.get_buffer(f"mean{i}").copy_(moments[0])
            self.get_buffer(f"scale{i}").copy_(1 / std)
        _, first = tree_items(observation)[0]
        if added is None:
            rows = first.shape[0] * first.shape[1] if kept is None else int(kept.sum())
            added = int(*world().totals(rows))
        self.count += added


class RewardScale(nn.Module):
    """Rewards divided by the standard deviation of the running discounted return.

    G[n] = gamma * G[n-1] + r[n] restarts at an episode's first row; its variance over all rows
    that are not first scales what the learner reads (Engstrom et al., 2020, section 3). Rows
    and reported returns stay raw.

    Args:
        num_envs: B.
        gamma: discount of the running return.
        clip: bound of the scaled reward.
    """

    carry: Tensor
    moments: Tensor

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0) -> None:
        super().__init__()
        self.gamma, self.clip = gamma, clip
        self.register_buffer("carry", torch.zeros(num_envs, dtype=torch.float64))  # G, [B]
        # count, mean and sum of squared differences of G
        self.register_buffer("moments", torch.zeros(3, dtype=torch.float64))

    def update(self, reward: np.ndarray, first: np.ndarray) -> None:
        """Merge the rows that arrived in this window: numpy [T, B] each, in order."""
        carry, gamma = self.carry.numpy().copy(), self.gamma
        returns = np.empty(reward.shape)
        for t in range(len(reward)):
            carry = np.where(first[t], 0.0, carry * gamma) + reward[t]
            returns[t] = carry
        self.carry.copy_(torch.from_numpy(carry))
        values = returns[~first]
        mean = values.mean() if len(values) else 0.0
        squares = ((values - mean) ** 2).sum()
        n, mean, squares = world().moments(len(values), mean, squares)
        if n:
            count, of_mean, of_squares = self.moments.tolist()
            new = n, float(mean), float(squares)
            merged = merge_moments(int(count), of_mean, of_squares, *new)
            self.moments.copy_(torch.tensor(merged, dtype=torch.float64))

    def forward(self, reward: Tensor) -> Tensor:
        """Scale rewards of any shape."""
        count, _, squares = self.moments.tolist()
        if not count:
            return reward
        std = (squares / count + _EPSILON) ** 0.5
        return (reward / std).clamp(-self.clip, self.clip)
