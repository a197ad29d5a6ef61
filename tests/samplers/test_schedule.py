"""An asynchronous run is its schedule's: collected in turn with the learning it is the same."""

from pathlib import Path
from typing import Any

import pytest
from small_sampling import column, fingerprint, outcome_of

from rlpyt import training
from rlpyt.errors import UsageError
from rlpyt.runner import Hooks, Runner
from rlpyt.samplers.schedule import Found, Schedule

SIDES: dict[str, Any] = {
    "serial": {},
    "workers": {"sampler": "workers", "workers": 2, "groups": 2},
    "replicated": {"sampler": "replicated", "workers": 3},
}
CASES = [
    ("dqn", "serial"),
    ("dqn-frames", "workers"),
    ("td3", "replicated"),  # with a normalizer
    ("r2d1", "serial"),
    ("sac-lstm", "serial"),
    ("impala", "workers"),
    ("impala", "serial"),
    ("appo-lstm", "replicated"),
]
LOOP = {"env_steps": 600, "checkpoint_interval": 250, "log_interval": 100}


def recorded(kind: str, folder: Path, **options: Any) -> Path:
    """Run asynchronously; returns the run's folder."""
    loop = LOOP | {"name": "asynchronous", "eval_episodes": 2, "eval_interval": 200}
    options = {"strict": True, "asynchronous": True, "record_schedule": True} | options
    return outcome_of(kind, folder, loop=loop, **options).folder


def replayed(kind: str, folder: Path, schedule: Path, **given: Any) -> Path:
    """Run by a schedule; returns the run's folder."""
    loop = LOOP | {"name": "replayed", "eval_episodes": 2, "eval_interval": 200}
    options: Any = {"strict": True, "asynchronous": True, "schedule": str(schedule)} | given
    return outcome_of(kind, folder, loop=loop, **options).folder


@pytest.mark.parametrize(("kind", "side"), CASES)
def test_a_run_is_bit_equal_to_its_schedule_replayed_in_one_process(kind, side, tmp_path):
    one = recorded(kind, tmp_path, **SIDES[side])
    schedule = Schedule.read(one / "schedule-0.txt")
    lags = [x.published - version for x in schedule.found for version in x.versions]
    assert max(lags) > 0  # it did collect while it learned
    other = replayed(kind, tmp_path, one / "schedule-0.txt")
    assert fingerprint(one) == fingerprint(other)
    for name in ("loss/q", "loss/value", "eval/return_mean", "sampler/version_lag"):
        assert column(one, name) == column(other, name)


def test_another_schedule_gives_another_run(tmp_path):
    soon: Any = {"algo": {"random_steps": 100, "learning_starts": 100}}
    one = recorded("sac", tmp_path, **soon)
    lines = (one / "schedule-0.txt").read_text().splitlines()
    other = tmp_path / "other.txt"
    words = [line.split() for line in lines]
    i = max(i for i, x in enumerate(words) if x[1] != x[2])
    words[i][2] = words[i][1]  # a window of newer weights
    other.write_text("\n".join(map(" ".join, words)) + "\n")
    assert fingerprint(one) != fingerprint(replayed("sac", tmp_path, other, **soon))


def test_a_schedule_of_another_run_is_refused(tmp_path):
    one = recorded("dqn", tmp_path)
    lines = (one / "schedule-0.txt").read_text().splitlines()
    short = tmp_path / "short.txt"
    short.write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    with pytest.raises(RuntimeError, match="schedule is that of another run"):
        replayed("dqn", tmp_path, short)


def test_a_resumed_part_has_a_schedule_of_its_own(tmp_path):
    def stop(runner: Runner) -> None:
        if runner.episodes.env_steps >= 300:
            runner.stop.name = "interrupted"

    hooks = Hooks(on_window=stop)
    run = outcome_of(
        "dqn",
        tmp_path,
        hooks=hooks,
        loop=LOOP | {"name": "run"},
        strict=True,
        asynchronous=True,
        record_schedule=True,
    ).folder
    again = tmp_path / "again"
    again.mkdir()
    for path in sorted(run.rglob("*")):
        to = again / path.relative_to(run)
        if path.is_dir():
            to.mkdir()
        elif path.name != "lock":
            to.write_bytes(path.read_bytes())
    training.resume(run, mode="quiet")
    (second,) = set(run.glob("schedule-*.txt")) - {run / "schedule-0.txt"}
    training.resume(again, mode="quiet", sampler={"schedule": str(second)})
    assert fingerprint(run) == fingerprint(again)


@pytest.mark.parametrize("text", [None, "0 3\n", "0 1 1\n0 x 2\n"])
def test_a_file_that_is_no_schedule_is_refused(text, tmp_path):
    path = tmp_path / "schedule-0.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="cannot be read|is not a line of a schedule"):
        Schedule.read(path)


def test_a_file_holds_what_was_found(tmp_path):
    found = [Found(False, 1, (1,)), Found(False, 2, (1, 2)), Found(True, 2, (2, 2, 2))]
    path = tmp_path / "folder" / "schedule.txt"
    written = Schedule(path)
    for x in found:
        written.record(x)
    assert Schedule.read(path).found == found
    kept = Schedule()
    for x in found:
        kept.record(x)
    assert kept.found == found
