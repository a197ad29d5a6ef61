"""Worker processes write the rows that one process alone would write."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sampling import parts_of, rows_of, same
from small_workers import WORKERS, Faulty, stream

from rlpyt.arrays import tree_items, tree_map
from rlpyt.errors import UsageError
from rlpyt.logging.episodes import Episodes
from rlpyt.samplers.rules import check_sizes
from rlpyt.vector.columns import cut

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def collect(parts: Any, windows: int = 2) -> list[Any]:
    try:
        parts.sampler.reset()
        return [rows_of(parts.sampler.collect(None, 0)) for _ in range(windows)]
    finally:
        parts.close()


DIVISIONS = {
    "normalized": [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3), (1, 4)],
    "dqn-frames": [(2, 1), (1, 3)],
}


@pytest.mark.parametrize("kind", DIVISIONS)
def test_rows_in_strict_mode_are_the_same_bits_however_columns_are_shared_out(kind):
    """SEMANTICS 11: for any number of workers and groups; linear windows, and a ring's."""
    alone = collect(parts_of(kind), 3)
    for workers, groups in DIVISIONS[kind]:
        found = collect(parts_of(kind, workers=workers, groups=groups, strict=True, **WORKERS), 3)
        assert all(map(same, alone, found)), (workers, groups)


def test_rows_in_default_mode_are_equal_to_rounding():
    alone = collect(parts_of("normalized"))
    split = collect(parts_of("normalized", workers=1, groups=4, **WORKERS))
    for a, b in zip(alone, split, strict=True):
        assert all(np.allclose(x, y, atol=1e-3) for x, y in zip(a, b, strict=True))
    assert not all(map(same, alone, split))  # the control: groups of one column, not padded


def test_seven_environments_on_three_workers_are_all_stepped_equally_often():
    """B071, B083: every row of column b is its next step."""
    for groups in (1, 2):
        given: Any = {"workers": 3, "groups": groups, **WORKERS}
        rows = stream_of(parts_of("ppo", "small_workers:Faulty", num_envs=7, **given), 2)
        follow_each_other(rows, 7)


def follow_each_other(rows: Any, num_envs: int) -> None:
    assert (rows.observation[..., 0] == np.arange(num_envs)).all()
    steps = rows.observation[..., 2]
    assert np.array_equal(steps == 0, rows.first)
    going = ~rows.last[:-1]
    assert (steps[1:][going] == steps[:-1][going] + 1).all()


def stream_of(parts: Any, windows: int) -> Any:
    try:
        return stream(parts.sampler, windows)
    finally:
        parts.close()


def test_columns_are_shared_out_in_parts_that_differ_by_at_most_one():
    for count in range(1, 20):
        for parts in range(1, count + 1):
            shares = cut(range(3, 3 + count), parts)
            assert [b for share in shares for b in share] == list(range(3, 3 + count))
            sizes = {len(share) for share in shares}
            assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1


@pytest.mark.parametrize(
    ("workers", "groups", "says"),
    [
        (9, 1, "workers=9 for num_envs=8: .*at most --workers 8"),
        (5, 2, "workers=5 for num_envs=8 in 2 groups.*at most --workers 4"),
        (1, 9, "groups=9 of num_envs=8.*at most --groups 8"),
    ],
)
def test_a_worker_or_a_group_without_an_environment_is_refused(workers, groups, says):
    with pytest.raises(UsageError, match=says):
        check_sizes(8, workers, groups)
    check_sizes(8, min(workers, 8 // min(groups, 8)), min(groups, 8))  # the control


@pytest.mark.parametrize("env", ["Rich", "masked", "informed"])
def test_dicts_images_masks_and_infos_come_through(env):
    """B041, B161: as they are written by one process alone."""
    options: Any = {"strict": True, "num_envs": 3}
    names = {"Rich": ("level",), "masked": (), "informed": ("late", "speed.x", "none")}[env]
    info: Any = {"info": names, "frame_stack": 2 if env == "Rich" else None}

    def found(**sampler: Any) -> Any:
        parts = with_env(parts_of, env, info, **options, **sampler)
        infos = []
        try:
            parts.sampler.reset()
            rows = []
            for _ in range(3):
                rows.append(tree_map(np.copy, parts.sampler.collect(None, 0).rows[:-1]))
                infos.append(dict(parts.sampler.infos))
            return rows, infos
        finally:
            parts.close()

    alone, infos = found()
    for workers, groups in ((3, 1), (1, 2)):
        rows, others = found(sampler="workers", workers=workers, groups=groups)
        for one, other in zip(alone, rows, strict=True):
            for (name, x), (_, y) in zip(tree_items(one), tree_items(other), strict=True):
                assert x.tobytes() == y.tobytes(), name
        assert infos == others
    assert sum(map(len, infos)) > 5


def with_env(make: Any, env: str, options: dict[str, Any], **given: Any) -> Any:
    """Parts of PPO in an environment of small_workers with other options of environments."""
    import dataclasses

    from small_sampling import run_of

    from rlpyt.build import build
    from rlpyt.samplers.options import SamplerOptions

    num_envs = given.pop("num_envs")
    run = run_of("ppo", Path("runs"))
    changed = dataclasses.replace(run.env, env=f"small_workers:{env}", num_envs=num_envs, **options)
    return build(dataclasses.replace(run, env=changed, sampler=SamplerOptions(**given)))


def test_factories_arguments_wrappers_and_ranks_reach_the_workers():
    """B070: ranks are those of the run, and evaluation's follow them."""
    given: Any = {"env_kwargs": {"n": 7}, "wrapper": ("small_workers:Halved",)}
    parts = with_env(parts_of, "Faulty", given, num_envs=3, workers=3, **WORKERS)
    try:
        rows = stream(parts.sampler, 1)
        assert (rows.observation[..., 0] == np.arange(3) / 2).all()
        assert rows.observation[..., 2].max() >= 3.5  # seven steps
        evaluation = parts.evaluator.sampler
        evaluation.reset()
        ranks = 2 * evaluation.collect().rows.observation[0, :, 0]
        assert ranks.tolist() == [3 + b for b in range(len(ranks))]
    finally:
        parts.close()


@pytest.mark.parametrize("kind", ["ppo", "dqn-frames"])
def test_a_snapshot_fits_every_sampler(kind):
    """F24: other samplers, workers and groups go on where it was made."""

    def after(saved: Any, **sampler: Any) -> Any:
        parts = parts_of(kind, strict=True, **sampler)
        try:
            if saved is None:
                parts.sampler.reset()
                for _ in range(3):
                    parts.sampler.collect(None, 0)
                return parts.sampler.snapshot()
            assert parts.sampler.restore(saved) == []
            return rows_of(parts.sampler.collect(None, 0))
        finally:
            parts.close()

    several: Any = {"sampler": "workers", "workers": 2, "groups": 2}
    alone = after(None)
    expected = after(alone)
    for sampler in (several, {"sampler": "workers", "workers": 3, "groups": 1}):
        saved = after(None, **sampler)
        assert saved["envs"]["resets"].tolist() == alone["envs"]["resets"].tolist()
        assert same(after(saved), expected)
        assert same(after(alone, **sampler), expected)
        assert same(after(saved, **several), expected)


def test_the_actions_of_open_episodes_survive_however_columns_are_put_together():
    """A column that was reset lately keeps few rows, another one many."""

    def saved(**sampler: Any) -> Any:
        kwargs = {"n": 9}
        parts = parts_of("ppo", "small_workers:Faulty", kwargs, strict=True, **sampler)
        try:
            parts.sampler.reset()
            parts.sampler.collect(None, 0)
            return parts.sampler.snapshot()["envs"]["log"]
        finally:
            parts.close()

    one, many = saved(), saved(sampler="workers", workers=2, groups=2)
    assert one["count"] == many["count"] > 0
    for b in range(4):
        x, y = (log["rows"][log["begins"][b] :, b] for log in (one, many))
        assert np.array_equal(x, y)


def test_a_slow_worker_is_named_and_its_rows_are_right():
    """F8, B092."""
    given: Any = {"strict": True, "workers": 2}
    parts = parts_of("ppo", "small_workers:Slow", {"slow": 3}, **given, **WORKERS)
    try:
        parts.sampler.reset()
        parts.sampler.metrics()  # a line of the log begins
        found = rows_of(parts.sampler.collect(None, 0))
        told = parts.sampler.metrics()
    finally:
        parts.close()
    assert told["workers/slowest"] == 1 and told["workers/slowest_share"] > 0.2
    assert same(found, collect(parts_of("ppo", "small_workers:Slow", strict=True))[0])


def test_steps_are_counted_as_the_environments_took_them():
    """B088."""
    parts = parts_of("ppo", "small_workers:Faulty", {"n": 3}, workers=2, groups=2, **WORKERS)
    episodes = Episodes(4)
    try:
        parts.sampler.reset()
        window: Any = None
        for _ in range(3):
            window = parts.sampler.collect(None, 0)
            episodes.count(window.rows)
        lengths = [3 + np.arange(20)] * 4  # of each column's episodes: one step more each time
        episode, steps = window.rows.observation[-1, :, 1:].T.astype(int)
        taken = sum(x[:e].sum() + s for x, e, s in zip(lengths, episode, steps, strict=True))
        assert episodes.env_steps == taken
    finally:
        parts.close()


def test_control_the_faulty_environment_is_a_counting_one():
    assert Faulty(rank=1, n=3).reset()[0].tolist() == [1, 0, 0]
