"""What a prioritized selector promises of its priorities, draws and weights."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from episodes import ONE, Environments, check, filled, items_of, make_ring, usable, write
from overtaken import overtaken

from rlpyt.replays.drawn import Drawn
from rlpyt.replays.prioritized import FLOOR, Prioritized
from rlpyt.replays.sum_tree import SumTree
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring


def leaves_of(selector: Prioritized) -> dict[tuple[int, int], float]:
    """Leaves that are not 0 by start and column."""
    selector.sync()
    return {
        (part["first"] + i * selector.ring.state_interval, int(columns[j])): float(leaf)
        for part, columns in zip(selector.state()["blocks"], selector.ring.columns, strict=True)
        for (i, j), leaf in np.ndenumerate(part["leaves"])
        if leaf
    }


def of_all(ring: Ring, blocks: list[Environments], length: int = 2, trained: range = ONE) -> Drawn:
    """As if every item had been drawn."""
    starts, columns = np.array(list(usable(blocks, length, trained))).T
    return Drawn(starts, columns, None)


def test_an_item_is_drawn_in_proportion_to_its_priority_to_the_alpha():
    ring, blocks = filled(100)
    rng, draws = np.random.default_rng(0), 400
    priority = {item: float(rng.random() * 4) for item in usable(blocks, 2, ONE)}

    def entry(starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        pairs = zip(starts.tolist(), columns.tolist(), strict=True)
        return np.array([priority[item] for item in pairs])

    counts = {}
    for alpha in (0.6, 1.0):
        selector = Prioritized(ring, 2, ONE, alpha, entry=entry)
        window, count = ring.window(50, 2), dict.fromkeys(priority, 0)
        for _ in range(draws):
            for item in items_of(selector.draw(window, rng)):
                count[item] += 1
        counts[alpha] = np.array(list(count.values()))

    def chi_square(alpha: float, count: np.ndarray) -> float:
        value = np.array([p**alpha for p in priority.values()])
        expected = 50 * draws * value / value.sum()
        return ((count - expected) ** 2 / expected).sum() / len(value)

    most = 1 + 4 * math.sqrt(2 / len(priority))
    assert chi_square(0.6, counts[0.6]) < most and chi_square(1.0, counts[1.0]) < most
    assert chi_square(0.6, counts[1.0]) > most


def test_a_draw_takes_one_item_of_each_stratum_of_equal_mass():
    ring, blocks = filled(20, ending=0)
    items = list(usable(blocks, 2, ONE))
    selector, rng = Prioritized(ring, 2, ONE, 0.6), np.random.default_rng(0)
    window = ring.window(len(items), 2)
    for _ in range(20):
        assert sorted(items_of(selector.draw(window, rng))) == sorted(items)
    drawn = Uniform(ring, 2, ONE).draw(window, rng)
    assert sorted(items_of(drawn)) != sorted(items)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_paper_over_their_maximum(beta: float):
    ring, blocks = filled(60)
    selector, rng = Prioritized(ring, 2, ONE, 0.7), np.random.default_rng(0)
    everything = of_all(ring, blocks)
    selector.update(everything, rng.random(len(everything.starts)) * 5)
    leaves = leaves_of(selector)
    probability = {item: leaf / sum(leaves.values()) for item, leaf in leaves.items()}
    drawn = selector.draw(ring.window(16, 2), rng, beta)
    raw = np.array([(len(leaves) * probability[x]) ** -beta for x in items_of(drawn)])
    assert drawn.weights is not None and drawn.weights.dtype == np.float32
    assert drawn.weights == pytest.approx(raw / raw.max(), rel=1e-5)
    assert drawn.weights.max() == 1 and drawn.weights.min() > 0


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_what_is_new_gets_the_largest_priority_that_there_has_been(alpha: float):
    ring, blocks = filled(20)
    selector = Prioritized(ring, 2, ONE, alpha)
    before = leaves_of(selector)
    assert set(before.values()) == {1.0}
    some = Drawn(*(x[:2] for x in of_all(ring, blocks)[:2]), None)
    selector.update(some, np.array([3.7, 0.5]))
    write(blocks[0], 4)
    new = leaves_of(selector).keys() - before.keys()
    assert {leaves_of(selector)[item] for item in new} == {3.7**alpha}
    selector.update(some, np.array([0.1, 0.1]))  # it never falls
    write(blocks[0], 4)
    assert max(leaves_of(selector).values()) == 3.7**alpha and selector.largest == 3.7


def test_the_only_item_with_a_priority_is_the_one_that_is_drawn():
    ring, blocks = filled(30, ending=0)
    last = max(usable(blocks, 2, ONE))

    def entry(starts: np.ndarray, columns: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(1e30 * ((starts == last[0]) & (columns == last[1])))

    drawn = Prioritized(ring, 2, ONE, 1.0, entry=entry).draw(
        ring.window(50, 2), np.random.default_rng(0)
    )
    assert set(items_of(drawn)) == {last}


def test_an_item_without_error_can_be_drawn_again():
    ring, blocks = filled(20)
    everything = of_all(ring, blocks)
    selector = Prioritized(ring, 2, ONE, 0.5)
    selector.update(everything, np.zeros(len(everything.starts)))
    assert set(leaves_of(selector).values()) == {FLOOR**0.5}
    assert leaves_of(selector).keys() == set(items_of(everything))


def test_with_alpha_0_all_items_are_alike():
    ring, blocks = filled(20)
    selector, everything = Prioritized(ring, 2, ONE, 0.0), of_all(ring, blocks)
    selector.update(everything, np.arange(len(everything.starts)))
    assert set(leaves_of(selector).values()) == {1.0}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.5])
def test_a_priority_that_is_none_is_refused_by_name_and_changes_nothing(bad: float):
    ring, blocks = filled(20)
    selector, everything = Prioritized(ring, 2, ONE, 0.6), of_all(ring, blocks)
    before, priority = leaves_of(selector), np.full(len(everything.starts), 2.0)
    priority[7] = bad
    where = f"row {everything.starts[7]} of environment {everything.columns[7]}"
    with pytest.raises(FloatingPointError, match=f"priority {bad} of the item at {where}"):
        selector.update(everything, torch.from_numpy(priority))
    assert leaves_of(selector) == before and selector.largest == 1
    failing = Prioritized(ring, 2, ONE, 0.6, entry=lambda s, _: np.where(s == 3, bad, 1.0))
    with pytest.raises(FloatingPointError, match=f"priority {bad} of the item at row 3"):
        failing.sync()


def test_an_update_of_an_item_that_was_overwritten_is_ignored():
    ring, (environments,) = filled(40, ending=0)
    selector = Prioritized(ring, 2, ONE, 1.0)
    drawn = selector.draw(ring.window(30, 2), np.random.default_rng(0))
    assert len(set(items_of(drawn))) > 20
    write(environments, 2 * ring.num_slots)
    before = leaves_of(selector)
    selector.update(drawn, np.full(30, 9.0))
    assert leaves_of(selector) == before and selector.largest == 1
    write(environments, ring.num_slots - ring.history - 2 * 4 - 4)
    half = selector.draw(ring.window(200, 2), np.random.default_rng(0))
    write(environments, 16)
    selector.update(half, np.full(200, 9.0))
    alive = leaves_of(selector)
    nine = {item for item, leaf in alive.items() if leaf == 9}
    assert nine == set(items_of(half)) & alive.keys()
    assert nine and nine < set(items_of(half))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_an_item_that_the_newest_row_overwrote_takes_no_priority(rows: int):
    ring, (environments,) = filled(60, ending=0, horizon=1, num_envs=2)
    selector, rng = Prioritized(ring, 2, ONE, 1.0), np.random.default_rng(0)
    everything = of_all(ring, [environments])
    write(environments, rows)
    selector.update(everything, np.full(len(everything.starts), 9.0))
    drawn = set(items_of(selector.draw(ring.window(2000, 2), rng)))
    assert drawn == set(usable([environments], 2, ONE)) == leaves_of(selector).keys()


def test_a_priority_may_be_a_tensor_with_a_gradient_of_any_precision():
    ring, blocks = filled(20)
    everything = of_all(ring, blocks)
    error = torch.rand(len(everything.starts), requires_grad=True)
    for given in (error, error.half(), error.detach().double().numpy()):
        selector = Prioritized(ring, 2, ONE, 1.0)
        selector.update(everything, given)
        expected = torch.as_tensor(given).tolist()
        assert [leaves_of(selector)[x] for x in items_of(everything)] == expected


def test_a_unique_draw_of_all_items_is_all_of_them_however_unequal():
    ring, blocks = filled(20)
    everything = of_all(ring, blocks)
    count = len(everything.starts)
    selector, rng = Prioritized(ring, 2, ONE, 1.0, unique=True), np.random.default_rng(0)
    selector.update(everything, 10.0 ** np.linspace(-6, 6, count))
    before = leaves_of(selector)
    for items in (1, count // 2, count):
        drawn = selector.draw(ring.window(items, 2), rng, 1.0)
        assert len(set(items_of(drawn))) == items
        check(window := ring.window(items, 2), ring, blocks, *_gathered(ring, window, drawn))
    assert leaves_of(selector) == before
    with pytest.raises(RuntimeError, match=f"draw of {count + 1} different items, and {count}"):
        selector.draw(ring.window(count + 1, 2), rng)
    twice = Prioritized(ring, 2, ONE, 1.0)
    twice.update(everything, 10.0 ** np.linspace(-6, 6, count))
    assert len(set(items_of(twice.draw(ring.window(count, 2), rng)))) < count


def _gathered(ring: Ring, window: Any, drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    assert ring.gather(window, drawn.starts, drawn.columns).all()
    return drawn.starts, drawn.columns


@pytest.mark.parametrize("unique", [False, True])
def test_items_that_were_overtaken_are_drawn_again_and_the_others_kept(
    unique: bool, monkeypatch: pytest.MonkeyPatch
):
    ring, blocks = filled(60, ending=0, blocks=2, asynchronous=True)
    selector, rng = Prioritized(ring, 3, ONE, 0.6, unique=unique), np.random.default_rng(0)
    everything = of_all(ring, blocks, 3)
    selector.update(everything, rng.random(len(everything.starts)))
    # among those that are kept some die now
    given = overtaken(ring, monkeypatch, lambda: write(blocks[0], 8))
    window = ring.window(32, 3)
    drawn = selector.draw(window, rng, 1.0)
    assert given == [32, 16, 8, 4]
    check(window, ring, blocks, drawn.starts, drawn.columns)
    assert drawn.weights is not None and (drawn.weights > 0).all() and drawn.weights.max() == 1
    assert set(items_of(drawn)) - leaves_of(selector).keys()
    if unique:
        assert len(set(items_of(drawn))) == 32


def test_a_few_new_rows_change_a_few_ranges_of_leaves(monkeypatch: pytest.MonkeyPatch):
    ring, (environments,) = filled(100, ending=0)
    selector, changed = Prioritized(ring, 2, ONE, 0.6), []
    selector.sync()
    set_range = SumTree.set_range

    def counted(tree: SumTree, begin: int, values: np.ndarray) -> None:
        changed.append(len(values))
        set_range(tree, begin, values)

    monkeypatch.setattr(SumTree, "set_range", counted)
    monkeypatch.setattr(SumTree, "set", None)
    for _ in range(30):
        changed.clear()
        write(environments, 4)
        selector.sync()
        assert sum(changed) == 2 * 4 * ring.num_envs and len(changed) <= 3  # one is at the seam
        selector.sync()
        assert len(changed) <= 3


@pytest.mark.parametrize("capacity", [12, 40, 90])
def test_a_ring_of_another_capacity_takes_up_the_priorities_that_it_can_hold(capacity: int):
    ring, blocks = filled(100, blocks=2)
    selector, everything = Prioritized(ring, 2, ONE, 0.6), of_all(ring, blocks)
    selector.update(everything, np.arange(len(everything.starts)))
    other = make_ring(capacity, 3, 4, blocks=2)
    other.restore(ring.snapshot())
    twin = Prioritized(other, 2, ONE, 0.6)
    twin.load(selector.state())
    saved, taken = leaves_of(selector), leaves_of(twin)
    assert taken.items() <= saved.items()
    first, counts = other.starts(2)
    there = [range(x, x + n) for x, n in zip(first.tolist(), counts.tolist(), strict=True)]
    assert taken == {(s, b): v for (s, b), v in saved.items() if s in there[other.block_of[b]]}
    assert len(taken) == len(saved) if capacity == 40 else taken


def test_a_ring_that_begins_anew_leaves_no_priority_behind():
    ring, (environments,) = filled(30)
    selector, everything = Prioritized(ring, 2, ONE, 0.6), of_all(ring, [environments])
    selector.update(everything, np.full(len(everything.starts), 5.0))
    ring.blocks[0].clear()
    assert not selector.ready and selector.live == 0 and not leaves_of(selector)
    again = Environments(ring.blocks[0])
    write(again, 8)
    assert leaves_of(selector).keys() == set(usable([again], 2, ONE))


def test_a_run_that_goes_on_without_its_replay_keeps_no_priority_of_it():
    ring, (environments,) = filled(30)
    selector, everything = Prioritized(ring, 2, ONE, 1.0), of_all(ring, [environments])
    selector.update(everything, np.full(len(everything.starts), 5.0))
    other = make_ring(40, 3, 4)
    twin = Prioritized(other, 2, ONE, 1.0)
    twin.load(selector.state())
    other.blocks[0].go_on_at(30)
    assert not twin.ready and twin.largest == 5
