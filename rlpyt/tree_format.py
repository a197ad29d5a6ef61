"""A tree of arrays, numbers and text as JSON and named tensors, and back without loss.

In the JSON form a list, a text, true, false, null and a finite number mean themselves, and every
object is one tagged node: {"dict": {...}}, {"tuple": [...]}, {"tensor": name}, {"array": name},
{"scalar": name} (of NumPy) or {"float": "7ff8000000000000"} (NaN or infinite, its bits).
"""

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from rlpyt.arrays import NamedArrayTuple
from rlpyt.errors import UsageError

STORED = {
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64),
}


def encode(tree: Any, path: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """The JSON form of a tree and its tensors, named by their dotted paths.

    Args:
        tree: dicts with text keys, NamedArrayTuples (they become dicts), lists and tuples of
            arrays, tensors, numbers, text and None.
    """
    tensors: dict[str, Tensor] = {}
    return _encode(tree, path, tensors), tensors


def decode(node: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The tree of a JSON form: arrays are writable, tensors lie on the CPU."""
    if isinstance(node, list):
        return [decode(part, tensors) for part in node]
    if not isinstance(node, dict):
        return node
    ((tag, content),) = node.items()
    match tag:
        case "dict":
            return {key: decode(part, tensors) for key, part in content.items()}
        case "tuple":
            return tuple(decode(part, tensors) for part in content)
        case "float":
            return struct.unpack(">d", bytes.fromhex(content))[0]
        case "array":
            return tensors[content].numpy()
        case "scalar":
            return tensors[content].numpy()[()]
        case _:
            return tensors[content]


def packed(tree: Any) -> tuple[Any, bytes]:
    """A tree for another process, whatever device its tensors are on."""
    form, tensors = encode(tree)
    return form, safetensors.torch.save(tensors)


def unpacked(given: tuple[Any, bytes]) -> Any:
    """The tree that was `packed`."""
    form, data = given
    return decode(form, safetensors.torch.load(data))


def like(template: Any, loaded: Any, path: str = "state") -> Any:
    """A loaded tree in the form of `template`: its NamedArrayTuples, kinds of array, devices.

    Names, shapes and dtypes must agree. Where the template holds neither an array nor a structure
    of them, what was loaded is returned as it is.
    """
    if isinstance(template, np.ndarray | Tensor):
        return _like_array(template, loaded, path)
    if not isinstance(template, NamedArrayTuple | dict | list | tuple):
        return loaded
    parts, found = _parts(template), _parts(loaded)
    if parts.keys() != found.keys():
        raise UsageError(
            f"{path} holds {list(parts)} here, but {list(found)} in the checkpoint; "
            "resume with the options that it was written with"
        )
    new = {name: like(part, found[name], f"{path}.{name}") for name, part in parts.items()}
    if isinstance(template, dict):
        return new
    if isinstance(template, NamedArrayTuple):
        return template.replace(**new)
    return type(template)(new.values())


def _encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    match value:
        case np.ndarray() | np.generic() | Tensor():
            return _encode_array(value, path, tensors)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        case list():
            return [_encode(part, f"{path}.{i}", tensors) for i, part in enumerate(value)]
        case tuple():
            return {"tuple": _encode(list(value), path, tensors)}
        case NamedArrayTuple() | dict():
            parts = _parts(value)
            for key in parts:
                if not isinstance(key, str):
                    raise TypeError(f"{path} has the key {key!r}; a checkpoint's keys are text")
            return {"dict": {k: _encode(v, f"{path}.{k}", tensors) for k, v in parts.items()}}
    raise TypeError(f"{path} is a {type(value).__name__}, which a checkpoint cannot hold")


def _encode_array(value: Any, path: str, tensors: dict[str, Tensor]) -> dict[str, str]:
    """A copy joins the tensors: what shares memory in the state is stored once for each name."""
    if isinstance(value, Tensor):
        tag, dtype = "tensor", value.dtype
        tensor = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    else:
        tag, dtype = "scalar" if isinstance(value, np.generic) else "array", value.dtype
        stored = dtype.kind in "biuf" and dtype.itemsize <= 8
        native = np.array(value, dtype.str[1:], order="C") if stored else None  # "f8" for ">f8"
        tensor = None if native is None else torch.from_numpy(native)
    if tensor is None or tensor.dtype not in STORED:
        raise TypeError(f"{path} has dtype {dtype}, which a checkpoint cannot hold")
    while path in tensors:  # keys may hold the dot that joins them
        path += "'"
    tensors[path] = tensor
    return {tag: path}


def _parts(tree: Any) -> dict[Any, Any]:
    """The named parts of a structure; none of anything else."""
    if isinstance(tree, NamedArrayTuple | dict):
        return dict(tree.items())
    return {str(i): part for i, part in enumerate(tree)} if isinstance(tree, list | tuple) else {}


def _like_array(template: Any, loaded: Any, path: str) -> Any:
    needed, found = _outline(template), _outline(loaded)
    if needed != found:
        raise UsageError(
            f"{path} is {needed} here, but {found} in the checkpoint; "
            "resume with the options that it was written with"
        )
    return loaded.to(template.device) if isinstance(loaded, Tensor) else np.asarray(loaded)


def _outline(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__
