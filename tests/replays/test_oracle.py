"""Ring, selectors and windows against lists of episodes, whatever happens in whichever order.

Laws, by the numbers of the catalogue (RELIABILITY 8.1): 1 transitions and n-step returns, 2 final
observations and stacks, 3 leaves and weights, 4 stale updates, 5 sequences and stored states, 6 the
content is the last C rows, 7 what is restored draws the same.
"""

from typing import Any

import numpy as np
import pytest
import torch
from episodes import Environments, check, make_ring, n_step_return, usable
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rlpyt import tree_format
from rlpyt.functional.n_step import n_step
from rlpyt.replays.drawn import Drawn
from rlpyt.replays.prioritized import FLOOR, Prioritized
from rlpyt.replays.uniform import Uniform
from rlpyt.ring import Ring

GAMMA = 0.9
ERRORS = st.one_of(st.just(0.0), st.integers(1, 64).map(lambda x: x / 16), st.just(1e4))
Item = tuple[int, int]


class Replays(RuleBasedStateMachine):
    """One ring, a uniform and a prioritized selector, and what they should say."""

    selector = Prioritized

    @initialize(data=st.data())
    def make(self, data: Any) -> None:
        def choose(least: int, most: int) -> int:
            return data.draw(st.integers(least, most))

        self.n, frames, horizon, num_envs = choose(1, 3), choose(2, 4), choose(1, 4), choose(1, 3)
        if data.draw(st.booleans()):  # transitions
            interval, self.trained = 1, range(1)
        else:  # sequences
            interval, burn_in = choose(1, 4), choose(0, 3)
            self.trained = range(burn_in, burn_in + choose(1, 4))
        self.length = self.trained.stop + self.n
        self.items = choose(1, 6)
        self.options: dict[str, Any] = {
            "capacity": max(horizon, frames) + self.length + choose(0, 12),
            "num_envs": num_envs,
            "horizon": horizon,
            "frame_stack": frames,
            "state_interval": interval,
            "blocks": choose(1, num_envs),
            "asynchronous": data.draw(st.booleans()),
        }
        self.alpha, self.unique = data.draw(st.sampled_from([0.0, 0.6, 1.0])), choose(0, 3) == 0
        self.enters = data.draw(st.booleans())
        self.ring = make_ring(**self.options)
        self.blocks = [Environments(block) for block in self.ring.blocks]
        self.uniform, self.prioritized = self.selectors(self.ring)
        self.generator = np.random.default_rng(choose(0, 99))
        self.priority: dict[Item, float] = {}  # of what has been born
        self.largest = 1.0
        self.kept: list[Drawn] = []

    def selectors(self, ring: Ring) -> tuple[Uniform, Prioritized]:
        where = ring, self.length, self.trained
        entry = self.entry if self.enters else None
        prioritized = self.selector(*where, self.alpha, unique=self.unique, entry=entry)
        return Uniform(*where), prioritized

    def entry(self, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A number of each item, which is asked for when all of its rows are there, and once."""
        items = list(zip(starts.tolist(), columns.tolist(), strict=True))
        assert items and len(set(items)) == len(items)
        assert set(items) <= set(usable(self.blocks, self.length, self.trained))
        assert not set(items) & self.priority.keys() or self.restoring
        return self.entered(starts, columns)

    restoring = False

    @staticmethod
    def entered(start: Any, column: Any) -> Any:
        return (start * 7 + column * 3) % 5 / 4

    def endings(self, data: Any, rows: int, columns: int) -> np.ndarray:
        seed, often = data.draw(st.integers(0, 9999)), data.draw(st.sampled_from([0, 0.3, 0.8]))
        rng = np.random.default_rng(seed)
        return np.where(rng.random((rows, columns)) < often, rng.integers(1, 4, (rows, columns)), 0)

    def birth(self) -> None:
        """What `sync` should have done by now."""
        self.alive = set(usable(self.blocks, self.length, self.trained))
        for item in self.alive - self.priority.keys():
            self.priority[item] = self.entered(*item) if self.enters else self.largest

    @rule(data=st.data())
    def append(self, data: Any) -> None:
        environments = data.draw(st.sampled_from(self.blocks))
        for _ in range(data.draw(st.integers(1, 3))):
            rows = data.draw(st.integers(1, self.options["horizon"]))
            environments.run(self.endings(data, rows, len(environments.columns)))

    @rule(data=st.data())
    def wrap(self, data: Any) -> None:
        """Nothing that was there before is there any more."""
        environments = data.draw(st.sampled_from(self.blocks))
        horizon = self.options["horizon"]
        for _ in range(-(-self.ring.num_slots // horizon)):
            environments.run(self.endings(data, horizon, len(environments.columns)))

    @rule(data=st.data())
    def kill_a_writer(self, data: Any) -> None:
        environments = data.draw(st.sampled_from(self.blocks))
        rows, width = self.options["horizon"], len(environments.columns)
        environments.die(self.endings(data, data.draw(st.integers(0, rows)), width))
        environments.run(self.endings(data, 1, width))  # not before this is a cut published

    @rule()
    def sync(self) -> None:
        self.prioritized.sync()
        self.birth()

    @precondition(lambda self: self.readable)
    @rule()
    def draw_uniformly(self) -> None:
        window = self.ring.window(self.items, self.length)
        drawn = self.uniform.draw(window, self.generator)
        assert drawn.weights is None
        self.compare(window, drawn)

    @precondition(lambda self: self.readable)
    @rule(beta=st.sampled_from([0.0, 0.4, 1.0]))
    def draw_by_priority(self, beta: float) -> None:
        self.prioritized.sync()
        self.birth()
        window = self.ring.window(self.items, self.length)
        if self.unique and len(self.alive) < self.items:
            with pytest.raises(RuntimeError, match="different items"):
                self.prioritized.draw(window, self.generator, beta)
            return
        drawn = self.prioritized.draw(window, self.generator, beta)
        self.compare(window, drawn)
        items = list(zip(drawn.starts.tolist(), drawn.columns.tolist(), strict=True))
        if self.unique:
            assert len(set(items)) == self.items
        value = np.array([self.value(item) for item in items])
        expected = value**-beta / (value**-beta).max()
        assert drawn.weights is not None and drawn.weights.dtype == np.float32
        assert drawn.weights == pytest.approx(expected, rel=1e-5) and drawn.weights.max() == 1
        self.kept.append(drawn)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def update(self, data: Any) -> None:
        """Also of what was drawn long ago, and has been overwritten since."""
        drawn = data.draw(st.sampled_from(self.kept))
        errors = data.draw(st.lists(ERRORS, min_size=self.items, max_size=self.items))
        as_tensor = data.draw(st.booleans())
        array = np.array(errors, np.float32)
        self.birth()
        self.prioritized.update(drawn, torch.from_numpy(array) if as_tensor else array)
        for s, b, error in zip(drawn.starts.tolist(), drawn.columns.tolist(), errors, strict=True):
            if (s, b) in self.alive:
                self.priority[s, b] = error
                self.largest = max(self.largest, error)

    @rule()
    def save_and_restore(self) -> None:
        saved = {"ring": self.ring.snapshot(), "selector": self.prioritized.state()}
        saved = tree_format.decode(*tree_format.encode(saved))
        ring = make_ring(**self.options)
        uniform, prioritized = self.selectors(ring)
        ring.restore(saved["ring"])
        prioritized.load(saved["selector"])
        self.restoring = True  # both selectors ask for what enters from now on
        self.draws_are_equal((self.uniform, uniform), (self.ring, ring))
        self.draws_are_equal((self.prioritized, prioritized), (self.ring, ring))
        self.restoring = False
        self.birth()
        self.ring, self.uniform, self.prioritized = ring, uniform, prioritized
        for environments, block in zip(self.blocks, ring.blocks, strict=True):
            environments.block = block

    @property
    def readable(self) -> bool:
        return any(True for _ in usable(self.blocks, self.length, self.trained))

    def draws_are_equal(self, selectors: tuple[Any, Any], rings: tuple[Ring, Ring]) -> None:
        if not self.readable or (self.unique and not self.prioritized.live >= self.items):
            return
        generators = [np.random.default_rng(5) for _ in selectors]
        windows = [ring.window(self.items, self.length) for ring in rings]
        for _ in range(10):
            one, two = (
                each.draw(window, generator, 0.5)
                for each, window, generator in zip(selectors, windows, generators, strict=True)
            )
            assert np.array_equal(one.starts, two.starts)
            assert np.array_equal(one.columns, two.columns)
            assert np.array_equal(one.weights, two.weights)

    def compare(self, window: Any, drawn: Drawn) -> None:
        """Laws 1, 2 and 5: rows, and n-step returns of those that are trained."""
        items = list(zip(drawn.starts.tolist(), drawn.columns.tolist(), strict=True))
        assert set(items) <= set(usable(self.blocks, self.length, self.trained))
        check(window, self.ring, self.blocks, drawn.starts, drawn.columns)
        rows = window.tensors
        returns, discount, m = n_step(rows.reward, rows.terminated, rows.last, GAMMA, self.n)
        owner = {b: e for e in self.blocks for b in e.columns}
        for i, (s, b) in enumerate(items):
            for t in self.trained:
                step = owner[b].row(s + t, b)
                if not step.live:
                    assert returns[t, i] == discount[t, i] == 0
                    continue
                expected = n_step_return(step, self.n, GAMMA)
                assert returns[t, i].item() == pytest.approx(expected[0], rel=1e-6)
                assert discount[t, i].item() == pytest.approx(expected[1], rel=1e-6)
                assert m[t, i] == expected[2]

    def value(self, item: Item) -> float:
        return max(self.priority[item], FLOOR) ** self.alpha

    @invariant()
    def every_item_has_its_leaf(self) -> None:
        """Laws 3, 4 and 6: leaves are those of the items that can be read, and of no others."""
        if not hasattr(self, "ring"):
            return
        assert self.uniform.ready or not self.readable
        assert self.prioritized.ready == self.readable  # it looks at the ring
        self.birth()
        leaves = {}
        for environments, part in zip(self.blocks, self.prioritized.state()["blocks"], strict=True):
            for (i, j), leaf in np.ndenumerate(part["leaves"]):
                if leaf:
                    start = part["first"] + i * self.ring.state_interval
                    leaves[start, environments.columns[j]] = leaf
        assert leaves == pytest.approx({item: self.value(item) for item in self.alive}, rel=1e-12)
        assert self.prioritized.live == len(leaves)
        assert self.prioritized.largest == self.largest
        answered = [environments.answered for environments in self.blocks]
        assert self.ring.bounds()[1].tolist() == answered


HOW = settings(max_examples=40, stateful_step_count=25)


def test_replay_is_what_lists_of_episodes_say():
    run_state_machine_as_test(Replays, settings=HOW)


# Selectors with one flaw each, so that it is known what the machine would see.


class TakesStaleUpdates(Prioritized):
    def update(self, drawn: Drawn, priority: Any) -> None:
        self.sync()
        error = np.asarray(priority, np.float64)
        self._tree.set(self._leaves_of(drawn.starts, drawn.columns), self._value(error))
        self.largest = max(self.largest, float(error.max()))


class LetsNothingDie(Prioritized):
    def _bury(self, i: int, begin: int) -> None:
        self._first[i] = begin


class BearsARowTooEarly(Prioritized):
    def sync(self) -> None:
        self.length -= 1
        super().sync()
        self.length += 1


class TakesDeadRows(Prioritized):
    def _bear(self, i: int, end: int) -> None:
        trained, self.trained = self.trained, range(self.length)
        super()._bear(i, end)
        self.trained = trained


class BearsAtOne(Prioritized):
    def _bear(self, i: int, end: int) -> None:
        largest, self.largest = self.largest, 1.0
        super()._bear(i, end)
        self.largest = largest


class DrawsTwice(Prioritized):
    def _choose(self, items: int, generator: np.random.Generator, taken: Any = None) -> np.ndarray:
        return self._draw(items, generator)


class ForgetsTheLargest(Prioritized):
    def load(self, state: dict[str, Any]) -> None:
        super().load(state | {"largest": 1.0})


FLAWED = (
    TakesStaleUpdates,
    LetsNothingDie,
    BearsARowTooEarly,
    TakesDeadRows,
    BearsAtOne,
    DrawsTwice,
    ForgetsTheLargest,
)


@pytest.mark.parametrize("flawed", FLAWED)
def test_a_selector_with_a_flaw_is_found_out(flawed):
    class Flawed(Replays):
        selector = flawed

    how = settings(HOW, max_examples=1000, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((AssertionError, RuntimeError, pytest.fail.Exception)):
        run_state_machine_as_test(Flawed, settings=how)
