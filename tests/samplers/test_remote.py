"""Remote sampling: the same rows as one process alone, and what a lost replica costs."""

from typing import Any

import numpy as np
import pytest
from small_remote import Crew
from small_sampling import fingerprint, outcome_of, parts_of, rows_of, same, trained, whole

from rlpyt import remote, training
from rlpyt.errors import WorkerError
from rlpyt.runner import Hooks, Runner

REMOTE: Any = {"sampler": "ray", "workers": 2}
RESTART: Any = {**REMOTE, "on_worker_failure": "restart"}
NUMBERED = "small_sampling:Numbered"


@pytest.fixture(autouse=True)
def crew(monkeypatch) -> Any:
    """Replicas of this process, with losses where a test adds some."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(remote, "_remote_crew", lambda plan: Crew(plan, **given))
    return given


@pytest.mark.parametrize("kind", ["ppo", "lstm", "dqn-frames", "rainbow", "r2d1", "sac-lstm"])
def test_training_in_strict_mode_is_bit_equal_to_one_process(kind, tmp_path):
    alone = trained(kind, tmp_path, strict=True)
    assert alone == trained(kind, tmp_path, strict=True, sampler="ray", workers=3)


def test_a_run_goes_on_with_another_sampler_as_if_it_had_not_stopped(tmp_path):
    def stop(runner: Runner) -> None:
        if runner.episodes.env_steps >= 300:
            runner.stop.name = "interrupted"

    one, many = {"strict": True}, {"strict": True, **REMOTE}
    for kind, first, second in (("lstm", one, REMOTE), ("dqn-frames", many, {"sampler": "serial"})):
        expected = trained(kind, tmp_path, **one)
        folder = outcome_of(kind, tmp_path, hooks=Hooks(on_window=stop), **first).folder
        assert fingerprint(folder) != expected
        training.resume(folder, mode="quiet", sampler=second)
        assert fingerprint(folder) == expected


def windows(count: int, **sampler: Any) -> tuple[list[Any], Any]:
    parts = parts_of("dqn", NUMBERED, strict=True, **sampler)
    try:
        parts.sampler.reset()
        found = [rows_of(parts.sampler.collect(4, 0)) for _ in range(count)]
        return found, parts.sampler.metrics()
    finally:
        parts.close()


def test_a_lost_replica_costs_its_rows_until_another_has_its_place(crew):
    """Replica 1 is lost in window 2, and another is ready before window 5."""
    alone, _ = windows(8)
    crew |= {"losses": [(1, 2)], "back": 2}
    parts = parts_of("dqn", NUMBERED, strict=True, **RESTART)
    dead = []
    try:
        parts.sampler.reset()
        for w in range(8):
            rows = parts.sampler.collect(4, 0).rows
            assert same(
                [x[:, :2] for x in alone[w]], [x[:, :2] for x in rows_of(parts.sampler.window)]
            )
            assert np.array_equal(rows.first[1:], rows.last[:-1])
            if w < 2:
                assert same(alone[w], rows_of(parts.sampler.window))
            dead.append(bool(rows.last[:-1, 2:].all()))
            if not dead[-1]:
                assert whole(rows.observation[1:])
            if w == 3:
                assert parts.sampler.metrics() == {"workers/restarts": 1, "workers/dropped": 2}
        assert parts.sampler.metrics() == {"workers/restarts": 1, "workers/dropped": 0}
    finally:
        parts.close()
    assert dead == [False, False, True, True, True, False, False, False]


def test_where_all_are_lost_the_window_waits_for_another(crew):
    crew |= {"losses": [(0, 1), (1, 1)], "back": 4}
    found, told = windows(4, **RESTART)
    assert told == {"workers/restarts": 2, "workers/dropped": 0}
    assert all(whole(x[0][1:]) for x in (found[0], found[2], found[3]))


def test_restarts_are_bounded(crew):
    crew |= {"losses": [(1, w) for w in range(9)]}
    with pytest.raises(WorkerError, match=r"remote replica 1 was lost, after max_restarts=2"):
        windows(9, **RESTART, max_restarts=2)


def test_without_leave_to_go_on_a_lost_replica_ends_the_run(crew):
    crew |= {"losses": [(0, 1)]}
    with pytest.raises(WorkerError, match="remote replica 0 was lost"):
        windows(3, **REMOTE)


def test_a_dropped_replica_leaves_rows_that_nothing_learns_from(crew):
    crew |= {"losses": [(1, 1)]}
    parts = parts_of("dqn", NUMBERED, strict=True, **{**REMOTE, "on_worker_failure": "drop"})
    try:
        parts.sampler.reset()
        for w in range(4):
            rows = parts.sampler.collect(4, 0).rows
            assert w == 0 or rows.last[:, 2:].all()
        assert parts.sampler.metrics()["workers/dropped"] == 2
        saved = parts.sampler.snapshot()
    finally:
        parts.close()
    again = parts_of("dqn", NUMBERED, strict=True)
    try:
        assert set(again.sampler.restore(saved)) <= {2, 3}
        assert whole(again.sampler.collect(4, 0).rows.observation[2:])
    finally:
        again.close()
