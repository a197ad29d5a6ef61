"""The sum tree against running sums of its leaves."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpyt.replays import sum_tree
from rlpyt.replays.sum_tree import SumTree

WIDE = st.floats(-40, 40).map(lambda x: 10.0**x)  # priorities of any size


def tree_of(values: Any) -> SumTree:
    tree = SumTree(len(values))
    tree.set_range(0, np.asarray(values, np.float64))
    return tree


def just_below(x: float) -> float:
    return float(np.nextafter(x, 0))


@pytest.fixture(params=[1, 4, sum_tree.TOP])
def _top(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few nodes on top make a deep tree of few leaves."""
    monkeypatch.setattr(sum_tree, "TOP", request.param)


@st.composite
def changes(draw: Any, values: Any) -> tuple[int, list[tuple[Any, Any]]]:
    """A size, and leaves that are set: by index, or consecutive ones from a begin on."""
    size = draw(st.integers(1, 70))
    several = st.lists(st.integers(0, size - 1), min_size=1, max_size=12)
    made = []
    for _ in range(draw(st.integers(1, 6))):
        where = draw(st.one_of(st.integers(0, size - 1), several))
        most = size - where if isinstance(where, int) else len(where)
        least = 0 if isinstance(where, int) else most
        made.append((where, draw(st.lists(values, min_size=least, max_size=most))))
    return size, made


def apply(tree: SumTree, made: list[tuple[Any, Any]]) -> np.ndarray:
    leaves = np.zeros(len(tree.leaves))
    for where, values in made:
        values = np.array(values, np.float64)
        if isinstance(where, int):
            tree.set_range(where, values)
            leaves[where : where + len(values)] = values
        else:
            tree.set(np.array(where), values)
            for i, value in zip(where, values, strict=True):  # the last one counts
                leaves[i] = value
    return leaves


@pytest.mark.usefixtures("_top")
@given(changes(st.integers(0, 3)))
def test_every_mass_finds_the_leaf_in_whose_share_it_lies(made):
    tree = SumTree(made[0])
    leaves = apply(tree, made[1])
    assert np.array_equal(tree.leaves, leaves) and tree.total == leaves.sum()
    if tree.total:
        mass = np.arange(0, 4 * tree.total) / 4  # sums of small whole numbers are exact
        expected = np.cumsum(leaves).searchsorted(mass, "right")
        assert np.array_equal(tree.find(mass), expected)
        beyond = [just_below(tree.total), tree.total, np.nextafter(tree.total, np.inf)]
        assert (tree.find(np.array(beyond)) == np.flatnonzero(leaves)[-1]).all()


@pytest.mark.usefixtures("_top")
@given(changes(st.one_of(st.just(0.0), WIDE)), st.integers(0, 99))
def test_a_leaf_of_zero_or_outside_is_never_found_whatever_rounding_does(made, seed):
    tree = SumTree(made[0])
    leaves = apply(tree, made[1])
    total = float(sum(map(Fraction, leaves.tolist())))
    assert tree.total == pytest.approx(total, rel=2**-52 * (3 + math.log2(len(leaves))))
    if total:
        edges = np.cumsum(leaves)[:, None] + np.spacing(np.cumsum(leaves))[:, None] * [-2, -1, 1, 2]
        mass = np.random.default_rng(seed).random(1000) * total
        mass = np.concatenate([mass, edges.ravel(), [0, just_below(total), tree.total, 2 * total]])
        mass = np.maximum(mass, 0)
        found = tree.find(mass)
        assert (leaves[found] > 0).all()
        before, slack = np.append(0, np.cumsum(leaves)), 1e-14 * total
        assert (before[found] <= mass + slack).all()
        inside = mass < just_below(total)
        assert (before[found + 1] >= mass - slack)[inside].all()


@pytest.mark.usefixtures("_top")
@given(changes(WIDE))
def test_sums_depend_on_the_leaves_alone_not_on_what_they_were_before(made):
    tree = SumTree(made[0])
    again = tree_of(apply(tree, made[1]))
    levels = zip(tree._levels, again._levels, strict=True)
    assert all(np.array_equal(x, y) for x, y in levels)
    assert tree.total == again.total


def test_rounding_does_lead_into_leaves_of_zero_and_is_corrected(monkeypatch):
    monkeypatch.setattr(sum_tree, "TOP", 1)
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(300):
        few = rng.random(4) * 10.0 ** rng.integers(-3, 3, 4)
        tree = tree_of([*few, 4 + rng.random(), 0, 0, 0])
        mass = np.array([just_below(tree.total)])
        assert tree.find(mass) == 4
        with monkeypatch.context() as patch:
            patch.setattr(SumTree, "_leave_zeros", lambda *_: None)
            wrong += int(tree.find(mass)[0] != 4)
    assert wrong


def test_a_million_draws_of_a_sparse_tree_find_what_is_there():
    rng = np.random.default_rng(0)
    leaves = np.where(rng.random(100_003) < 0.01, rng.random(100_003) ** 8, 0.0)
    leaves[[0, -1]] = 0
    tree = tree_of(leaves)
    mass = np.append(rng.random(1_000_000), [0.0, just_below(1)]) * tree.total
    assert (leaves[tree.find(mass)] > 0).all()


def test_leaves_are_found_in_proportion_to_their_value():
    rng = np.random.default_rng(0)
    leaves = rng.random(5000) ** 2
    tree = tree_of(leaves)
    count, draws = np.zeros(5000), 500_000
    np.add.at(count, tree.find(rng.random(draws) * tree.total), 1)
    expected = draws * leaves / leaves.sum()
    seen = expected > 5
    chi_square = ((count - expected)[seen] ** 2 / expected[seen]).sum()
    degrees = seen.sum()
    assert abs(chi_square - degrees) < 4 * math.sqrt(2 * degrees)  # p > 1e-4
    fewer = np.where(leaves > 0.5, 0.9, 1.0) * expected  # the same test sees a tenth missing
    assert ((fewer - expected)[seen] ** 2 / expected[seen]).sum() > 4 * math.sqrt(2 * degrees)


def test_three_equal_leaves_share_the_mass_evenly():
    assert tree_of([1, 1, 1]).find(np.array([0.5, 1.5, 2.5])).tolist() == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 2, 3, 2048, 2049, 4096, 4097, 1_000_000])
def test_any_size_is_full_to_its_last_leaf(size):
    tree = SumTree(size)
    tree.set(np.array([size - 1]), 1e-300)
    assert tree.find(np.zeros(1)) == tree.find(np.full(1, tree.total)) == size - 1
    tree.set_range(0, np.ones(size))
    assert tree.total == size == len(tree.leaves)
    index = np.linspace(0, size - 1, 100, dtype=np.int64)
    assert np.array_equal(tree.find(index + 0.5), index)
    assert np.array_equal(tree.find(index.astype(float)), index)


def test_the_sum_does_not_drift_over_many_updates():
    rng = np.random.default_rng(0)
    tree = SumTree(3000)
    for _ in range(1000):
        tree.set(rng.integers(2900, size=100), rng.random(100, np.float32) * 1e3)
    exact = math.fsum(tree.leaves)
    assert tree.total == pytest.approx(exact, rel=12 * 2**-52)
    tree.set_range(0, np.zeros(2900))
    assert tree.total == 0  # a sum kept by differences would leave a rest


def test_where_every_leaf_is_zero_none_is_found():
    with pytest.raises(ValueError, match="every leaf is 0"):
        SumTree(5000).find(np.zeros(1))


def test_leaves_are_set_through_the_tree_only():
    with pytest.raises(ValueError, match="read-only"):
        SumTree(5).leaves[0] = 1
