"""Every row arrives once, aligned and in order, as the environment meant it."""

import numpy as np
import pytest
from count_streams import read_back, written_out
from stepping import in_process, step
from toys import AliasEnv, CountEnv, MutateActionEnv

STEPS = 12


@pytest.mark.parametrize("end", ["term", "trunc", "both", "never"])
@pytest.mark.parametrize("n", range(1, STEPS + 2))
def test_every_row_arrives_once_with_every_ending_on_every_row(n, end):
    """B001, B076, B083; F13: an episode of one step, both flags at once."""
    envs = in_process(lambda b: CountEnv(n + b, end, gap=b, column=b), 3)
    rows = step(envs, STEPS)
    for b in range(3):
        assert rows.observation[:, b, 0].tolist() == [b] * (STEPS + 1)
        assert read_back(rows, b) == written_out(n + b, end, b, STEPS + 1)
    assert not rows.cut.any()


def test_control_a_reset_in_the_same_step_would_lose_the_final_row():
    rows = step(in_process(lambda b: CountEnv(3, column=b), 1), 8)
    kept = rows.observation[:, 0, 1:].tolist()
    assert [0, 3] in kept
    assert [x for x in kept if x[1] != 3] != kept


def test_only_the_environment_that_ended_is_reset():
    """B004, B076."""
    envs = in_process(lambda b: CountEnv(2 if b == 1 else 50, column=b), 3)
    rows = step(envs, 9)
    assert rows.observation[-1, :, 1].tolist() == [0, 3, 0]
    assert rows.observation[-1, [0, 2], 2].tolist() == [9, 9]


def test_an_action_is_kept_as_it_was_answered():
    """B049: reward and ending belong to that action."""
    envs = in_process(lambda b: MutateActionEnv(), 2)
    rng = np.random.default_rng(0)
    given = rng.uniform(-1, 1, (STEPS, 2, 1)).astype(np.float32)
    rows = step(envs, STEPS, lambda t, row: row.action.__setitem__(..., given[t]))
    assert np.array_equal(rows.action[:-1], given)
    executed = ~rows.last[:-1]
    assert np.array_equal(rows.reward[1:][executed], given[..., 0][executed])


def test_an_array_that_the_environment_goes_on_writing_is_copied():
    """B047."""
    rows = step(in_process(lambda b: AliasEnv(), 1), 8)
    assert rows.observation[:, 0, 0].tolist() == [*range(1, 10)]


def test_flags_of_an_older_row_do_not_stay_in_storage():
    """Rows are written into memory that held other ones."""
    envs = in_process(lambda b: CountEnv(3, "both", column=b), 2)
    rows = step(envs, 3)
    rows.terminated[:], rows.truncated[:], rows.first[:], rows.cut[:] = True, True, True, True
    rows.reward[:] = 7
    last, after = rows[0], rows[1]
    envs.send(last, after)  # resets
    assert after.first.all() and not (after.last | after.cut).any() and not after.reward.any()
    last.terminated[:] = last.truncated[:] = False
    envs.send(last, after)
    assert not (after.first | after.last | after.cut).any() and (after.reward == 1).all()
