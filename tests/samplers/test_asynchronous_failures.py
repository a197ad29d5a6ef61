"""What fails while a background process samples: who is named, and what goes on."""

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_sampling import (
    NUMBERED,
    SIDES,
    column,
    numbered,
    outcome_of,
    parts_of,
    whole,
)

from rlpyt.errors import WorkerError
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.background import Collector, _Work
from rlpyt.samplers.link import Link
from rlpyt.storage import Memory

pytestmark = pytest.mark.usefixtures("leaves_nothing")


CULPRIT = {"serial": "sampler", "workers": "worker 1", "replicated": "replica 1"}


def fail(side: str, tmp_path: Path, how: str, **options: Any) -> WorkerError:
    env = numbered(fails=2, at=40, how=how)
    with pytest.raises(WorkerError) as caught:
        outcome_of("dqn", tmp_path, env=env, asynchronous=True, **SIDES[side], **options)
    return caught.value


@pytest.mark.parametrize("side", SIDES)
def test_the_cause_of_a_failure_is_named_not_what_follows_from_it(side, tmp_path):  # B098
    error = fail(side, tmp_path, "raise")
    assert error.worker == CULPRIT[side]
    assert "a fault of its own" in str(error) and "environment 2" in str(error)


@pytest.mark.parametrize("side", SIDES)
def test_a_killed_process_ends_the_run_by_name(side, tmp_path):  # F26
    begun = time.monotonic()
    error = fail(side, tmp_path, "kill")
    assert error.worker == CULPRIT[side]
    assert "SIGKILL" in error.message and "environment 2, step" in error.message
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("side", SIDES)
def test_a_call_that_does_not_return_ends_by_its_time_out(side, tmp_path):
    error = fail(side, tmp_path, "hang", env_step_timeout=0.7)
    assert error.worker == CULPRIT[side]
    assert "did not answer for 0.7 s" in error.message and "environment 2, step" in error.message


@pytest.mark.parametrize("side", ["serial", "workers"])
def test_a_sampler_that_is_stopped_outside_of_environments_is_noticed(side):
    options: Any = {"asynchronous": True, "env_step_timeout": 1.0, **SIDES[side]}
    parts = parts_of("dqn", **options)
    sampler: Any = parts.sampler
    try:
        sampler.reset()
        sampler.collect(None, 0)
        time.sleep(0.5)  # it waits for the learner now, or will soon
        os.kill(sampler._branch.child.pid, signal.SIGSTOP)
        sampler.collect(None, 0)  # what is there
        with pytest.raises(WorkerError, match=r"sampler .*did not answer for 1 s.*SIGSTOP"):
            sampler.collect(None, 0)
    finally:
        parts.close()


def test_an_environment_may_take_its_time_to_start():
    kwargs = {"fails": 1, "at": 0, "how": "late"}
    parts = parts_of("dqn", NUMBERED, kwargs, asynchronous=True, env_step_timeout=1.0)
    try:
        parts.sampler.reset()
    finally:
        parts.close()


def test_a_restart_after_a_resume_begins_other_episodes():
    parts = parts_of("dqn", NUMBERED, asynchronous=True, on_worker_failure="restart")
    sampler: Any = parts.sampler
    try:
        sampler.reset()
        sampler.collect(None, 0)
        list(sampler.settle())
        saved = sampler.snapshot() | {"envs": {"starts": np.array(7)}}  # of a pool
        sampler.restore(saved)
        assert sampler._resets.tolist() == [7] * 4
        asked: list[Any] = []
        ask = sampler._ask

        def recorded(what: str, *given: Any) -> Any:
            asked.append((what, *given))
            return ask(what, *given)

        sampler._ask = recorded
        for _ in range(2):
            sampler._recover(WorkerError("sampler", "was killed"))
        starts = [given[1]["starts"] for what, *given in asked if what == "restore"]
        assert starts == [8, 9]  # the pool itself was reset with 7
    finally:
        parts.close()


def test_a_learner_that_raises_ends_the_others_and_is_the_cause(tmp_path):  # F25
    def on_window(runner: Runner) -> None:
        if runner.episodes.env_steps > 100:
            raise ZeroDivisionError("of the learner")

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="of the learner"):
        outcome_of("dqn", tmp_path, hooks=Hooks(on_window), asynchronous=True, **SIDES["workers"])
    assert time.monotonic() - begun < 20


def test_a_learner_that_hangs_lets_the_sampler_wait_at_its_limit():
    parts = parts_of("dqn", asynchronous=True, max_lag=3)
    try:
        parts.sampler.reset()
        parts.sampler.collect(None, 0)
        taken = parts.sampler._taken
        time.sleep(0.5)
        assert parts.sampler._turns.look() == taken + 3
        assert parts.sampler.window.block.answered <= parts.sampler._boundary + 3 * 16
    finally:
        parts.close()


def test_a_sampler_that_is_killed_again_and_again_is_replaced_and_no_row_is_torn(tmp_path):
    """Rows that carry checksums, read while the writer is killed in the midst of them (F27)."""
    kills, drawn = [0], [0]
    last: dict[int, int] = {}

    def on_window(runner: Runner) -> None:
        replay, sampler = runner.parts.replay, runner.parts.sampler
        if not drawn[0]:
            draw = replay.draw

            def checked(beta: float = 1.0) -> Any:
                items = draw(beta)
                assert whole(replay.window.rows.observation)
                rows = replay.window.rows
                assert np.array_equal(rows.first[1:], rows.last[:-1])
                assert (rows.observation[..., 0] == items.columns).all()
                drawn[0] += 1
                return items

            replay.draw = checked
        steps = runner.episodes.env_steps
        if steps // 120 > kills[0]:
            kills[0] += 1
            pid = sampler._branch.child.pid
            threading.Timer(0.003 * kills[0], os.kill, (pid, signal.SIGKILL)).start()
        last[0] = sampler._restarts

    outcome = outcome_of(
        "dqn",
        tmp_path,
        hooks=Hooks(on_window),
        loop={"env_steps": 900},
        env=numbered(delay=0.0003),
        algo={"replay_size": 120, "learning_starts": 60},
        asynchronous=True,
        on_worker_failure="restart",
        max_restarts=20,
    )
    assert last[0] >= 4 and drawn[0] > 50
    assert outcome.runner.parts.replay.ring.overtaken == 0
    assert 900 <= outcome.runner.episodes.env_steps < 904
    assert column(outcome.folder, "workers/restarts")[-1] == last[0]


@pytest.mark.parametrize("kind", ["dqn", "impala"])
def test_a_window_that_is_published_while_all_are_ended_is_collected_anew(kind):
    """A worker dies; what drives it finishes the window before it is ended itself."""
    options: Any = {"asynchronous": True, "on_worker_failure": "restart", "max_lag": 1}
    parts = parts_of(kind, NUMBERED, **options)
    sampler: Any = parts.sampler
    try:
        sampler.reset()
        begin = 0
        for w in range(3):
            window = sampler.collect(None, 4 * begin)
            assert window.start == begin
            assert whole(window.rows.observation)
            begin += window.horizon
            if w:
                continue
            close = sampler._branch.close

            def close_late(kill: bool = False, close: Any = close) -> None:
                end = time.monotonic() + 20
                while sampler._turns.look() == sampler._taken and time.monotonic() < end:
                    time.sleep(0.001)
                assert sampler._turns.look() > sampler._taken
                close(kill)

            sampler._branch.close = close_late
            sampler._recover(WorkerError("worker 1", "was killed"))
            sampler._branch.close = close
            assert sampler._turns.look() == sampler._taken
    finally:
        parts.close()


@pytest.mark.parametrize("side", ["workers", "replicated"])
@pytest.mark.parametrize("kind", ["dqn", "impala"])
def test_all_that_collect_begin_anew_where_one_was_killed(side, kind, tmp_path):
    once = tmp_path / "failed"
    outcome = outcome_of(
        kind,
        tmp_path,
        loop={"env_steps": 600},
        env=numbered(fails=2, at=40, how="kill", once=str(once)),
        asynchronous=True,
        on_worker_failure="restart",
        **SIDES[side],
    )
    assert once.exists()
    assert column(outcome.folder, "workers/restarts")[-1] == 1
    lengths = [episode.length for episode in outcome.runner.episodes.recent]
    assert len(lengths) > 20
    sums = [episode.raw_return for episode in outcome.runner.episodes.recent]
    assert sums == [n * (n + 1) / 2 for n in lengths]  # none is of two halves


def test_replicas_that_the_sampler_replaces_itself_count_too():
    """Those on other machines: the others go on meanwhile."""
    parts = parts_of(
        "dqn", NUMBERED, asynchronous=True, on_worker_failure="restart", max_restarts=3
    )
    sampler: Any = parts.sampler
    try:
        sampler.reset()
        sampler._link.tell_losses(2, 1)
        told = sampler.metrics()
        assert (told["workers/restarts"], told["workers/dropped"]) == (2, 1)
        sampler._recover(WorkerError("sampler", "was killed"))
        told = sampler.metrics()
        assert (told["workers/restarts"], told["workers/dropped"]) == (3, 0)
        with pytest.raises(WorkerError, match="max_restarts=3"):
            sampler._recover(WorkerError("sampler", "was killed"))
    finally:
        parts.close()


def test_what_is_lost_in_a_window_is_told_even_where_it_ends_the_sampler(monkeypatch):
    class Losing:
        losses = (2, 4)
        window = None

        def rows_for(self, missing: int) -> int:
            return 1

        def collect(self, horizon: int, env_steps: int) -> Any:
            raise WorkerError("remote replica 1", "was lost")

    link, parts = Link(Memory(), 1), parts_of("dqn", NUMBERED)
    try:
        nobody: Any = None
        work = _Work(nobody, Collector(Losing(), parts.agent), link, Memory(), 100)
        monkeypatch.setattr(work, "_newest", SimpleNamespace(take=lambda: 1))
        with pytest.raises(WorkerError, match="was lost"):
            work.collect()
    finally:
        parts.close()
    assert (link.restarts, link.dropped) == (2, 4)


def test_restarts_are_bounded(tmp_path):
    with pytest.raises(WorkerError, match=r"a fault of its own.*max_restarts=2 .*--max-restarts"):
        outcome_of(
            "dqn",
            tmp_path,
            env=numbered(fails=2, at=3),
            asynchronous=True,
            on_worker_failure="restart",
            max_restarts=2,
        )
