"""Groups of environments that take turns give the rows that they give in lock-step."""

from typing import Any

import numpy as np
import pytest
import torch
from stepping import Scripted, coin, in_process
from test_ring_window import READS
from toys import CountEnv, InfoEnv, SeedEnv

from rlpyt import noise
from rlpyt.arrays import tree_items, tree_map
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.ring_window import RingWindow
from rlpyt.rows import Row, Window, example_row
from rlpyt.samplers.padded import Padded, acting_threads
from rlpyt.samplers.sampler import Sampler
from rlpyt.vector.columns import cut
from rlpyt.vector.grouped import Grouped
from rlpyt.vector.in_process import InProcess


def grouped(factory: Any, num_envs: int, groups: int, **options: Any) -> Grouped:
    """Environments of this process as groups, which is of use to nobody but tests."""
    spec = in_process(factory, 1, **options).spec
    seeds = ResetSeeds(0, noise.TRAINING_RESETS)
    parts = []
    for columns in cut(range(num_envs), groups):
        envs = [factory(b) for b in columns]
        parts.append(InProcess(envs, spec, seeds, columns=columns, total=num_envs))
    return Grouped(parts)


class Remembers(Scripted):
    """Acts by the noise, by what it sees and by what it was fed; counts the rows of each column."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.batches: list[int] = []

    def draws(self, noise: np.ndarray, columns: slice | None = None) -> Any:
        return super().draws(noise)

    def act(self, inputs: Any, state: Any, drawn: Any) -> Any:
        self.batches.append(len(inputs.observation))
        action = self._answer(inputs, drawn) + state[:, 0].long()
        return action % 2, (), torch.where(inputs.first[:, None], 0.0, state) + 1

    def _answer(self, inputs: Any, drawn: Any) -> torch.Tensor:
        return coin(inputs, drawn) + inputs.observation.flatten(1).sum(1).long()


def rows_of(envs: Any, kind: str, strict: bool) -> tuple[Row, Any, list[int]]:
    """Answered rows of four windows, the state after them, the batches that were answered."""
    n = envs.num_envs
    state = torch.zeros(n, 1)
    window: Any = Window(example_row(envs.spec), 5, n, reads=READS, state=state, state_interval=5)
    if kind == "ring":
        from rlpyt.ring import Ring

        ring = Ring(example_row(envs.spec), 8, n, 5, reads=READS, state=state, state_interval=5)
        window = RingWindow(ring.blocks[0], state)
    agent = Remembers()
    drawn = Noise(0, noise.ACTION_NOISE, range(n), 1, 0)
    sampler = Sampler(envs, agent, window, drawn, strict=strict)
    sampler.reset()
    parts = [tree_map(np.copy, sampler.collect().rows[:-1]) for _ in range(4)]
    rows = tree_map(lambda *xs: np.concatenate(xs), *parts)
    return rows, window.state.clone(), agent.batches


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["linear", "ring"])
@pytest.mark.parametrize("groups", [2, 3, 7])
def test_groups_give_the_rows_of_lock_step(groups, kind, strict):
    """B080, B082: each group has its own states, previous actions and draws."""

    def seeded(b: int) -> SeedEnv:
        return SeedEnv(2 + b)

    alone, state, batches = rows_of(in_process(seeded, 7), kind, strict)
    rows, last, split = rows_of(grouped(seeded, 7, groups), kind, strict)
    for (name, x), (_, y) in zip(tree_items(alone), tree_items(rows), strict=True):
        assert x.tobytes() == y.tobytes(), name
    assert torch.equal(state, last)
    assert set(batches) == {7}
    assert set(split) == ({7} if strict else {len(x) for x in cut(range(7), groups)})


def test_infos_of_groups_come_with_their_row_and_column():
    def infos(envs: Any) -> list[Any]:
        window = Window(example_row(envs.spec), 4, 3, reads=READS, state=torch.zeros(3, 1))
        drawn = Noise(0, noise.ACTION_NOISE, range(3), 1, 0)
        sampler, found = Sampler(envs, Remembers(), window, drawn), []
        sampler.reset()
        for _ in range(4):
            sampler.collect()
            found.append(dict(sampler.infos))
        return found

    def make(b: int) -> InfoEnv:
        return InfoEnv(2 + b, column=b)

    assert infos(in_process(make, 3)) == infos(grouped(make, 3, 2)) == infos(grouped(make, 3, 3))


def test_snapshots_of_groups_are_those_of_all_columns():
    def make(b: int) -> CountEnv:
        return CountEnv(2 + b, gap=1, column=b)

    one, many = in_process(make, 5), grouped(make, 5, 2)
    rows_of(one, "linear", True)
    rows_of(many, "linear", True)
    a, b = one.snapshot(), many.snapshot()
    assert a["resets"].tolist() == b["resets"].tolist()
    assert a["log"]["count"] == b["log"]["count"]
    for column in range(5):
        x, y = (s["log"]["rows"][s["log"]["begins"][column] :, column] for s in (a, b))
        assert np.array_equal(x, y)


def test_a_cut_is_not_forgotten_where_a_run_is_saved_before_its_next_row():
    """Saved, restored with a cut, saved at once, restored again: the row after is still marked."""

    class Unlike(CountEnv):
        made = 0

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            Unlike.made += 1
            self.episode = 100 * Unlike.made if self.column == 2 else -1

    def make(b: int) -> Unlike:
        return Unlike(n=9, column=b)

    def resumed(envs: Any, state: Any, carry: Any) -> Sampler:
        window = Window(example_row(envs.spec), 4, 4, reads=READS, state=torch.zeros(4, 1))
        sampler = Sampler(envs, Remembers(), window, Noise(0, noise.ACTION_NOISE, range(4), 1, 0))
        if carry is None:
            sampler.reset()
            sampler.collect()
        else:
            window.restore({**carry, "rows": tree_map(np.copy, carry["rows"])})
            assert envs.restore(state, window.slots[-1].row) == [2]
        return sampler

    first = resumed(in_process(make, 4), None, None)
    state, carry = first.envs.snapshot(), first.window.carry()
    for envs in (in_process(make, 4), grouped(make, 4, 2)):
        second = resumed(envs, state, carry)
        again, carried = second.envs.snapshot(), second.window.carry()
        for others in (in_process(make, 4), grouped(make, 4, 2)):
            third = resumed(others, again, carried)
            assert third.collect().rows.cut[1].tolist() == [False, False, True, False]


def test_padding_answers_only_its_own_columns_and_never_those_of_others():
    seen = []

    def act(inputs: Any, state: Any, draw: Any) -> Any:
        seen.append(state.clone())
        return inputs * 10, (), state + inputs[:, None]

    padded = Padded(act, slice(1, 3), 4, torch.zeros(2, 1))
    action, info, state = padded.act(torch.arange(4.0), torch.tensor([[5.0], [6.0]]), None)
    assert action.tolist() == [10, 20] and info == () and state.tolist() == [[6], [8]]
    assert seen[0].flatten().tolist() == [0, 5, 6, 0]
    _, _, state = padded.act(torch.arange(4.0), state, None)
    assert state.tolist() == [[7], [10]] and seen[1].flatten().tolist() == [0, 6, 8, 0]


def test_strict_acting_has_one_thread_and_leaves_those_of_learning():
    torch.set_num_threads(2)
    with acting_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with acting_threads(None):
        assert torch.get_num_threads() == 2
