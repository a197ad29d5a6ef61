"""Noise that a deterministic policy explores with, in units in which bounds are -1 and 1."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from rlpyt.algos.options import DDPGOptions


@final
class GaussianNoise:
    """Independent from row to row."""

    remembers = False

    def __init__(self, options: DDPGOptions) -> None:
        """options: exploration_std."""
        self.std = options.exploration_std

    def add(self, action: Tensor, noise: Tensor, process: Any, first: Any) -> tuple[Tensor, Any]:
        """The action [B, d] with noise [B, d] of this standard deviation."""
        return (action + noise).clamp_(-1.0, 1.0), process


@final
class OrnsteinUhlenbeck:
    """x <- (1 - theta) x + std * normal, from 0 in each episode (Lillicrap et al., 2016, sec. 7).

    Every environment and dimension has an x of its own. With the paper's theta = 0.15, std = 0.2
    it settles at a standard deviation of 0.38.
    """

    remembers = True

    def __init__(self, options: DDPGOptions) -> None:
        """options: exploration_std, ou_theta."""
        self.std, self.kept = options.exploration_std, 1 - options.ou_theta

    def add(self, action: Tensor, noise: Tensor, process: Any, first: Any) -> tuple[Tensor, Any]:
        """The action [B, d] with the process, and the process [B, d] after this row.

        Args:
            noise: [B, d] normals times `std`.
            process: as the row before left it.
            first: [B]; where an episode begins.
        """
        before = process.masked_fill(first.unsqueeze(-1), 0.0)
        process = torch.add(noise, before, alpha=self.kept)
        return (action + process).clamp_(-1.0, 1.0), process


def exploration_noise(options: DDPGOptions) -> GaussianNoise | OrnsteinUhlenbeck:
    """The noise that these options ask for."""
    match options.exploration:
        case "gaussian":
            return GaussianNoise(options)
        case "ou":
            return OrnsteinUhlenbeck(options)
