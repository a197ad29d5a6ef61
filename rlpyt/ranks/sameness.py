"""Whether what all ranks are to have in common is the same on all of them, to the bit."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlpyt.ranks.alone import Ranks


def bits(tensor: Tensor) -> int:
    """A sum of a tensor's bits: what is the same has the same."""
    flat = tensor.detach().contiguous().view(-1)
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = kinds.get(flat.element_size())
    words = torch.view_as_real(flat).view(-1).view(torch.int32) if kind is None else flat.view(kind)
    return int(words.sum(dtype=torch.int64))


def differing(sums: Mapping[str, int], ranks: Ranks) -> list[str]:
    """The names of what differs, in their order; one exchange of a few bytes where nothing does.

    Args:
        sums: by name; all ranks have the same names.
    """
    short = sum(sums.values()) % (1 << 52)  # what a float64 holds exactly
    most, least = ranks.greatest(short, -short)
    if most == -least:
        return []
    first, *others = ranks.gather(dict(sums))
    return [name for name, x in first.items() if any(other.get(name) != x for other in others)]
