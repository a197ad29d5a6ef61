"""Networks of users: what does not fit is told of before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrizations import _SpectralNorm

from rlpyt.arrays import tree_items, tree_leaves
from rlpyt.errors import UsageError
from rlpyt.models.batch_norm import BatchNorm

T = TypeVar("T")


def check(network: Any, needed: Sequence[str], joint: bool = False) -> None:
    """Refuse a network that an agent cannot use.

    Args:
        needed: names that it must have.
        joint: whether critics read rows and those that they bootstrap from as one batch, and are
            there told which rows their normalization is of.
    """
    kind = type(network).__name__
    if not isinstance(network, nn.Module):
        raise UsageError(
            f"model made {network!r}, a {kind}; it must return a torch.nn.Module (docs/agents.md)"
        )
    missing = [name for name in needed if not hasattr(network, name)]
    if missing:
        raise UsageError(
            f"the network {kind} has no {' and no '.join(missing)}; docs/agents.md says what an "
            "agent asks of its network"
        )
    lazy = next((name for name, x in network.named_parameters() if is_lazy(x)), None)
    if lazy is not None:
        raise UsageError(
            f"the network {kind} has a lazy layer, whose {lazy} has no shape yet; say its inputs' "
            "width, or call the network once before it is returned"
        )
    acting: Any = getattr(network, "acting", None)
    if acting is not None:
        _check_acting(network, acting())
    for name, part in network.named_modules():
        if _goes_by_mode(part):
            raise UsageError(
                f"the network {kind} has {type(part).__name__} ({name}), which answers otherwise "
                "while training than while playing; here acting, learning and evaluating are one "
                "function of the weights: use LayerNorm, GroupNorm or weight_norm, and no dropout"
            )
        if isinstance(part, BatchNorm) and not joint:
            raise UsageError(
                f"the network {kind} has {type(part).__name__} ({name}), and nothing would move "
                "its running statistics, or tell it which rows it is of: that is sac's, where "
                "critics have joint = True (models/q_value.py); use LayerNorm elsewhere"
            )


def _goes_by_mode(part: nn.Module) -> bool:
    """Whether what a module answers, or does to itself, is another thing while it trains."""
    match part:
        case _BatchNorm() | _SpectralNorm() | nn.RReLU():
            return True
        case _InstanceNorm():
            return part.track_running_stats
        case _DropoutNd():
            return part.p > 0
        case nn.RNNBase():
            return part.dropout > 0 and part.num_layers > 1
        case nn.MultiheadAttention():
            return part.dropout > 0
    return False


def _check_acting(network: nn.Module, modules: Iterable[nn.Module]) -> None:
    """Refuse weights that are of no module: whether acting needs them nobody could say."""
    said = {id(x) for part in modules for x in (*part.parameters(), *part.buffers())}
    own = (*network.named_parameters(recurse=False), *network.named_buffers(recurse=False))
    for name, tensor in own:
        if id(tensor) not in said:
            raise UsageError(
                f"the network {type(network).__name__} has {name}, which is of none of the modules "
                "that its acting() gives, and would not reach the processes that act; put it into "
                "one of them, or leave acting() out"
            )


def answered(network: Any, read: Any, answer: Callable[[], T]) -> T:
    """What a network answers to one row; refused where it writes into what it reads, or draws.

    Args:
        read: a tree of tensors, inputs and state: views of rows that are learned from.
        answer: asks the network.
    """
    before = [x._version for x in tree_leaves(read)]
    try:
        found = answer()
    except Exception as error:
        given = ", ".join(f"{name} {tuple(x.shape)}" for name, x in tree_items(read))
        error.add_note(f"while the network {type(network).__name__} was asked for one row: {given}")
        raise
    for (name, x), version in zip(tree_items(read), before, strict=True):
        if x._version != version:
            raise UsageError(
                f"the network {type(network).__name__} changes {name} in place, which is the row "
                "itself that is learned from later; write x = x / 255 in place of x /= 255, say"
            )
    for x, y in zip(tree_leaves(found), tree_leaves(answer()), strict=True):
        # To rounding: what is compiled as it is called (torch.jit) changes last bits.
        if not torch.allclose(x.double(), y.double(), 1e-4, 1e-6, equal_nan=True):
            raise UsageError(
                f"the network {type(network).__name__} answers one row twice and not alike: it "
                "draws at random, or counts its calls; here it is a function of its weights, "
                "inputs and state, and what is random is given (noise)"
            )
    return found


def check_shape(network: Any, shape: Sequence[int], wanted: Sequence[int], what: str) -> None:
    """Refuse outputs of another shape than is wanted.

    Args:
        what: they are.
    """
    if tuple(shape) != tuple(wanted):
        raise UsageError(
            f"the network {type(network).__name__} gives {what} of shape {tuple(shape)} for one "
            f"row; {tuple(wanted)} is wanted"
        )
