"""Names of weights, the same whether or not a network was wrapped by torch.compile."""

from __future__ import annotations

from typing import Any, Final

from torch import nn

WRAPPER: Final = "_orig_mod."  # what torch.compile(module) puts in front of the module's own names


def keep_plain(module: nn.Module) -> None:
    """Have the module saved under names without the wrapper's, and loaded from them."""
    module.register_state_dict_post_hook(_without)
    module.register_load_state_dict_pre_hook(_with)


def _without(module: nn.Module, state: dict[str, Any], *_: Any) -> None:
    plain = {name.replace(WRAPPER, ""): tensor for name, tensor in state.items()}
    state.clear()
    state.update(plain)


def _with(module: nn.Module, state: dict[str, Any], *_: Any) -> None:
    named = (*module.named_parameters(), *module.named_buffers())
    own = {name.replace(WRAPPER, ""): name for name, _ in named}
    _without(module, state)
    given = {own.get(name, name): tensor for name, tensor in state.items()}
    state.clear()
    state.update(given)
