"""What is not finite ends the run, costs an episode, or passes, under every sampler."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from small_nans import Broken, Parts
from small_remote import Crew
from small_runs import stopped_at
from small_sampling import SIDES, column, fingerprint, outcome_of, parts_of, trained
from stepping import go_on, in_process, step

from rlpyt import checkpoint, remote, training
from rlpyt.arrays import tree_leaves
from rlpyt.cli import main
from rlpyt.errors import EnvironmentFault, WorkerError
from rlpyt.folder import RunFolder
from rlpyt.logging.episodes import Episodes
from rlpyt.noise import TRAINING_RESETS, ResetSeeds
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.native import NativeEnvironments
from rlpyt.vector.not_finite import MOST_EPISODES, MOST_ROWS
from rlpyt.vector.pools import GymnasiumPool, describe_pool

SPOILT: dict[str, Any] = {"env": "small_nans:Spoilt", "num_envs": 4}
DROP: dict[str, Any] = {"strict": True, "nan_policy": "drop"}
DIVISIONS: list[dict[str, Any]] = [
    {"sampler": "workers", "workers": 3, "groups": 1},
    {"sampler": "workers", "workers": 2, "groups": 2},
    {"sampler": "replicated", "workers": 2},
    {"sampler": "ray", "workers": 2},
]
EVERY: list[dict[str, Any]] = [{}, *DIVISIONS, {"asynchronous": True}]

told_of = pytest.mark.filterwarnings("ignore:.* is not finite at")


@pytest.fixture(autouse=True)
def remote_replicas(monkeypatch) -> None:
    """Those of other machines are in this process."""
    monkeypatch.setattr(remote, "_remote_crew", Crew)


def finite(state: Any) -> bool:
    leaves = [np.asarray(x) for x in tree_leaves(state)]
    return all(np.isfinite(x).all() for x in leaves if x.dtype.kind == "f")


# One environment of several, row by row -----------------------------------------------------------


@pytest.mark.parametrize("field", ["observation", "reward"])
def test_the_step_is_lost_and_the_next_episode_begins_in_its_place(field):
    """Column 1's call 2, a step: row 1 ends its episode, row 2 begins the next one."""
    envs = in_process(lambda b: Broken(b, calls=(2,), field=field), 3, drop=True)
    with pytest.warns(UserWarning, match="is not finite") as told:
        rows = step(envs, 6)
    assert rows.observation[:4, 1, 1:].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert rows.reward[:4, 1].tolist() == [0, 1, 0, 1]
    assert rows.truncated[:, 1].tolist() == [False, True, *[False] * 5]
    assert not rows.terminated[:6, 1].any()
    assert np.argwhere(rows.cut).tolist() == [[2, 1]]
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    others = step(in_process(lambda b: Broken(b, column=-1), 3), 6)
    assert np.array_equal(rows.observation[:, ::2], others.observation[:, ::2])

    episodes = Episodes(3)
    found = episodes.count(rows)
    live = ~rows.last[:-1]
    assert episodes.env_steps == live.sum()
    assert [(x.column, x.length) for x in found] == [(0, 4), (2, 4), (1, 4)]
    assert episodes.line()["rollout/episodes_cut"] == 1
    (warning,) = told
    seed = ResetSeeds(0, TRAINING_RESETS)(1, 0)
    where = rf"step 2 after reset(seed={seed})"
    assert f"{field} of environment 1 (" in str(warning.message) and where in str(warning.message)


def test_control_without_it_the_row_arrives():
    rows = step(in_process(lambda b: Broken(b, calls=(2,)), 3), 6)
    assert np.isnan(rows.observation[2, 1]).any() and not rows.cut.any()


def test_it_is_told_of_once_for_each_environment_with_the_part_of_an_observation():
    envs = in_process(lambda b: Parts(), 2, drop=True)
    with pytest.warns(UserWarning, match=r"observation\.inner\.x of environment [01] ") as told:
        rows = step(envs, 20)
    assert len(told) == 2 and rows.cut.sum() > 10
    assert finite(rows)


def test_an_end_that_is_not_finite_is_lost_too():
    """The last step of an episode: it did not end, it was cut; nor are its numbers told of."""
    envs = in_process(lambda b: Broken(b, calls=(4,)), 2, drop=True)
    rows = zeros(example_row(envs.spec), (10, 2))
    envs.reset(rows[0])
    with pytest.warns(UserWarning, match="step 4 after"):
        ended = go_on(envs, rows, 0)
    assert [(t, b) for t, b, _ in ended] == [(4, 0), (8, 1), (9, 0)]
    assert rows.truncated[3, 1] and not rows.terminated[:4, 1].any() and rows.cut[4, 1]
    assert [(x.column, x.length) for x in Episodes(2).count(rows)] == [(0, 4), (1, 4), (0, 4)]


@told_of
def test_where_a_reset_fails_no_episode_of_the_row_is_marked_as_cut_yet():
    """Who comes after this process finds all of them open, and cuts them."""
    envs = in_process(lambda b: Broken(b, column=b, calls=(2,)), 2, drop=True)
    rows = zeros(example_row(envs.spec), (4, 2))
    envs.reset(rows[0])
    envs.send(rows[0], rows[1])
    envs._singles.envs[1].reset = None
    with pytest.raises(TypeError, match="not callable"):
        envs.send(rows[1], rows[2])
    assert not rows.last.any() and not rows.cut.any()
    assert envs.cut(rows[1]) == [0, 1]


@told_of
def test_a_reset_that_is_not_finite_gives_way_to_the_next():
    """Calls 0 and 5, of which the second follows an episode's end: nothing is lost by either."""
    envs = in_process(lambda b: Broken(b, calls=(0, 6)), 2, drop=True)
    rows = step(envs, 9)
    other = step(in_process(lambda b: Broken(b, column=-1), 2), 9)
    for name in ("reward", "first", "terminated", "truncated", "cut"):
        assert np.array_equal(getattr(rows, name), getattr(other, name)), name
    assert rows.observation[[0, 5], 1, 1].tolist() == [1, 3]
    assert envs.resets.tolist() == [2, 4]


@told_of
def test_where_nothing_is_finite_the_run_ends():
    for ever in (0, 1):  # from the first reset on, from the first step on
        envs = in_process(lambda b, ever=ever: Broken(b, ever=ever), 2, drop=True)
        with pytest.raises(
            EnvironmentFault, match=rf"environment 1 of 2 .*{MOST_EPISODES} episodes in a"
        ):
            step(envs, 100)


@told_of
def test_random_steps_before_the_first_row_may_be_lost():
    envs = in_process(
        lambda b: Broken(b, column=b, calls=(1, 3, 5), n=50), 4, decorrelate=6, drop=True
    )
    rows = step(envs, 5)
    assert finite(rows) and not rows.cut[0].any()


# Every sampler ------------------------------------------------------------------------------------


@told_of
@pytest.mark.parametrize("kind", ["ppo", "normalized", "lstm", "r2d1"])
def test_training_in_strict_mode_is_bit_equal_under_every_sampler(kind, tmp_path):
    env = {**SPOILT, "env_kwargs": ("box=True",)} if kind == "normalized" else SPOILT
    outcome = outcome_of(kind, tmp_path, env=env, **DROP)
    assert sum(column(outcome.folder, "rollout/episodes_cut")) > 5
    state, _ = checkpoint.load(outcome.folder / "checkpoints")
    assert finite({name: state[name] for name in ("agent", "window")})
    alone = fingerprint(outcome.folder)
    for division in DIVISIONS if kind == "ppo" else DIVISIONS[1::2]:
        assert alone == trained(kind, tmp_path, env=env, **DROP, **division), division


@pytest.mark.parametrize("sampler", EVERY)
def test_control_without_it_every_sampler_raises_by_name(sampler, tmp_path):
    kind = "dqn" if sampler.get("asynchronous") else "ppo"
    with pytest.raises((EnvironmentFault, WorkerError), match=r"of environment [123] .*not finite"):
        trained(kind, tmp_path, env=SPOILT, **sampler)


@told_of
@pytest.mark.parametrize("side", ["serial", "workers"])
def test_asynchronous_sampling_goes_on_too(side, tmp_path):
    """The steps are the run's length to one window, whatever was lost."""
    given = {**SIDES[side], "nan_policy": "drop", "asynchronous": True}
    outcome = outcome_of("dqn", tmp_path, env=SPOILT, **given)
    assert sum(column(outcome.folder, "rollout/episodes_cut")) > 5
    assert 500 <= outcome.runner.episodes.env_steps < 504


@told_of
@pytest.mark.parametrize("kind", ["lstm", "dqn"])
def test_a_run_goes_on_under_another_sampler_as_if_it_had_not_stopped(kind, tmp_path):
    whole = trained(kind, tmp_path, env=SPOILT, **DROP)
    part = outcome_of(kind, tmp_path, hooks=stopped_at(3), env=SPOILT, **DROP)
    for other, hooks in ((DIVISIONS[1], stopped_at(2)), ({"sampler": "serial"}, None)):
        given = {"workers": None, "groups": None, **other}
        part = training.resume(part.folder, sampler=given, hooks=hooks, mode="quiet")
    assert fingerprint(part.folder) == whole


@told_of
def test_a_run_that_was_ended_by_one_goes_on_without_it(tmp_path):
    env, loop = {**SPOILT, "env_kwargs": ("share=0.003",)}, {"checkpoint_interval": 20}
    with pytest.raises(EnvironmentFault, match="--nan-policy drop"):
        outcome_of("dqn", tmp_path, env=env, loop=loop)
    (folder,) = tmp_path.iterdir()
    assert main(["resume", str(folder), "--nan-policy", "drop", "--quiet"]) == 0
    assert RunFolder(folder).run().sampler.nan_policy == "drop"


# Ignored ------------------------------------------------------------------------------------------


def test_ignored_it_reaches_the_rows_and_then_the_gradient(tmp_path):
    parts = parts_of("dqn", SPOILT["env"], nan_policy="ignore")
    try:
        parts.sampler.reset()
        rows = [parts.sampler.collect().rows for _ in range(20)]
    finally:
        parts.close()
    assert not all(finite(x.observation) for x in rows)
    with pytest.raises(FloatingPointError, match="gradient"):
        outcome_of("dqn", tmp_path, env=SPOILT, nan_policy="ignore")


# An evaluation has its own rule -------------------------------------------------------------------


@told_of
def test_an_evaluation_fails_by_it_and_training_goes_on(tmp_path, capsys):
    loop = {"eval_episodes": 4, "eval_interval": 200}
    outcome = outcome_of("ppo", tmp_path, env=SPOILT, loop=loop, nan_policy="drop")
    assert outcome.status == "finished"
    assert column(outcome.folder, "eval/failed")


# Pools --------------------------------------------------------------------------------------------


def native(drop: bool, count: int = 3, **broken: Any) -> Any:
    makes = [partial(Broken, b, **broken) for b in range(count)]
    envs = SyncVectorEnv(makes, autoreset_mode=AutoresetMode.NEXT_STEP)
    pool = GymnasiumPool(envs, "broken")
    seeds = ResetSeeds(0, TRAINING_RESETS)
    return NativeEnvironments(pool, describe_pool(pool, "broken"), seeds, drop=drop)


def collected(envs: Any, steps: int, ended: list[Any] | None = None) -> Any:
    rows = zeros(example_row(envs.spec), (steps + 1, envs.num_envs))
    envs.reset(rows[0])
    found = go_on(envs, rows, 0)
    if ended is not None:
        ended += [(t, b) for t, b, _ in found]
    return rows


def test_a_pools_column_is_of_no_episode_until_the_pool_begins_the_next():
    """Call 2 of episodes of 4 steps: rows 2 to 4 are empty, row 5 begins the next episode."""
    ended: list[Any] = []
    with pytest.warns(UserWarning, match=r"observation of environment 1 \(broken\)") as told:
        rows = collected(native(True, calls=(2,)), 12, ended)
    assert ended == [(4, 0), (4, 2), (9, 0), (9, 1), (9, 2)]
    assert len(told) == 1 and finite(rows)
    empty = rows.first & rows.truncated & rows.cut
    assert np.argwhere(empty).tolist() == [[2, 1], [3, 1], [4, 1]]
    assert rows.truncated[1, 1] and not rows.cut[5:].any()
    assert rows.observation[5:10, 1, 1:].tolist() == [[1, i] for i in range(5)]
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    episodes = Episodes(3)
    lengths = [(x.column, x.length) for x in episodes.count(rows)]
    assert lengths == [(0, 4), (2, 4), (0, 4), (1, 4), (2, 4)]
    assert episodes.env_steps == (~rows.last[:-1]).sum()
    assert episodes.line()["rollout/episodes_cut"] == 1


def test_control_a_pools_row_is_not_finite_without():
    assert not finite(collected(native(False, calls=(2,)), 12))


@told_of
def test_a_pools_episode_that_ended_by_itself_counts_where_its_reset_is_lost():
    """Call 5, the reset behind row 4: the rows of no episode that follow cut nothing."""
    rows, episodes = collected(native(True, calls=(5,)), 12), Episodes(3)
    assert [(x.column, x.length) for x in episodes.count(rows)][:3] == [(0, 4), (1, 4), (2, 4)]
    assert (rows.first & rows.last)[5:8, 1].all() and not rows.cut[5, 1]
    assert "rollout/episodes_cut" not in episodes.line()


@told_of
def test_a_pools_first_row_may_be_lost():
    rows = collected(native(True, calls=(0,)), 8)
    assert finite(rows)
    assert (rows.first & rows.last)[:5, 1].all() and not rows.last[5:, 1].any()


@told_of
def test_a_pool_of_which_nothing_is_finite_ends_the_run(monkeypatch):
    monkeypatch.setattr("rlpyt.vector.not_finite.MOST_ROWS", 20)
    assert MOST_ROWS > 1000
    envs = native(True, count=1, column=0, ever=3, n=10_000)
    with pytest.raises(EnvironmentFault, match="in 20 rows; mend them"):
        collected(envs, 30)


def test_where_all_is_finite_nothing_is_told_and_nothing_changes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = [step(in_process(lambda b: Broken(b), 3, drop=drop), 12) for drop in (False, True)]
    for x, y in zip(*map(tree_leaves, rows), strict=True):
        assert np.array_equal(x, y)
