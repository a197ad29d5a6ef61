"""Metrics as they leave a device: one vector for several tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import final

from torch import Tensor


@final
class Means(Mapping[str, "float | Tensor"]):
    """Values by tag, read only if asked for.

    To take a vector apart, or to count, takes as long as a small network does, and what happens
    after every window is read once a line of the log.

    Args:
        counts: gives other values, of when it is asked; the log asks when it writes a line.
        tags, vector: names of the elements of a vector [k]; () and None without any.
    """

    def __init__(
        self,
        counts: Callable[[], Mapping[str, float]],
        tags: tuple[str, ...] = (),
        vector: Tensor | None = None,
    ) -> None:
        self.counts, self.tags, self.vector = counts, tags, vector

    def __getitem__(self, tag: str) -> float | Tensor:
        if self.vector is not None and tag in self.tags:
            return self.vector[self.tags.index(tag)]
        return self.counts()[tag]

    def __iter__(self) -> Iterator[str]:
        yield from self.tags
        yield from self.counts()

    def __len__(self) -> int:
        return len(self.tags) + len(self.counts())
