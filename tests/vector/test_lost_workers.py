"""A worker that fails is replaced by another, or its columns stay empty: what rows say of it."""

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from faulty_workers import B, collect, faulty
from gymnasium import spaces
from small_sampling import parts_of
from small_workers import stream

from rlpyt.arrays import tree_items, tree_leaves, tree_map
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import WorkerError
from rlpyt.logging.episodes import Episodes
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.lost import Blank

pytestmark = pytest.mark.usefixtures("leaves_nothing")

# Another worker ---------------------------------------------------------------------------------

WHERE = [("ppo", n) for n in (0, 13, 30, 31, 32)] + [("dqn", 5)]  # ppo's windows have 32 rows


def windows_of(parts: Any, count: int) -> tuple[Any, Episodes, list[Any], dict[str, float]]:
    """Answered rows of some windows, what is counted of them, and what the log says."""
    episodes, found, collected = Episodes(B), [], []
    try:
        parts.sampler.reset()
        for _ in range(count):
            rows = parts.sampler.collect(None, 0).rows
            found += episodes.count(rows, infos=parts.sampler.infos)
            collected.append(tree_map(np.copy, rows[:-1]))
        told = parts.sampler.metrics()
    finally:
        parts.close()
    return tree_map(lambda *xs: np.concatenate(xs), *collected), episodes, found, told


def same_until(rows: Any, whole: Any, b: int, n: int) -> None:
    """Column b is as if nothing had been, up to what was answered to row n."""
    for (name, x), (_, y) in zip(tree_items(rows), tree_items(whole), strict=True):
        end = n if name == "truncated" else n + 1
        assert np.array_equal(x[:end, b], y[:end, b]), (name, b)


def lost_rows(rows: Any, lost: int, groups: int) -> dict[int, int]:
    """The columns of the worker that failed in row `lost` of column 2; the last row of each.

    Of the other group it had given a row more, whose answer was lost with it, or even two; none
    where the failure was noticed before that row was asked for, as at a window's beginning.
    """
    if groups == 1:
        return {2: lost, 3: lost}
    other = int(rows.cut[:, 0].argmax()) - 1
    assert other in (lost, lost + 1, lost + 2)
    return {0: other, 2: lost}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kind", "lost"), WHERE)
def test_a_worker_that_failed_is_replaced_and_the_rows_say_so(kind, lost, groups, tmp_path):
    """R5, SEMANTICS 1: where the lost action was to be executed the episode is cut, and every
    other row is as if nothing had been. In `ppo` that is the first row of a window, one in the
    middle, the last two, and the boundary row of a window that was returned already."""
    count = {"ppo": 3, "dqn": 40}[kind]
    whole, _, _, _ = windows_of(parts_of(kind, "small_workers:Faulty", {"n": 40}), count)
    given: Any = {"on_worker_failure": "restart", "once": str(tmp_path / "once")}
    parts = faulty(kind=kind, k=lost, n=40, groups=groups, **given)
    rows, episodes, found, told = windows_of(parts, count)
    at = lost_rows(rows, lost, groups)
    for b in range(B):
        same_until(rows, whole, b, at.get(b, len(rows.reward)))
        assert np.flatnonzero(rows.cut[:, b]).tolist() == ([at[b] + 1] if b in at else [])
    for b, n in at.items():
        assert rows.truncated[n, b] and not whole.truncated[n, b]
        assert rows.first[n + 1, b] and not rows.last[n + 1, b] and not rows.reward[n + 1, b]
        assert rows.observation[n + 1, b].tolist() == [b, 0, 0]  # of an environment made anew
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    assert told["workers/restarts"] == 1 and told["workers/dropped"] == 0
    assert episodes.env_steps == (~rows.last).sum()
    assert all(40 <= e.length == e.raw_return for e in found)


def test_a_reset_that_failed_is_not_done_again_in_the_same_way(tmp_path):
    """A dead row is not cut: its episode had ended; the next one has the next reset's seed."""
    given: Any = {"on_worker_failure": "restart", "once": str(tmp_path / "once")}
    parts = faulty(where="reset", k=2, n=4, **given)
    try:
        rows = stream(parts.sampler, 1)
        resets = parts.sampler.snapshot()["envs"]["resets"]
    finally:
        parts.close()
    assert not rows.cut.any()  # column 3 had ended, too
    assert resets[2] == rows.first[:, 2].sum() + 1
    assert resets[0] == rows.first[:, 0].sum()


@pytest.mark.parametrize("how", ["SIGKILL", "sleep", "exit 0"])
def test_every_kind_of_failure_can_be_gone_on_after(how, tmp_path):
    given: Any = {"on_worker_failure": "restart", "once": str(tmp_path / "once")}
    parts = faulty(how, k=40, env_step_timeout=0.5, groups=2, **given)
    rows, _, _, told = windows_of(parts, 3)
    assert told["workers/restarts"] == 1 and rows.cut.sum() in (1, 2)


@pytest.mark.parametrize(
    ("sampler", "kind"), [("workers", "ppo"), ("workers", "dqn"), ("replicated", "ppo")]
)
def test_an_episode_is_cut_also_where_who_comes_after_the_lost_process_fails(
    sampler, kind, tmp_path
):
    """R5: the one after that still finds it open, and neither reports nor goes on with it."""
    kwargs, given = {"folder": str(tmp_path)}, {"workers": 2, "on_worker_failure": "restart"}
    parts = parts_of(kind, "small_workers:FailsTwice", kwargs, sampler=sampler, **given)
    rows, episodes, found, told = windows_of(parts, {"ppo": 2, "dqn": 20}[kind])
    assert told["workers/restarts"] == 2 and not found
    (cut,) = {n for n, b in np.argwhere(rows.cut).tolist() if b == 2}
    assert rows.first[cut, 2] and rows.last[cut - 1, 2] and not rows.last[cut:, 2].any()
    assert episodes.open()[1][2] == len(rows.reward) - cut


def test_a_worker_that_dies_between_windows_is_replaced_when_it_is_asked(tmp_path):
    """Its columns' boundary row stays as it was returned, until the next window answers it."""
    parts = faulty(column=-1, n=40, on_worker_failure="restart")
    try:
        parts.sampler.reset()
        first = tree_map(np.copy, parts.sampler.collect(None, 0).rows)
        workers = parts.sampler.envs._driver.workers
        os.kill(workers.children[1].pid, signal.SIGKILL)
        time.sleep(0.05)
        saved = parts.sampler.snapshot()  # which needs the worker, and replaces it already
        rows = parts.sampler.collect(None, 0).rows
        assert not first.truncated[-1].any()
        assert rows.truncated[0].tolist() == [False, False, True, True]
        assert rows.cut[1].tolist() == [False, False, True, True] and rows.cut.sum() == 2
    finally:
        parts.close()
    alone = parts_of("ppo", "small_workers:Faulty", {"n": 40})
    try:
        assert alone.sampler.restore(saved) == [2, 3]
        assert alone.sampler.collect(None, 0).rows.cut[1].tolist() == [False, False, True, True]
    finally:
        alone.close()


def test_a_message_cut_short_by_another_workers_death_is_handed_over_in_the_end():
    """A large one, to a worker that does not read for a while."""
    parts = faulty(column=-1, on_worker_failure="restart", env_step_timeout=8.0)
    try:
        parts.sampler.reset()
        driver = parts.sampler.envs._driver
        slow, dying = driver.workers.children
        pid = slow.pid
        os.kill(pid, signal.SIGSTOP)
        timers = [
            threading.Timer(0.3, os.kill, (dying.pid, signal.SIGKILL)),
            threading.Timer(2.5, os.kill, (pid, signal.SIGCONT)),
        ]
        for timer in timers:
            timer.start()
        answers = driver.ask("snapshot", {0: bytes(10**7), 1: None})
        for timer in timers:
            timer.join()
        assert sorted(answers) == [0, 1]  # who took the other's place was asked behind it
        assert driver.restarts == 1 and driver.workers.children[0].pid == pid
        assert len(stream(parts.sampler, 1).reward)
    finally:
        parts.close()


def test_restarts_are_bounded():
    parts = faulty(k=3, on_worker_failure="restart", max_restarts=2)
    with pytest.raises(WorkerError, match="a fault of its own.*max_restarts=2.*--max-restarts"):
        collect(parts)
    assert parts.sampler.envs._driver.restarts == 2


# Empty columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kind", "lost"), [("ppo", 13), ("ppo", 31), ("ppo", 32), ("dqn", 5)])
def test_columns_of_a_dropped_worker_hold_what_nothing_learns_from(kind, lost, groups):
    """SEMANTICS 1: rows of zeros, first and truncated, for ever."""
    count = {"ppo": 3, "dqn": 40}[kind]
    whole, _, _, _ = windows_of(parts_of(kind, "small_workers:Faulty", {"n": 40}), count)
    parts = faulty(kind=kind, k=lost, n=40, groups=groups, on_worker_failure="drop")
    rows, episodes, found, told = windows_of(parts, count)
    at = lost_rows(rows, lost, groups)
    for b in range(B):
        same_until(rows, whole, b, at.get(b, len(rows.reward)))
    for b, n in at.items():
        assert rows.truncated[n:, b].all() and rows.first[n + 1 :, b].all()
        assert rows.cut[n + 1 :, b].all() and not rows.cut[: n + 1, b].any()
        empty = rows[n + 1 :, b]
        for leaf in tree_leaves((empty.observation, empty.reward, empty.terminated)):
            assert not leaf.any()
    assert told["workers/dropped"] == 2 and told["workers/restarts"] == 0
    assert episodes.env_steps == (~rows.last).sum()
    assert not [e for e in found if e.column in at]


def test_the_last_worker_cannot_be_dropped():
    parts = faulty(workers=1, on_worker_failure="drop")
    with pytest.raises(WorkerError, match="a fault of its own"):
        collect(parts)


def test_zeros_out_of_bounds_are_the_nearest_that_an_observation_space_allows():
    space = spaces.Dict({"a": spaces.Box(2.0, 3.0, (2,)), "b": spaces.Box(-5, -1, (), np.int32)})
    spec = EnvSpec("e", to_spec(space, "observation"), to_spec(spaces.Discrete(2), "action"))
    rows = zeros(example_row(spec), (2, 3))
    Blank(spec).write(rows[0], rows[1])
    assert (rows.observation.a[1] == 2).all() and (rows.observation.b[1] == -1).all()
    assert rows.first[1].all() and rows.truncated.all() and rows.cut[1].all()
