"""Signals and SIGKILL at places of a run: it ends as it should, and goes on exactly."""

import csv
import json
import os
import random
import signal
from functools import partial

import pytest
import small_runs
from forked import Command, start
from small_runs import fingerprint, make, strike

from rlpyt.checkpoint import load
from rlpyt.cli import main
from rlpyt.runner import Hooks
from rlpyt.samplers.sampler import Sampler
from rlpyt.training import resume, train

TRAIN = [
    *(
        "train",
        "ppo",
        "--env",
        "CartPole-v1",
        "--seed",
        "3",
        "--name",
        "run",
        "--env-steps",
        "2000",
    ),
    *("--num-envs", "4", "--horizon", "32", "--minibatch-size", "64", "--eval-episodes", "2"),
]


def command(number: signal.Signals, place: str, n: int, *argv: str) -> tuple[int, str, str]:
    """Exit code and output of a command line of rlpyt, struck by a signal."""
    with Command(*argv, before=partial(strike, number, place, n, setattr)) as process:
        out, err = process.communicate(timeout=60)
        return process.wait(0), out, err


def child(*arguments):
    """Run `small_runs.child` in a process of its own; its exit code."""
    process = start(small_runs.child, *arguments)
    process.join(60)
    assert not process.is_alive()
    return process.exitcode


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


PLACES = [
    (signal.SIGINT, place, n)
    for place, counts in {
        "collect": (1, 77, 500),
        "update": (1, 63),
        "evaluate": (1, 120),
        "save": (3, 14),
        "log": (4, 16),
    }.items()
    for n in counts
]


@pytest.mark.parametrize(("number", "place", "n"), [*PLACES, (signal.SIGTERM, "update", 9)])
def test_a_signal_anywhere_saves_and_the_run_goes_on_exactly(
    number, place, n, whole, tmp_path, monkeypatch
):
    """F14, F16."""
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


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_window_ends_a_run_that_then_begins_anew(
    number, algo, whole, tmp_path, monkeypatch
):
    """F14, F16: environments may take long to be reset, and there is nothing to save yet."""
    reset = Sampler.reset

    def struck(sampler):
        reset(sampler)
        os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(Sampler, "reset", struck)
        outcome = train(make(algo, tmp_path), mode="quiet")
    assert outcome.status == {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[number]
    assert not outcome.saved
    resumed = resume(outcome.folder, mode="quiet")
    assert resumed.status == "finished"
    assert fingerprint(resumed.folder) == whole(algo)


def test_a_signal_during_the_last_evaluation_leaves_it_for_the_resumed_run(tmp_path, monkeypatch):
    control = train(make("ppo", tmp_path / "control", eval_interval=0), mode="quiet")
    with monkeypatch.context() as patch:
        strike(signal.SIGINT, "evaluate", 3, patch.setattr)
        outcome = train(make("ppo", tmp_path / "runs", eval_interval=0), mode="quiet")
    assert outcome.status == "interrupted" and outcome.runner.evaluations.newest is None
    resumed = resume(outcome.folder, mode="quiet")
    assert resumed.status == "finished" and resumed.runner.evaluations.newest is not None
    assert fingerprint(resumed.folder) == fingerprint(control.folder)


def test_the_command_line_says_by_its_exit_code_how_it_ended(tmp_path):
    """R4: 130 with nothing to save, 75 and saved."""
    code, _, err = command(signal.SIGINT, "build", 1, *TRAIN)
    assert code == 130, err
    assert "interrupted before there was anything to save" in err
    assert not (tmp_path / "runs").exists() and "Traceback" not in err
    code, out, err = command(signal.SIGTERM, "collect", 200, *TRAIN)
    assert code == 75, err
    assert "terminated, saved; go on with: rlpyt resume runs/run" in out


def test_interrupted_twice_and_resumed_by_the_command_line(tmp_path, monkeypatch, capsys):
    """130 and saved, 130 again, 0."""
    for place, argv, code in (
        ("collect", TRAIN, 130),
        ("update", ["resume", "runs/run"], 130),
        ("nowhere", ["resume", "runs/run"], 0),
    ):
        with monkeypatch.context() as patch:
            strike(signal.SIGINT, place, 20, patch.setattr)
            assert main(argv) == code
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    assert record["status"] == "finished" and len(record["resumed"]) == 2
    rows = csv.DictReader((tmp_path / "runs" / "run" / "progress.csv").read_text().splitlines())
    steps = [int(row["env_steps"]) for row in rows]
    assert steps == sorted(set(steps))  # B205, B206
    assert "interrupted, saved; go on with: rlpyt resume runs/run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kind", ["ppo", "lstm", "normalized", "appo-lstm", "rainbow", "r2d1", "sac-lstm"]
)
def test_a_run_killed_at_three_random_points_equals_one_that_was_not(kind, whole, tmp_path):
    """F17, F18, B221, D2: while it collects, learns and saves, each time in a new process."""
    rng = random.Random(kind)
    folder, before = tmp_path / "run", 400
    places = [("collect", rng.randrange(150, 300)), ("update", rng.randrange(1, 12))]
    for place, n in [*places, ("save", rng.randrange(1, 14))]:
        assert child("SIGKILL", place, n, kind, tmp_path) == -signal.SIGKILL
        _, meta = load(folder / "checkpoints")
        assert meta["env_steps"] >= before  # never older than one period
        before = meta["env_steps"]
        assert json.loads((folder / "run.json").read_text())["status"] == "running"
    resumed = resume(folder, mode="quiet")
    assert resumed.status == "finished"
    assert fingerprint(folder) == whole(kind)


def test_control_a_run_resumed_with_another_generator_differs(whole, tmp_path):
    part = train(make("ppo", tmp_path), hooks=small_runs.stopped_at(5), mode="quiet")

    def disturb(runner):
        if runner.steps_here < 200:
            runner.parts.algorithm.generator.manual_seed(0)

    resumed = resume(part.folder, hooks=Hooks(on_window=disturb), mode="quiet")
    assert fingerprint(resumed.folder) != whole("ppo")
