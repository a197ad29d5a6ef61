"""Whole runs with workers, that fail, are interrupted, and go on."""

import json
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from small_sampling import column, outcome_of

from rlpyt.cli import main
from rlpyt.training import resume

ARGV = ["train", "ppo", "--env", "small_workers:Faulty", "--env-steps", "800", "--num-envs", "4"]
ARGV += ["--horizon", "8", "--minibatch-size", "16", "--eval-episodes", "0", "--name", "run"]
ARGV += ["--checkpoint-interval", "100", "--sampler", "workers", "--workers", "2", "--seed", "0"]


def faulty(how: str, k: int, tmp_path: Path, *more: str) -> list[str]:
    kwargs = ["column=2", f"k={k}", f"how={how}", f"once={tmp_path / 'once'}"]
    return [*ARGV, *more, "--env-kwargs", *kwargs]


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sends a signal to this process when a worker hangs, as a file tells."""
    monkeypatch.setattr("rlpyt.processes.wait.GRACE", 0.3)
    before = signal.getsignal(signal.SIGALRM)

    def later(number: int, once: Path) -> None:
        def look(*_: Any) -> None:
            if once.exists():
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.kill(os.getpid(), number)

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    yield later
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_hung_step_ends_the_run_at_its_newest_checkpoint(
    number, code, struck, tmp_path, capsys
):
    """F7 and F14, F16: what is whole is on disk already; the exit code says it is not the end."""
    struck(number, tmp_path / "once")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # who had to be killed is told of
        assert main(faulty("sleep", 150, tmp_path)) == code
    shown = " ".join(capsys.readouterr().out.split())
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    newest = max(int(x.name) for x in (tmp_path / "runs" / "run" / "checkpoints").iterdir()
                 if x.name.isdigit())  # fmt: skip
    assert record["env_steps"] == newest > 300
    assert f"not saved since {newest:,} env steps" in shown
    assert resume(tmp_path / "runs" / "run", mode="quiet").status == "finished"


@pytest.mark.parametrize("sampler", ["serial", "workers --workers 2", "replicated --asynchronous"])
def test_a_signal_in_long_random_steps_ends_the_run_in_a_moment(sampler, struck, tmp_path, capsys):
    """They beat, so nobody hangs; and there is nothing that could be saved."""
    once = tmp_path / "once"
    struck(signal.SIGINT, once)
    argv = [*ARGV[: ARGV.index("--sampler")], "--sampler", *sampler.split(), "--decorrelate", "10M"]
    argv += ["--env-kwargs", f"file={once}"]
    argv[1] = "appo" if "--asynchronous" in argv else "ppo"
    argv[argv.index("small_workers:Faulty")] = "small_workers:Telling"
    assert main(argv) == 130
    assert time.time() - once.stat().st_mtime < 6  # 0.3 s of grace; else 10 until they are killed
    assert "nothing to save yet" in " ".join(capsys.readouterr().out.split())


def test_a_run_that_restarts_a_worker_says_so_in_its_log(tmp_path):
    assert main(faulty("SIGKILL", 50, tmp_path, "--on-worker-failure", "restart")) == 0
    assert column(tmp_path / "runs" / "run", "workers/restarts")[-1] == 1
    assert column(tmp_path / "runs" / "run", "workers/dropped")[-1] == 0
    assert column(tmp_path / "runs" / "run", "workers/slowest")


def test_a_failed_worker_is_one_message_and_exit_code_1(tmp_path, capsys):
    assert main(faulty("raise", 50, tmp_path)) == 1
    err = capsys.readouterr().err
    assert err.startswith("rlpyt train: worker 1 (pid ")
    assert "environments 2 to 3) failed: ValueError: a fault of its own" in err
    assert err.count("Traceback") == 1  # the worker's
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    assert record["status"] == "failed" and "a fault of its own" in record["error"]


def test_an_evaluation_whose_worker_fails_is_skipped_and_training_goes_on(tmp_path, capsys):
    """F38: and its environments are made anew for the next."""
    more = ["--eval-episodes", "2", "--eval-interval", "200"]
    argv = faulty("raise", 5, tmp_path, *more)
    argv[argv.index("column=2")] = "column=5"  # the second of evaluation, whose ranks follow
    argv[argv.index("--eval-episodes") + 1 : argv.index("--eval-episodes") + 2] = []
    argv[argv.index("--eval-episodes") : argv.index("--eval-episodes") + 1] = []
    assert main(argv) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "evaluation failed, training goes on: evaluation worker 1" in shown
    assert column(tmp_path / "runs" / "run", "eval/failed") == [1]
    assert len(column(tmp_path / "runs" / "run", "eval/return_mean")) >= 3


def test_a_run_learns_on_without_dropped_environments(tmp_path):
    outcome = outcome_of(
        "dqn",
        tmp_path,
        env={"env": "small_workers:Faulty", "env_kwargs": ("column=2", "k=30", "how=raise")},
        sampler="workers",
        workers=2,
        on_worker_failure="drop",
    )
    runner = outcome.runner
    assert runner.episodes.env_steps >= runner.run.loop.env_steps
    assert column(outcome.folder, "workers/dropped")[-1] == 2
