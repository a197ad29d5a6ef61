"""An environment of this process that does not return ends it, with code 1 and its stacks."""

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from forked import Command
from small_sampling import outcome_of
from toys import CountEnv

from rlpyt import noise
from rlpyt.cli import main
from rlpyt.envs.make import describe
from rlpyt.envs.options import EnvOptions
from rlpyt.noise import ResetSeeds
from rlpyt.processes import wait
from rlpyt.processes.stacks import is_stopped
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.training import resume
from rlpyt.vector import watchdog
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.watchdog import Watchdog

TRAIN = ["ppo", "--env", "small_workers:Faulty", "--env-steps", "800", "--num-envs", "4"]
TRAIN += ["--horizon", "8", "--minibatch-size", "16", "--eval-episodes", "0", "--name", "run"]
TRAIN += ["--checkpoint-interval", "100", "--env-step-timeout", "0.5"]


@pytest.mark.parametrize(("how", "named"), [("sleep", True), ("loop in C", False)])
def test_a_hung_environment_of_a_command_ends_it(how, named, tmp_path):
    """F7, serial: also where a loop in C holds the interpreter's lock, then without its name."""
    given = ["--env-kwargs", "column=2", "k=150", f"how={how}", f"once={tmp_path / 'once'}"]
    with Command("train", *TRAIN, *given) as process:
        _, shown = process.communicate(timeout=100)
    assert process.returncode == 1, shown
    assert "in misbehave" in shown  # the stacks
    if named:
        assert "environment 2 did not return for 0.5" in shown
        assert "--env-step-timeout" in shown and "rlpyt resume runs/run" in shown
        assert "in misbehave" in (tmp_path / "runs" / "run" / "stacks" / "main.txt").read_text()
    resumed = resume(tmp_path / "runs" / "run", mode="quiet")
    assert resumed.status == "finished"  # from the newest checkpoint


@pytest.mark.parametrize("how", ["sleep", "loop in C"])
@pytest.mark.parametrize(("sampler", "column"), [("serial", 2), ("serial", 0), ("workers", 0)])
def test_a_constructor_that_hangs_in_this_process_ends_the_command(how, sampler, column):
    """Environment 0 is made here to learn the spaces, whoever steps it then."""
    given = ["--env-kwargs", f"column={column}", "where=init", "k=0", f"how={how}"]
    given += ["--start-timeout", "1", "--env-step-timeout", "0", "--sampler", sampler]
    with running(*given) as process:
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 1 and "in misbehave" in shown
    if how == "sleep":
        assert "environment 0, make, call 1 did not return for 1 s" in shown
        assert "--start-timeout" in shown


def running(*more: str, before: Callable[[], object] | None = None) -> Command:
    pairs = zip(TRAIN[1::2], TRAIN[2::2], strict=True)
    base = [x for name, value in pairs if name not in more for x in (name, value)]
    return Command("train", TRAIN[0], *base, *more, before=before)


def await_(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("sampler", "number"), [("serial", "SIGTSTP"), ("workers", "SIGSTOP")])
def test_time_in_which_a_run_was_suspended_is_none_of_a_call(sampler, number, tmp_path):
    """Ctrl-Z, or a scheduler that suspends a job, for longer than any call may take."""
    given = ["--env", "small_workers:Slow", "--env-kwargs", "slow=2", "delay=0.02"]
    given += ["--sampler", sampler, "--env-step-timeout", "1", "--env-steps", "400"]
    with running(*given) as process:
        await_(lambda: (tmp_path / "runs" / "run" / "checkpoints").exists())
        process.send_signal(getattr(signal, number))
        await_(lambda: is_stopped(process.pid))
        time.sleep(1.0 + 2.5)
        process.send_signal(signal.SIGCONT)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 0, shown


@pytest.mark.parametrize("fails", [False, True])
def test_a_close_that_hangs_ends_the_command_and_hides_no_error(fails, tmp_path):
    """R1, F1: what was trained is saved by then."""
    given = ["--env", "small_workers:HangsInClose", "--env-kwargs", f"fails={fails}"]
    with running(*given, "--env-steps", "200") as process:
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 1 and "environment 1, close, call" in shown
    assert ("ValueError: a fault of its own" in shown) == fails
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    assert record["status"] == ("failed" if fails else "finished")


def test_a_hung_step_after_ctrl_c_ends_the_run_with_the_code_of_the_signal(tmp_path):
    given = ["--env-kwargs", "column=2", "k=150", "how=sleep", f"once={tmp_path / 'once'}"]
    with running(*given, "--env-step-timeout", "100", before=hurry) as process:
        await_((tmp_path / "once").exists)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 130 and "environment 2 did not return" in shown


def hurry() -> None:
    modules: tuple[Any, ...] = watchdog, wait
    for module in modules:
        module.GRACE = 1.0


def test_control_a_slow_environment_and_a_slow_learner_are_no_hang(monkeypatch):
    """Steps of 0.7 s are within the limit, and a window's learning of any length is none."""
    given = ["--env-kwargs", "column=2", "k=150", "how=slow", "--env-steps", "640"]
    argv = [x for x in TRAIN if x not in ("--env-steps", "800", "0.5")]
    argv[argv.index("--env-step-timeout") :] = ["--env-step-timeout", "1.0"]
    ended = []
    monkeypatch.setattr(Watchdog, "_end", lambda self, seconds: ended.append(seconds))
    from rlpyt.algos.learner import Learner

    step, slept = Learner.step, []

    def slow(self: Any, *args: Any, **given: Any) -> Any:
        if not slept:
            slept.append(time.sleep(1.5))
        return step(self, *args, **given)

    monkeypatch.setattr(Learner, "step", slow)
    assert main(["train", *argv, *given]) == 0
    assert not ended and slept


def test_a_library_call_has_no_watchdog(tmp_path):
    assert outcome_of("ppo", tmp_path).runner.parts.home.watchdog is None


def watched(seconds: float) -> tuple[Watchdog, InProcess]:
    dog = Watchdog(seconds)
    spec = describe(CountEnv(), EnvOptions("count"))
    seeds = ResetSeeds(0, noise.TRAINING_RESETS)
    envs = InProcess([CountEnv(), CountEnv()], spec, seeds, heart=dog.heart)
    dog.watch(envs)
    return dog, envs


def test_the_heart_beats_for_each_call_until_they_are_seen_to_be_fast(monkeypatch):
    monkeypatch.setattr(watchdog, "_FAST", 0)
    dog, envs = watched(0.2)
    rows = zeros(example_row(envs.spec), (2, 2))
    envs.reset(rows[0])
    before = dog.heart.beats
    envs.send(rows[0], rows[1])
    each = dog.heart.beats - before
    with dog:
        deadline = time.monotonic() + 10
        while dog.heart.beats - before > 1 and time.monotonic() < deadline:
            before = dog.heart.beats
            envs.send(rows[0], rows[1])
            time.sleep(0.01)
    assert each == 3  # the row, two steps
    assert dog.heart.beats - before == 1  # the row
    assert str(dog.heart) == ""
