"""Gymnasium's spaces as trees of text, numbers and arrays, so that a saved agent knows its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rlpyt.envs.masks import MASK
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError

Space = spaces.Space[Any]


def encode(space: Space) -> dict[str, Any]:
    """The form of a space that `decode` reads."""
    match space:
        case spaces.Box():
            return {"kind": "box", "low": space.low, "high": space.high}
        case spaces.Discrete():
            names = {"n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
            return {"kind": "discrete", **names}
        case spaces.MultiDiscrete():
            arrays = {"nvec": space.nvec, "start": space.start}
            return {"kind": "multi_discrete", **arrays, "dtype": str(space.dtype)}
        case spaces.MultiBinary():
            return {"kind": "multi_binary", "shape": list(space.shape)}
        case spaces.Dict():
            parts = [[key, encode(part)] for key, part in space.spaces.items()]
            return {"kind": "dict", "parts": parts}
        case spaces.Tuple():
            return {"kind": "tuple", "parts": [encode(part) for part in space.spaces]}
    raise UsageError(f"the space {space} cannot be saved")


def decode(saved: dict[str, Any]) -> Space:
    """The space that was encoded."""
    match saved["kind"]:
        case "box":
            low, high = np.asarray(saved["low"]), np.asarray(saved["high"])
            return spaces.Box(low, high, dtype=low.dtype.type)
        case "discrete":
            dtype = np.dtype(saved["dtype"]).type
            return spaces.Discrete(saved["n"], start=saved["start"], dtype=dtype)
        case "multi_discrete":
            dtype = np.dtype(saved["dtype"]).type
            nvec, start = np.asarray(saved["nvec"]), np.asarray(saved["start"])
            return spaces.MultiDiscrete(nvec, start=start, dtype=dtype)
        case "multi_binary":
            shape = saved["shape"]
            return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])
        case "dict":
            return spaces.Dict([(key, decode(part)) for key, part in saved["parts"]])
        case "tuple":
            return spaces.Tuple([decode(part) for part in saved["parts"]])
    raise UsageError(f"spaces of kind {saved['kind']!r} are unknown; install a newer rlpyt")


def encode_spec(spec: EnvSpec, float64_as: str) -> dict[str, Any]:
    """What an EnvSpec says beside the spaces."""
    names = ("id", "mask", "mask_size", "frame_stack", "frames_per_step")
    fields = {name: getattr(spec, name) for name in names}
    return {**fields, "env_info": list(spec.env_info), "float64_as": float64_as}


def decode_spec(saved: dict[str, Any], observation: Space, action: Space) -> EnvSpec:
    """The specification of an environment with these spaces."""
    saved = dict(saved)
    float64_as, env_info = saved.pop("float64_as"), tuple(saved.pop("env_info"))
    if saved["mask"] == "observation":
        assert isinstance(observation, spaces.Dict)
        parts = [(key, part) for key, part in observation.spaces.items() if key != MASK]
        observation = spaces.Dict(parts)
    return EnvSpec(
        observation=to_spec(observation, "observation", float64_as=float64_as),
        action=to_spec(action, "action"),
        env_info=env_info,
        **saved,
    )
