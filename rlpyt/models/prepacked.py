"""Large linear layers with their weights in oneDNN's own order, while nothing changes them.

A few rows times a large matrix is bound by memory: beside an emulator the matrix does not fit the
caches, and the ordinary product, which knows nothing of the next, reads it, rearranges it, and
reads it again. Rearranged once for all rows of a window it is read once a row: with the network of
DQN (Mnih et al., 2015) a core samples Pong a sixth faster with 4 or 8 environments.

The same sums are taken in another order: answers differ in the last bits of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

LARGE = 2**18
"""Weights of a layer that is worth it, which fill 1 MB."""
PASSES = 16
"""Forward passes that are worth it: rearranging costs what four of them win."""

_ops: Any = torch.ops.mkldnn  # what PyTorch's own compiler emits for frozen weights
_offered = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    and hasattr(_ops, "_reorder_linear_weight")
    and hasattr(_ops, "_linear_pointwise")
)


def prepackable(agent: Any) -> list[nn.Linear]:
    """An agent's large layers: of float32 and on a CPU for which PyTorch offers it."""
    if not _offered or getattr(agent, "precision", "float32") != "float32":
        return []
    model = getattr(agent, "model", None)
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return [module for module in modules if type(module) is nn.Linear and _fits(module.weight)]


def _fits(weight: Tensor) -> bool:
    return weight.numel() >= LARGE and weight.is_cpu and weight.dtype == torch.float32


@contextmanager
def prepacked(layers: Sequence[nn.Linear], batch: int) -> Iterator[None]:
    """Have layers compute with a rearranged copy of their weights, which must not change meanwhile.

    Args:
        layers: of `prepackable`; called as modules, without gradients.
        batch: rows [batch, inputs] of a call, for which the order is chosen; others do, too.
    """
    try:
        for layer in layers:
            weight = _ops._reorder_linear_weight(layer.weight.detach(), batch)
            layer.__dict__["forward"] = _forward(weight, layer.bias)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def _forward(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    return lambda x: _ops._linear_pointwise(x, weight, bias, "none", [], "")
