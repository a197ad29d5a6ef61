"""Nothing is lost between a tree and its JSON form, and templates are held to."""

import json
import math
import struct
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from rlpyt.arrays import NamedArrayTuple
from rlpyt.errors import UsageError
from rlpyt.tree_format import decode, encode, like


class Step(NamedArrayTuple):
    observation: Any
    reward: Any = None
    info: Any = ()


def round_trip(tree: Any) -> Any:
    node, tensors = encode(tree)
    return decode(json.loads(json.dumps(node)), tensors)


def same(a: Any, b: Any) -> bool:
    """Equal types, structure and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, torch.Tensor):
        bits = [bytes(x.clone().untyped_storage()) for x in (a, b)]
        return (a.dtype, a.shape) == (b.dtype, b.shape) and bits[0] == bits[1]
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return a == b


DTYPES = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
DTYPES += [np.dtype(name) for name in ("b1", "f2", "f4", "f8")]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
LEAVES = st.one_of(SCALARS, ARRAYS, ARRAYS.map(torch.tensor))
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts), st.lists(parts).map(tuple), st.dictionaries(st.text(), parts)
    ),
    max_leaves=8,
)


@given(TREES)
def test_decode_inverts_encode_bit_for_bit(tree: Any) -> None:
    assert same(round_trip(tree), tree)


@pytest.mark.parametrize(
    "value",
    [
        np.array(2**53 + 1),
        np.array(2**64 - 1, dtype=np.uint64),
        np.array([1], dtype=np.longlong),
        np.float32(-0.0),
        np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], dtype=np.uint64).view(np.float64),
        struct.unpack("d", struct.pack("Q", 0x7FF8DEADBEEF0001))[0],
        (-0.0, math.inf, -math.inf, 2**200, 5e-324),
        torch.tensor([1.5, math.nan, -0.0], dtype=torch.bfloat16),
        torch.tensor(7, dtype=torch.int64),
        torch.zeros(0, 3, dtype=torch.bool),
        np.zeros((2, 0), np.uint8),
        {"": (), "a": {}, "b": [], "c": ((), ((),))},
        {"a.b": np.arange(2), "a": {"b": np.arange(3)}},
        {"tensor": "x", "dict": {"array": 1}},
        {"bit_generator": "PCG64", "state": {"state": 2**127 + 1, "inc": 1}},
    ],
)
def test_the_awkward_values_survive(value: Any) -> None:
    assert same(round_trip(value), value)


def test_layout_and_byte_order_are_not_part_of_the_value() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    images = torch.arange(24.0).reshape(1, 2, 3, 4)
    stored = round_trip(
        {
            "transposed": matrix.T,
            "reversed": matrix[::-1],
            "big": matrix.astype(">f8"),
            "channels_last": images.contiguous(memory_format=torch.channels_last),
        }
    )
    assert np.array_equal(stored["transposed"], matrix.T)
    assert np.array_equal(stored["reversed"], matrix[::-1])
    assert np.array_equal(stored["big"], matrix)
    assert torch.equal(stored["channels_last"], images)


def test_views_of_one_vector_come_back_as_tensors_of_their_own() -> None:
    vector = torch.arange(4.0, requires_grad=True)
    stored = round_trip({"a": vector[:2], "b": vector[2:], "whole": vector})
    stored["whole"][:] = 0
    assert stored["a"].tolist() == [0, 1]
    assert not stored["a"].requires_grad


def test_encoding_is_a_copy_of_the_moment() -> None:
    array, tensor = np.zeros(2), torch.zeros(2)
    node, tensors = encode([array, tensor])
    array[:], tensor[:] = 1, 1
    assert [leaf.tolist() for leaf in decode(node, tensors)] == [[0, 0], [0, 0]]


def test_decoded_arrays_can_be_written() -> None:
    stored = round_trip({"a": np.zeros(3)})
    stored["a"][:] = 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {"b": object()}}, "state.a.b is a object"),
        ({"a": [np.array(["x"])]}, "state.a.0 has dtype <U1"),
        ({"a": np.array([None])}, "state.a has dtype object"),
        ({"a": np.zeros(1, np.complex128)}, "state.a has dtype complex128"),
        ({"a": {1: 2}}, "state.a has the key 1"),
        ({"a": {1, 2}}, "state.a is a set"),
    ],
)
def test_what_cannot_be_held_is_named(value: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        encode(value)


def test_like_gives_back_the_form_of_a_template() -> None:
    template = {"step": Step(np.zeros(2), reward=torch.zeros(3)), "h": (torch.zeros(1), ())}
    filled = {"step": Step(np.arange(2.0), reward=torch.arange(3.0)), "h": (torch.ones(1), ())}
    restored = like(template, round_trip(filled))
    assert isinstance(restored["step"], Step)
    assert same(restored["step"].observation, filled["step"].observation)
    assert same(restored["step"].reward, filled["step"].reward)
    assert restored["step"].info == ()
    assert same(restored["h"], filled["h"])


@pytest.mark.parametrize(
    ("template", "loaded", "says"),
    [
        ({"w": torch.zeros(3)}, {"w": torch.zeros(2)}, r"state.w is torch.float32 \[3\] here"),
        ({"w": np.zeros(2)}, {"w": np.zeros(2, "f4")}, r"but float32 \[2\] in the checkpoint"),
        ({"w": torch.zeros(2)}, {"w": None}, "but NoneType in the checkpoint"),
        ({"w": 1}, {"v": 1}, r"state holds \['w'\] here, but \['v'\] in the checkpoint"),
        ((1, 2), (1,), r"state holds \['0', '1'\]"),
        (Step(np.zeros(1)), {"observation": np.zeros(1)}, "resume with the options"),
    ],
)
def test_like_names_what_differs_from_the_template(template: Any, loaded: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        like(template, loaded)
