"""Metrics as they leave a device: one vector for several tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from torch import Tensor


@final
class Means(Mapping[str, "float | Tensor"]):
    """Values by tag, of which those that lie in one vector are taken apart only if asked for.

    Taking them apart takes as long as a small network does, and what happens after every window is
    read once a line of the log.

    Args:
        tags, vector: names of the elements of a vector [k].
        numbers: other values.
    """

    def __init__(
        self, tags: tuple[str, ...], vector: Tensor, numbers: Mapping[str, float | Tensor]
    ) -> None:
        self.tags, self.vector, self.numbers = tags, vector, numbers

    def __getitem__(self, tag: str) -> float | Tensor:
        if tag in self.numbers:
            return self.numbers[tag]
        if tag not in self.tags:
            raise KeyError(tag)
        return self.vector[self.tags.index(tag)]

    def __iter__(self) -> Iterator[str]:
        yield from self.tags
        yield from self.numbers

    def __len__(self) -> int:
        return len(self.tags) + len(self.numbers)
