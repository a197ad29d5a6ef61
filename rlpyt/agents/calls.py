"""How an agent calls its network: what goes in brought to it, what comes out as float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.arrays import tree_map
from rlpyt.rows import Inputs
from rlpyt.storage import to_device


def read(inputs: Inputs, normalizer: ObservationNormalizer | None, device: torch.device) -> Inputs:
    """The inputs on the network's device, observations normalized."""
    if device.type != "cpu":
        inputs = to_device(inputs, device)
    if normalizer is None:
        return inputs
    return inputs.replace(observation=normalizer(inputs.observation))


def call(network: Callable[..., Any], precision: str, device: torch.device, *inputs: Any) -> Any:
    """What the network gives, in float32 whatever it computes in ("bf16" is autocast)."""
    if precision == "float32":
        return network(*inputs)
    with torch.autocast(device.type, torch.bfloat16):
        out = network(*inputs)
    return tree_map(lambda x: x.float(), out)
