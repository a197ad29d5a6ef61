"""Rows whose small fields lie side by side are read and written like any others."""

from typing import Any

import numpy as np
import pytest

from rlpyt.arrays import namedarraytuple, tree_leaves
from rlpyt.packed import SMALL, PackedRows
from rlpyt.storage import Memory, as_tensors

Fields = namedarraytuple("Fields", ["flag", "number", "image", "nested", "nothing", "empty"])
EXAMPLE = Fields(
    np.zeros((), np.bool_),
    np.zeros(4, np.float32),
    np.zeros((20, 20), np.uint8),
    {"double": np.zeros(2), "half": np.zeros((), np.float16), "edge": np.zeros(SMALL, np.uint8)},
    (),
    np.zeros(0, np.bool_),
)


def filled(shared: Memory | None = None) -> PackedRows:
    rows, rng = PackedRows(EXAMPLE, (7, 3), shared=shared), np.random.default_rng(0)
    for leaf in tree_leaves(rows.tree):
        leaf[...] = rng.integers(0, 2 if leaf.dtype == bool else 100, leaf.shape)
    return rows


@pytest.mark.parametrize("shared", [None, Memory()])
def test_fields_have_their_shapes_and_dtypes_and_do_not_overlap(shared: Memory | None):
    rows, rng = filled(shared), np.random.default_rng(0)
    for leaf, like in zip(tree_leaves(rows.tree), tree_leaves(EXAMPLE), strict=True):
        assert leaf.shape == (7, 3, *like.shape) and leaf.dtype == like.dtype
        expected = rng.integers(0, 2 if leaf.dtype == bool else 100, leaf.shape)
        assert np.array_equal(leaf, expected.astype(leaf.dtype))
        assert leaf.size == 0 or all(stride % leaf.itemsize == 0 for stride in leaf.strides)
    assert rows.tree.nothing == ()


def test_small_fields_of_a_row_lie_side_by_side_and_large_ones_apart():
    tree = PackedRows(EXAMPLE, (7, 3)).tree

    def address(x: Any) -> int:
        return x[4:5, 1:2].__array_interface__["data"][0]

    small = [tree.flag, tree.number, tree.nested["double"], tree.nested["half"]]
    assert max(map(address, small)) - min(map(address, small)) < SMALL + 64
    assert tree.image.flags.c_contiguous and not tree.number.flags.c_contiguous


def test_tensors_share_the_memory():
    rows = filled()
    tensors = as_tensors(rows.tree)
    tensors.number[2, 1] = 5.0
    rows.tree.flag[2, 1] = True
    assert (rows.tree.number[2, 1] == 5).all() and tensors.flag[2, 1]


def test_copies_are_of_the_rows_that_were_chosen():
    rows, rng = filled(), np.random.default_rng(1)
    out = PackedRows(EXAMPLE, (2, 5))
    for _ in range(3):
        at = rng.integers(21, size=(2, 5))
        for source, target in rows.copies_into(out):
            source.take(at, 0, target, "clip")
        for leaf, copied in zip(tree_leaves(rows.tree), tree_leaves(out.tree), strict=True):
            assert np.array_equal(leaf.reshape(21, *leaf.shape[2:])[at], copied)
