"""Replicated sampling: the same rows as one process alone, and no fault that is not told of."""

import os
import signal
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from small_sampling import (
    fingerprint,
    outcome_of,
    parts_of,
    rows_of,
    same,
    trained,
    whole,
)

from rlpyt import training
from rlpyt.algos import learner
from rlpyt.errors import WorkerError
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.replicated import ReplicatedSampler

pytestmark = pytest.mark.usefixtures("leaves_nothing")

KINDS = ["ppo", "ppo-pixels", "lstm", "normalized", "dqn", "rainbow", "r2d1", "sac", "sac-lstm"]
KINDS += ["sac-discrete"]
RESTART: Any = {"sampler": "replicated", "workers": 2, "on_worker_failure": "restart"}


@pytest.mark.parametrize("kind", KINDS)
def test_training_in_strict_mode_is_bit_equal_to_one_process(kind, tmp_path):
    alone = trained(kind, tmp_path, strict=True)
    workers = (1, 2, 3) if kind == "ppo" else (3,)  # of 4 environments: 3 have 1, 1 and 2
    for count in workers:
        assert alone == trained(kind, tmp_path, strict=True, sampler="replicated", workers=count)


def windows(count: int, kind: str = "normalized", **sampler: Any) -> list[list[np.ndarray]]:
    """Rows of some windows collected with the same weights."""
    return collect(parts_of(kind, **sampler), count)


def test_rows_in_default_mode_are_equal_to_rounding():
    alone = windows(2)
    split = windows(2, sampler="replicated", workers=4)
    for a, b in zip(alone, split, strict=True):
        assert all(np.allclose(x, y, atol=1e-3) for x, y in zip(a, b, strict=True))
    strict = windows(2, strict=True)
    padded = windows(2, strict=True, sampler="replicated", workers=4)
    assert all(map(same, strict, padded))
    assert not all(map(same, alone, split))  # the control: columns answered one by one


def test_weights_of_zero_reach_every_replica_with_the_next_window():  # B085
    parts = parts_of("normalized", sampler="replicated", workers=3)
    try:
        parts.sampler.reset()
        actions = [parts.sampler.collect(None, 0).rows.action[:-1].copy()]
        with torch.no_grad():
            for parameter in parts.agent.model.parameters():
                parameter.zero_()
        actions += [parts.sampler.collect(None, 0).rows.action[:-1].copy() for _ in range(2)]
        noise = parts_of("normalized").sampler.noise.rows(0, 3 * len(actions[0]))
    finally:
        parts.close()
    n = len(actions[0])
    for w, found in enumerate(actions):  # mean 0 and log-std 0: the action is the noise
        expected = noise[w * n : (w + 1) * n, :, -1:]
        assert np.allclose(found, expected, atol=1e-6) == (w > 0)


def test_weights_of_a_compiled_update_reach_every_replica(monkeypatch, tmp_path):  # B086
    # Traced as for the compiler, and run as it is: compiling takes half a minute.
    monkeypatch.setattr(learner, "Compiled", lambda function, *args: function)
    options: Any = {"strict": True, "loop": {"compile": "on", "env_steps": 400}}
    replicas: Any = {"sampler": "replicated", "workers": 2}
    one = fingerprint(outcome_of("ppo", tmp_path, **options).folder)
    assert one == fingerprint(outcome_of("ppo", tmp_path, **options, **replicas).folder)


def test_statistics_and_exploration_of_a_window_reach_every_replica():
    def collected(**sampler: Any) -> list[list[np.ndarray]]:
        parts = parts_of("rainbow", strict=True, **sampler)
        try:
            parts.sampler.reset()
            steps = 0, 500, 100_000  # epsilon, and the noise of layers
            return [rows_of(parts.sampler.collect(4, env_steps)) for env_steps in steps]
        finally:
            parts.close()

    assert all(map(same, collected(), collected(sampler="replicated", workers=3)))


def test_numbers_that_come_with_the_end_of_an_episode_arrive_with_their_row_and_column():
    def infos(**sampler: Any) -> list[Any]:
        parts, found = parts_of("ppo", "small_sampling:Numbered", strict=True, **sampler), []
        try:
            parts.sampler.reset()
            for _ in range(3):
                window = parts.sampler.collect(None, 0)
                assert whole(window.rows.observation)
                assert all(window.rows.last[at] for at in parts.sampler.infos)
                found.append(dict(parts.sampler.infos))
        finally:
            parts.close()
        return found

    alone = infos()
    assert sum(map(len, alone)) > 5
    assert infos(sampler="replicated", workers=3) == alone


def test_a_snapshot_fits_one_process_and_replicas():
    def after(saved: Any, **sampler: Any) -> tuple[Any, list[list[np.ndarray]]]:
        parts = parts_of("lstm", strict=True, **sampler)
        try:
            if saved is None:
                parts.sampler.reset()
            else:
                assert parts.sampler.restore(saved) == []
            found = [rows_of(parts.sampler.collect(None, 0)) for _ in range(2)]
            return parts.sampler.snapshot(), found
        finally:
            parts.close()

    replicas: Any = {"sampler": "replicated", "workers": 3}
    one, first = after(None)
    several, again = after(None, **replicas)
    assert all(map(same, first, again))
    expected = after(one)[1]
    for saved in (one, several):
        for sampler in ({}, replicas):
            assert all(map(same, after(saved, **sampler)[1], expected))


def test_a_snapshot_of_a_pool_begins_other_episodes():
    parts = parts_of("ppo", sampler="replicated", workers=2)
    try:
        parts.sampler.reset()
        parts.sampler.collect(None, 0)
        saved = parts.sampler.snapshot() | {"envs": {"starts": np.array(3)}}
        last = parts.sampler.window.rows.last[-1]
        assert parts.sampler.restore(saved) == np.flatnonzero(~last).tolist()
        assert parts.sampler.snapshot()["envs"]["resets"].tolist() == [3] * 4
    finally:
        parts.close()


def test_a_run_goes_on_with_another_sampler_as_if_it_had_not_stopped(tmp_path):
    def stop(runner: Runner) -> None:
        if runner.episodes.env_steps >= 300:
            runner.stop.name = "interrupted"

    one: Any = {"strict": True}
    replicas: Any = {"sampler": "replicated", "workers": 3}
    for kind in ("lstm", "sac"):
        expected = trained(kind, tmp_path, **one)
        for first, second in ((one, replicas), (one | replicas, {"sampler": "serial"})):
            hooks = Hooks(on_window=stop)
            folder = outcome_of(kind, tmp_path, hooks=hooks, **first).folder
            assert fingerprint(folder) != expected
            training.resume(folder, mode="quiet", sampler=second)
            assert fingerprint(folder) == expected


# Faults.


def failing(how: str, at: int = 40, **sampler: Any) -> Any:
    kwargs = {"fails": 2, "at": at, "how": how}
    options: Any = {"sampler": "replicated", "workers": 2, **sampler}
    return parts_of("ppo", "small_sampling:Numbered", kwargs, **options)


def collect(parts: Any, count: int) -> list[Any]:
    try:
        parts.sampler.reset()
        return [rows_of(parts.sampler.collect(None, 0)) for _ in range(count)]
    finally:
        parts.close()


def test_an_environment_that_raises_is_named_with_its_traceback():
    with pytest.raises(WorkerError) as caught:
        collect(failing("raise"), 2)
    error = caught.value
    assert error.worker == "replica 1" and error.columns == (2, 3)
    assert "a fault of its own" in str(error) and "in environment 2 of 4" in str(error)
    assert "in step" in str(error) and "Traceback" in str(error)


def test_a_constructor_that_raises_is_named():
    with pytest.raises(WorkerError, match="(?s)replica 1 .*fault of its own.*while environment 2"):
        collect(failing("raise", at=0), 1)


def test_a_killed_replica_is_noticed_at_once_with_its_signal():
    begun = time.monotonic()
    with pytest.raises(WorkerError, match=r"replica 1 .*killed by SIGKILL.*environment 2, step"):
        collect(failing("kill"), 2)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("how", ["hang", "stop"])
def test_a_call_that_does_not_return_ends_by_its_time_out(how):
    parts = failing(how, env_step_timeout=0.5)
    begun = time.monotonic()
    with pytest.raises(
        WorkerError,
        match=r"replica 1 .*not answer for 0.5 s.*ment 2.*--env-step-timeout",
    ):
        collect(parts, 2)
    assert time.monotonic() - begun < 20


def test_a_replica_that_is_stopped_between_calls_ends_by_the_time_out_too():
    parts = parts_of("ppo", sampler="replicated", workers=2, env_step_timeout=1.0)
    try:
        parts.sampler.reset()
        parts.sampler.collect(None, 0)
        os.kill(parts.sampler._staff.crew().children[1].pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match=r"replica 1 .*did not answer for 1 s.*SIGSTOP"):
            parts.sampler.collect(None, 0)
    finally:
        parts.close()


def test_a_start_that_takes_too_long_is_ended():
    with pytest.raises(WorkerError, match=r"replica \d .*did not answer for 1 s.*--start-timeout"):
        collect(failing("hang", at=0, start_timeout=1.0), 1)


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_replica_is_replaced_and_its_episodes_cut(how, tmp_path):
    kwargs = {"fails": 2, "at": 40, "how": how, "once": str(tmp_path / "failed")}
    alone = collect(parts_of("ppo", "small_sampling:Numbered", strict=True), 3)
    parts = parts_of("ppo", "small_sampling:Numbered", kwargs, strict=True, **RESTART)
    try:
        parts.sampler.reset()
        for w in range(3):
            rows = parts.sampler.collect(None, 0).rows
            assert whole(rows.observation)
            assert np.array_equal(rows.first[1:], rows.last[:-1])
            assert not rows.cut[:, :2].any()
            cut = np.argwhere(rows.cut).tolist()
            assert not cut or (w == 1 and all(t == 1 for t, _ in cut))
            if w == 1:
                assert cut
        told = parts.sampler.metrics()
        assert told["workers/restarts"] == 1 and told["workers/dropped"] == 0
        others = collect_again(parts)
    finally:
        parts.close()
    assert same([x[:, :2] for x in alone[0]], [x[:, :2] for x in others])


def collect_again(parts: Any) -> list[np.ndarray]:
    """The first window, begun anew."""
    parts.sampler.reset()
    return rows_of(parts.sampler.collect(None, 0))


def test_restarts_are_bounded():
    parts = failing("raise", at=3, on_worker_failure="restart", max_restarts=2)
    with pytest.raises(WorkerError, match=r"a fault of its own.*max_restarts=2 .*--max-restarts"):
        collect(parts, 5)


def test_a_dropped_replica_leaves_rows_that_nothing_learns_from():
    parts = failing("kill", on_worker_failure="drop", strict=True)
    try:
        parts.sampler.reset()
        for w in range(4):
            rows = parts.sampler.collect(None, 0).rows
            assert whole(rows.observation[:, :2])
            if w == 1:
                assert rows.last[:, 2:].all()
                assert (rows.cut & rows.first & rows.truncated)[1:, 2:].all()
        told = parts.sampler.metrics()
        assert told["workers/dropped"] == 2 and told["workers/restarts"] == 0
        saved = parts.sampler.snapshot()
        resets = [x["envs"]["resets"].tolist() for x in (saved, parts.sampler.snapshot())]
        assert resets[0] == resets[1]  # to save changes nothing
    finally:
        parts.close()
    again = parts_of("ppo", "small_sampling:Numbered", strict=True)
    try:
        assert set(again.sampler.restore(saved)) <= {2, 3}
        assert whole(again.sampler.collect(None, 0).rows.observation[2:])
    finally:
        again.close()


def test_the_last_replica_cannot_be_dropped():
    parts = parts_of(
        "ppo",
        "small_sampling:Numbered",
        {"fails": 0, "at": 3},
        sampler="replicated",
        workers=1,
        on_worker_failure="drop",
    )
    with pytest.raises(WorkerError, match="fault of its own"):
        collect(parts, 1)


def test_closing_twice_and_after_a_death_says_nothing():
    parts = parts_of("ppo", sampler="replicated", workers=2)
    parts.sampler.reset()
    assert isinstance(parts.sampler, ReplicatedSampler)
    os.kill(parts.sampler._staff.crew().children[0].pid, signal.SIGKILL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts.close()
        parts.close()


def test_a_slow_replica_is_named():
    kwargs = {"delay": 0.005, "slow": 3}
    parts = parts_of("ppo", "small_sampling:Numbered", kwargs, sampler="replicated", workers=2)
    try:
        parts.sampler.reset()
        parts.sampler.metrics()  # a line of the log begins
        parts.sampler.collect(None, 0)
        told = parts.sampler.metrics()
    finally:
        parts.close()
    assert told["workers/slowest"] == 1
    assert told["workers/slowest_share"] > 0.2


def test_a_run_that_was_never_begun_is_closed():
    parts_of("ppo", sampler="replicated", workers=2).close()
