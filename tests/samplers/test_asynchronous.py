"""Sampling in the background: the ratio holds, nothing is torn, every process is told of."""

import itertools
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_sampling import (
    NUMBERED,
    SIDES,
    column,
    descendants,
    numbered,
    outcome_of,
    parts_of,
    whole,
)

from rlpyt import checkpoint, training
from rlpyt.logging.episodes import Episodes
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.asynchronous import AsynchronousSampler
from rlpyt.samplers.background import env_steps_of

pytestmark = pytest.mark.usefixtures("leaves_nothing")

ROOT = Path(__file__).parents[2]


def test_steps_are_counted_as_the_learner_counts_them():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shape = 6, 3
        flags = {name: rng.random(shape) < 0.3 for name in ("terminated", "truncated", "cut")}
        first = np.roll(flags["terminated"] | flags["truncated"], 1, 0) | flags["cut"]
        flags["truncated"][:-1] |= flags["cut"][1:]
        last = flags["terminated"] | flags["truncated"]
        fields = {"reward": np.zeros(shape, np.float32), "first": first, "last": last}
        rows: Any = SimpleNamespace(**flags, **fields, env_info=())
        counter = Episodes(3)
        counter.count(rows)
        assert env_steps_of(rows) == counter.env_steps


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [*itertools.product(["dqn", "impala"], SIDES), ("r2d1", "serial"), ("sac", "serial")],
)
def test_runs_end_with_the_right_number_of_steps_and_updates(kind, sampler, tmp_path):  # B089
    begun: list[int] = []

    def on_window(runner: Runner) -> None:
        begun.append(len(descendants()))

    options: Any = {} if sampler == "serial" else {"sampler": sampler, "workers": 2}
    outcome = outcome_of(
        kind,
        tmp_path,
        hooks=Hooks(on_window),
        loop={"env_steps": 600},
        asynchronous=True,
        **options,
    )
    steps = outcome.runner.episodes.env_steps
    assert max(begun) >= (1 if sampler == "serial" else 3)
    assert column(outcome.folder, "sampler/version_lag_max")
    if kind == "impala":
        horizon = outcome.runner.run.algo.horizon
        assert 600 <= steps < 600 + 4 * horizon
        assert outcome.runner.parts.algorithm.learner.updates == -(-steps // (4 * horizon))
        return
    assert 600 <= steps < 604
    assert abs(column(outcome.folder, "replay/ratio")[-1] / 4.0 - 1) < 0.05


def paced(tmp_path: Path, delay: float, learning: float, **sampler: Any) -> Any:
    """A run whose environments or whose updates take longer."""
    parts: list[Any] = []

    def on_window(runner: Runner) -> None:
        algorithm: Any = runner.parts.algorithm
        if not parts and learning:
            learn = algorithm.learn

            def slow(*args: Any) -> Any:
                time.sleep(learning)
                return learn(*args)

            algorithm.learn = slow
        parts.append(algorithm)

    return outcome_of(
        "dqn",
        tmp_path,
        hooks=Hooks(on_window),
        loop={"env_steps": 600, "log_interval": 100},
        env=numbered(delay=delay),
        algo={"replay_ratio": 4.0},
        asynchronous=True,
        **sampler,
    )


@pytest.mark.parametrize("slow", ["learner", "sampler"])
def test_either_side_is_throttled_and_the_replay_ratio_holds(slow, tmp_path):  # B091
    times = {"learner": (0.0, 0.01), "sampler": (0.002, 0.0)}[slow]
    outcome = paced(tmp_path, *times, max_lag=2)
    folder = outcome.folder
    assert abs(column(folder, "replay/ratio")[-1] / 4.0 - 1) < 0.05
    learner, sampler = (column(folder, f"time/wait_{x}")[2:-1] for x in ("learner", "sampler"))
    waits, other = (sampler, learner) if slow == "learner" else (learner, sampler)
    assert np.mean(waits) > 0.3 > np.mean(other)
    assert max(column(folder, "sampler/version_lag_max")) <= 3  # lag + 1


def test_a_lag_of_one_window_is_enough(tmp_path):
    outcome = paced(tmp_path, 0.0, 0.0, max_lag=1)
    assert 600 <= outcome.runner.episodes.env_steps < 604
    assert max(column(outcome.folder, "sampler/version_lag_max")) <= 2


def test_one_slow_environment_gets_new_weights_at_every_window(tmp_path):  # B092
    outcome = outcome_of(
        "dqn",
        tmp_path,
        loop={"env_steps": 600},
        env=numbered(delay=0.005, slow=3) | {"num_envs": 8},
        asynchronous=True,
        record_schedule=True,
    )
    lines = (outcome.folder / "schedule-0.txt").read_text().splitlines()
    found = [tuple(map(int, line.split())) for line in lines]
    versions = [version for _, _, *versions in found for version in versions]
    assert versions == sorted(versions)
    late = versions[len(versions) // 2 :]
    assert len(set(late)) > len(late) / 5  # it is the sampler that is slow
    assert all(published - min(x) <= 5 for _, published, *x in found)


def test_many_environments_go_into_a_ring_that_is_almost_full(tmp_path):  # B097
    outcome = outcome_of(
        "dqn",
        tmp_path,
        loop={"env_steps": 6000},
        env={"env": "small_sampling:ends_together", "num_envs": 128},
        algo={"replay_size": 1024, "learning_starts": 512, "replay_ratio": 0.5},
        asynchronous=True,
    )
    assert 6000 <= outcome.runner.episodes.env_steps < 6128


def test_priorities_of_a_ring_that_is_written_meanwhile_stay_sound(tmp_path):  # B095
    outcome = outcome_of(
        "r2d1",
        tmp_path,
        loop={"env_steps": 1500},
        env=numbered(),
        algo={"replay_size": 200, "learning_starts": 100},
        asynchronous=True,
    )
    replay = outcome.runner.parts.replay
    assert replay is not None
    selector: Any = replay.selector
    selector.sync()
    leaves = selector._tree.leaves
    assert np.isclose(selector._tree.total, leaves.sum(), rtol=1e-12)
    _, counts = replay.ring.starts(selector.length)
    born = leaves > 0
    assert 0 < born.sum() <= int(counts[0]) * 4
    assert replay.ring.overtaken == 0


def test_what_is_saved_is_at_rest_and_of_one_time(tmp_path):
    outcome = outcome_of(
        "dqn", tmp_path, loop={"env_steps": 900, "checkpoint_interval": 200}, asynchronous=True
    )
    folder = outcome.folder / "checkpoints"
    names = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    assert len(names) >= 4
    for name in names:
        state, _ = checkpoint.load(folder / f"{name:012d}")
        answered = state["replay"]["blocks"][0]["answered"]
        assert answered == state["window"]["start"]
        assert int(state["episodes"]["counts"][0]) == name
        assert len(state["envs"]["resets"]) == 4


def test_it_goes_on_where_it_was_stopped(tmp_path):
    def stop(runner: Runner) -> None:
        if runner.episodes.env_steps >= 400:
            runner.stop.name = "interrupted"

    kwargs: Any = {"loop": {"env_steps": 900, "name": "run"}, "asynchronous": True}
    outcome = outcome_of("dqn", tmp_path, hooks=Hooks(stop), env=numbered(), **kwargs)
    assert outcome.status == "interrupted"
    steps = outcome.runner.episodes.env_steps
    # Of the windows taken at once, and of those that come until it rests, `max_lag` and one more.
    assert 400 <= steps < 400 + 2 * 5 * 16
    seen: list[np.ndarray] = []

    def on_window(runner: Runner) -> None:
        ring = runner.parts.replay.ring
        lo, answered = (int(x[0]) for x in ring.bounds())
        seen.append(ring.rows.observation[np.arange(max(lo, 0), answered) % ring.num_slots].copy())

    again = training.resume(tmp_path / "run", mode="quiet", hooks=Hooks(on_window))
    assert again.status == "finished"
    assert 900 <= again.runner.episodes.env_steps < 904
    assert all(map(whole, seen))
    assert len(seen[0]) >= steps // 4  # the replay was there
    assert again.runner.episodes.total >= outcome.runner.episodes.total


@pytest.mark.parametrize("kind", ["r2d1", "impala"])
def test_a_run_goes_on_with_another_sampler(kind, tmp_path):
    def stop(runner: Runner) -> None:
        if runner.episodes.env_steps >= 300:
            runner.stop.name = "interrupted"

    sampler: Any = {"asynchronous": True}
    folder = outcome_of(kind, tmp_path, hooks=Hooks(stop), **sampler).folder
    for change in ({"asynchronous": False}, {"asynchronous": True} | SIDES["replicated"]):
        before = checkpoint.steps(folder / "checkpoints")
        again = training.resume(
            folder, env_steps=before + 300, mode="quiet", hooks=Hooks(None), sampler=change
        )
        assert again.status == "finished"
        assert again.runner.episodes.env_steps >= before + 300


def test_a_snapshot_is_refused_while_the_sampler_is_at_work():
    parts = parts_of("dqn", asynchronous=True)
    try:
        parts.sampler.reset()
        window = parts.sampler.collect(None, 0)
        with pytest.raises(RuntimeError, match="is settled before"):
            parts.sampler.snapshot()
        assert all(x.start > window.start for x in parts.sampler.settle())
        assert set(parts.sampler.snapshot()) == {"window", "envs"}
    finally:
        parts.close()


def test_a_sampler_rests_whatever_comes_with_windows_that_nobody_has_taken():
    kwargs = {"numbers": 1500}
    parts = parts_of("dqn", NUMBERED, kwargs, asynchronous=True, max_lag=30)
    sampler: Any = parts.sampler
    try:
        sampler.reset()
        sampler.collect(None, 0)
        end = time.monotonic() + 10
        while sampler._turns.look() < sampler._taken + 30 and time.monotonic() < end:
            time.sleep(0.01)
        (window,) = sampler.settle()
        assert window.horizon >= 30
        ends = {(t, b) for t, b in np.argwhere(window.rows.last).tolist() if t}
        assert sampler.infos.keys() == ends
        assert {len(numbers) for numbers in sampler.infos.values()} == {1501}
    finally:
        parts.close()


def test_closing_twice_and_after_a_death_says_nothing():
    parts = parts_of("dqn", asynchronous=True)
    parts.sampler.reset()
    assert isinstance(parts.sampler, AsynchronousSampler)
    os.kill(parts.sampler._branch.child.pid, signal.SIGKILL)
    parts.close()
    parts.close()


def started(tmp_path: Path, mark: str) -> subprocess.Popen[bytes]:
    """A run from the command line, in which what collects has begun."""
    argv = "train dqn --env CartPole-v1 --asynchronous --sampler workers --workers 2 --name run"
    more = "--env-steps 1M --log-interval 100 --checkpoint-interval 0 --eval-episodes 0"
    run = subprocess.Popen(
        [sys.executable, "-m", "rlpyt", *argv.split(), *more.split(), "--compile", "off"],
        cwd=tmp_path,
        env=os.environ | {"RLPYT_TEST_MARK": mark, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lines, end = tmp_path / "runs/run/progress.csv", time.monotonic() + 90
    while not (lines.exists() and len(lines.read_text().splitlines()) > 2):
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    return run


def marked(mark: str) -> set[int]:
    """Processes that inherited a mark in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def gone_in(seconds: float, mark: str) -> bool:
    end = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.02)
    return not marked(mark)


def test_nothing_is_left_when_the_main_process_is_killed(tmp_path):
    run = started(tmp_path, mark := uuid.uuid4().hex)
    try:
        assert len(marked(mark)) >= 4  # the learner, the sampler, its workers
        run.kill()
        run.wait(10)
        assert gone_in(15, mark)
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_saves_what_has_come_and_leaves(tmp_path):  # B094
    run = started(tmp_path, mark := uuid.uuid4().hex)
    try:
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
        assert gone_in(15, mark)
        folder = tmp_path / "runs/run"
        state, meta = checkpoint.load(folder / "checkpoints")
        assert int(state["episodes"]["counts"][0]) == meta["env_steps"] > 0
        assert state["replay"]["blocks"][0]["answered"] == state["window"]["start"]
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
