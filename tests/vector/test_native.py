"""Native pools give the rows that single environments would give."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from small_pools import NEXT_STEP, SEEDS, assert_same, collect, count_envs, native, random_actions
from toys import CountEnv

from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.columns import cut
from rlpyt.vector.grouped import Grouped
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.native import NativeEnvironments
from rlpyt.vector.pools import GymnasiumPool, describe_pool, pool_for


@pytest.mark.parametrize("groups", [2, 3])
def test_pools_that_take_turns_are_one_pool(groups):
    """Columns keep their seeds, endings and snapshots, whichever pool they are in."""

    def pool(columns):
        made = SyncVectorEnv(
            [partial(CountEnv, 2 + b, gap=1, column=b) for b in columns],
            autoreset_mode=NEXT_STEP,
        )
        return GymnasiumPool(made, "count")

    spec = describe_pool(pool(range(5)), "count")
    one = NativeEnvironments(pool(range(5)), spec, SEEDS)
    parts = [NativeEnvironments(pool(x), spec, SEEDS, x) for x in cut(range(5), groups)]
    many = Grouped(parts)
    rows, other = (zeros(example_row(spec), (21, 5)) for _ in range(2))
    one.reset(rows[0])
    many.reset(other[0])
    for t in range(20):
        one.send(rows[t], rows[t + 1])
        one.recv(rows[t + 1])
        for g, columns in enumerate(many.groups):  # all are under way before one is waited for
            many.send(other[t][columns], other[t + 1][columns], g)
        for g, columns in enumerate(many.groups):
            many.recv(other[t + 1][columns], g)
    assert_same(rows, other)
    assert one.snapshot()["starts"] == many.snapshot()["starts"] == 1
    assert many.restore(one.snapshot(), other[20]) == one.restore(many.snapshot(), rows[20])
    one.close()
    many.close()


def test_every_transition_of_a_known_stream_arrives_once():
    """Episodes of 2 and of 3 steps: their rows written out."""
    rows = collect(native(GymnasiumPool(count_envs(SyncVectorEnv, 2), "count")), 7)
    assert rows.observation[:, 0, 1:].tolist() == [  # [episode, steps]
        [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1],
    ]  # fmt: skip
    assert rows.observation[:, 1, 1:].tolist() == [
        [0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3],
    ]  # fmt: skip
    assert rows.first.T.astype(int).tolist() == [[1, 0, 0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0, 0, 0]]
    assert rows.reward.T.tolist() == [[0, 1, 1, 0, 1, 1, 0, 1], [0, 1, 1, 1, 0, 1, 1, 1]]
    assert np.flatnonzero(rows.terminated[:, 0]).tolist() == [2, 5]
    assert np.flatnonzero(rows.truncated[:, 1]).tolist() == [3, 7]
    assert not rows.truncated[:, 0].any()
    assert not rows.terminated[:, 1].any()


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_rows_equal_those_of_the_same_environments_in_process(vector):
    envs = native(GymnasiumPool(count_envs(vector), "count"))
    single = [CountEnv(n=2 + b, column=b, end="trunc" if b else "term") for b in range(3)]
    assert_same(collect(envs, 20), collect(InProcess(single, envs.spec, SEEDS), 20))
    envs.close()


def test_columns_of_gymnasiums_own_vectors_start_from_their_seeds():
    makes = [partial(gymnasium.make, "CartPole-v1")] * 3
    envs = native(GymnasiumPool(SyncVectorEnv(makes, autoreset_mode=NEXT_STEP), "CartPole-v1"))
    single = InProcess([make() for make in makes], envs.spec, SEEDS)
    rows, other = (collect(x, 8, random_actions(2)) for x in (envs, single))
    assert_same(rows, other)  # no pole falls in 8 steps
    assert len(np.unique(rows.observation[0], axis=0)) == 3


def test_a_vectorised_program_steps_as_single_environments_do():
    envs = native(
        pool_for(gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"), "v")
    )
    rows = collect(envs, 60, random_actions(2))
    single = gymnasium.make("CartPole-v1").unwrapped
    single.reset()
    checked = 0
    for t, b in np.argwhere(~rows.last[:-1]):
        single.state, single.steps_beyond_terminated = rows.observation[t, b], None
        after, reward, terminated, *_ = single.step(rows.action[t, b])
        np.testing.assert_allclose(rows.observation[t + 1, b], after, rtol=1e-4, atol=1e-6)
        assert (rows.reward[t + 1, b], rows.terminated[t + 1, b]) == (reward, terminated)
        checked += 1
    assert checked > 150
    assert rows.last.sum() >= 4
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    assert not rows.reward[rows.first].any()


def test_a_resumed_pool_cuts_what_was_open_and_begins_other_episodes():
    envs = native(GymnasiumPool(count_envs(SyncVectorEnv), "count"))
    rows = collect(envs, 3)  # column 1 (3 steps) ends on this row
    state = envs.snapshot()
    assert not envs.exact
    fresh = native(GymnasiumPool(count_envs(SyncVectorEnv), "count"))
    row, after, later = (zeros(example_row(fresh.spec), (3,)) for _ in range(3))
    row[:] = rows[3]
    assert fresh.restore(state, row) == [0, 2]
    fresh.send(row, after)
    fresh.recv(after)
    assert row.last.all()
    assert row.terminated.tolist() == rows.terminated[3].tolist()
    assert after.first.all()
    assert after.cut.tolist() == [True, False, True]
    assert not after.last.any()
    assert after.observation[:, 2].tolist() == [0, 0, 0]
    fresh.send(after, later)
    fresh.recv(later)
    assert later.reward.tolist() == [1, 1, 1]
    assert not later.cut.any()
    assert fresh.snapshot()["starts"] == 2
