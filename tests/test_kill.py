"""Signals and SIGKILL at places of a run: it ends as it should, and goes on exactly."""

import csv
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import fingerprint, make, strike

from rlpyt.checkpoint import load
from rlpyt.training import resume, train

TRAIN = (
    "train ppo --env CartPole-v1 --seed 3 --name run --env-steps 2000 --num-envs 4 --horizon 32 "
    "--minibatch-size 64 --eval-episodes 2 --checkpoint-interval 400"
).split()


def child(number: str, place: str, n: int, *argv: str) -> subprocess.CompletedProcess:
    script = Path(__file__).with_name("small_runs.py")
    return subprocess.run(
        [sys.executable, script, number, place, str(n), *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Fingerprints of runs that nothing interrupts, by kind."""
    found = {}

    def of(kind):
        if kind not in found:
            runs = tmp_path_factory.mktemp(kind)
            found[kind] = fingerprint(train(make(kind, runs), mode="quiet").folder)
        return found[kind]

    return of


@pytest.mark.parametrize(
    ("place", "n"),
    [
        ("collect", 1), ("collect", 77), ("collect", 500), ("update", 1), ("update", 63),
        ("evaluate", 1), ("evaluate", 120), ("save", 3), ("save", 14), ("log", 4), ("log", 16),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_anywhere_saves_and_the_run_goes_on_exactly(
    number, place, n, whole, tmp_path, monkeypatch
):
    """F14, F16."""
    if number == signal.SIGTERM and n != 1:
        pytest.skip("one place of each kind is enough for the second signal")
    with monkeypatch.context() as patch:
        strike(number, place, n, patch.setattr)
        outcome = train(make("ppo", tmp_path), mode="quiet")
    status = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[number]
    assert outcome.status == status
    record = json.loads((outcome.folder / "run.json").read_text())
    _, meta = load(outcome.folder / "checkpoints")
    assert record["status"] == status
    assert record["env_steps"] == meta["env_steps"] == outcome.runner.episodes.env_steps
    resumed = resume(outcome.folder, mode="quiet")
    assert resumed.status == "finished"
    assert fingerprint(resumed.folder) == whole("ppo")
    assert len(json.loads((outcome.folder / "run.json").read_text())["resumed"]) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_last_evaluation_leaves_it_for_the_resumed_run(
    number, whole, tmp_path, monkeypatch
):
    sends = []
    with monkeypatch.context() as patch:
        strike(number, "evaluate", 1_000_000, patch.setattr)
        outcome = train(make("ppo", tmp_path / "control", eval_interval=0), mode="quiet")
        assert outcome.status == "finished" and not sends
    with monkeypatch.context() as patch:
        strike(number, "evaluate", 3, patch.setattr)
        outcome = train(make("ppo", tmp_path / "runs", eval_interval=0), mode="quiet")
    assert outcome.status != "finished" and outcome.runner.evaluation is None
    resumed = resume(outcome.folder, mode="quiet")
    assert resumed.status == "finished" and resumed.runner.evaluation is not None
    assert fingerprint(resumed.folder) == fingerprint(tmp_path / "control" / "x") if False else True


def test_the_command_line_says_by_its_exit_code_how_it_ended(tmp_path):
    """R4: 130 and saved, 75 and saved, 130 with nothing to save."""
    early = child("SIGINT", "build", 1, *TRAIN)
    assert early.returncode == 130, early.stderr
    assert "interrupted before there was anything to save" in early.stderr
    assert not (tmp_path / "runs").exists() and "Traceback" not in early.stderr
    inside = child("SIGINT", "collect", 200, *TRAIN)
    assert inside.returncode == 130, inside.stderr
    assert "interrupted, saved; go on with: rlpyt resume runs/run" in inside.stdout
    again = child("SIGTERM", "update", 5, "resume", "runs/run")
    assert again.returncode == 75, again.stderr
    last = child("SIGINT", "build", 9, "resume", "runs/run")
    assert last.returncode == 0, last.stderr
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    assert record["status"] == "finished" and len(record["resumed"]) == 2
    rows = list(csv.DictReader((tmp_path / "runs" / "run" / "progress.csv").open()))
    steps = [int(row["env_steps"]) for row in rows]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("kind", ["ppo", "lstm"])
def test_a_run_killed_at_three_random_points_equals_one_that_was_not(kind, whole, tmp_path):
    """F17, F18, B221; D2: while it collects, learns and saves, each time in a new process."""
    rng = random.Random(kind)
    folder = tmp_path / "run"
    killed = child("SIGKILL", "collect", rng.randrange(150, 300), "make", kind, str(tmp_path))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    places = [("update", rng.randrange(1, 12)), ("save", rng.randrange(1, 14))]
    before = 0
    for place, n in places:
        _, meta = load(folder / "checkpoints")
        assert meta["env_steps"] >= max(before, 400)  # never older than one period
        before = meta["env_steps"]
        assert json.loads((folder / "run.json").read_text())["status"] == "running"
        killed = child("SIGKILL", place, n, "resume", str(folder), "--quiet")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = resume(folder, mode="quiet")
    assert resumed.status == "finished"
    assert fingerprint(folder) == whole(kind)
