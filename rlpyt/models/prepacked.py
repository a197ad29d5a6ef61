"""Large linear layers with their weights in oneDNN's own order, while nothing changes them.

A few rows times a large matrix is bound by memory: beside an emulator the matrix does not fit the
caches, and the ordinary product, which knows nothing of the next, reads it, rearranges it, and
reads it again. Rearranged once for all rows of a window it is read once a row: with the network of
DQN (Mnih et al., 2015) a core samples Pong a seventh faster with 4 environments, a fifth with 8.

The same sums are taken in another order: answers differ in the last bits of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
    """The large layers that an agent acts with: of float32, on a CPU for which it is offered."""
    if not _offered or getattr(agent, "precision", "float32") != "float32":
        return []
    acting = agent.acting() if hasattr(agent, "acting") else ()
    layers = {layer: None for module in acting for layer in module.modules() if _fits(layer)}
    return list(layers)


def _fits(layer: nn.Module) -> bool:
    """Whether a layer is a plain one, of a weight that is no function of others, and large."""
    if type(layer) is not nn.Linear or "forward" in layer.__dict__ or layer._forward_pre_hooks:
        return False
    weight = layer._parameters.get("weight")
    if weight is None or getattr(layer, "_compiled_call_impl", None) is not None:
        return False
    return weight.numel() >= LARGE and weight.is_cpu and weight.dtype == torch.float32


@contextmanager
def prepacked(layers: Sequence[nn.Linear], batch: int) -> Iterator[None]:
    """Have layers compute with a rearranged copy of their weights, which must not change meanwhile.

    Args:
        layers: of `prepackable`; called as modules, or by `forward`, without gradients.
        batch: rows [batch, inputs] of a call, for which the order is chosen; others do, too.
    """
    try:
        for layer in layers:
            weight = _ops._reorder_linear_weight(layer.weight.detach(), batch)
            layer.__dict__["forward"] = _forward(layer, weight)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def _forward(layer: nn.Linear, weight: Tensor) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return F.linear(x, layer.weight, layer.bias)
        return _ops._linear_pointwise(x, weight, layer.bias, "none", [], "")

    return forward
