"""rlpyt train and resume from the outside: what they print, write and return."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import Command

from rlpyt import checkpoint
from rlpyt.cli import main

SHORT = ["--env", "CartPole-v1", "--seed", "1", "--env-steps", "2k", "--eval-episodes", "2"]
FIELDS = {"run_dir", "algo", "env", "seed", "env_steps", "updates", "seconds", "status"}
FIELDS |= {"steps_per_second", "train_return", "eval_return", "eval_episodes"}


def the_run() -> Path:
    (found,) = Path("runs").iterdir()
    return found


def test_json_is_one_object_alone_on_stdout(capfd):
    assert main(["train", "ppo", *SHORT, "--json"]) == 0
    out, err = capfd.readouterr()
    outcome = json.loads(out)
    assert set(outcome) >= FIELDS
    assert outcome["env_steps"] >= 2000
    assert outcome["eval_episodes"] == 2
    assert "preset ppo/classic" in err


@pytest.mark.parametrize(("size", "said"), [("48", True), ("200", True), ("64", False)])
def test_a_minibatch_size_that_does_not_divide_the_window_is_said(size, said, capsys):
    """B154."""
    words = (
        f"--env CartPole-v1 --env-steps 100 --eval-episodes 0 --horizon 16 --minibatch-size {size}"
    )
    assert main(["train", "ppo", *words.split()]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (f"minibatch_size={size} does not divide a window of 128 rows" in shown) == said


def test_a_run_can_be_evaluated_filmed_and_resumed(capsys, monkeypatch):
    assert main(["train", "a2c", *SHORT, "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    run = str(the_run())
    assert main(["eval", run, "--episodes", "2", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["eval_return"] == trained["eval_return"]  # the run's own starts
    assert outcome["env_steps"] == trained["env_steps"]
    assert main(["enjoy", run, "--episodes", "1", "--stochastic", "--best"]) == 0
    assert main(["eval", run, "--episodes", "1", "--video-path", "a.gif"]) == 0
    assert Path("a.gif").stat().st_size > 1000
    capsys.readouterr()
    assert main(["eval", run, "--video-path", "a.avi"]) == 2
    assert "return" not in capsys.readouterr().out  # refused before anything is played
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert main(["eval", run, "--episodes", "1", "--video-path", "b.gif"]) == 2
    assert "needs pygame" in capsys.readouterr().err
    assert main(["resume", run]) == 2
    assert "has finished" in capsys.readouterr().err
    assert main(["resume", run, "--reschedule"]) == 2
    assert main(["resume", run, "--env-steps", "3k", "--reschedule", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env_steps"] >= 3000


@pytest.mark.parametrize("algo", ["dqn", "r2d1"])
def test_a_run_that_learns_from_a_replay_can_be_evaluated_and_resumed(algo, capsys):
    few = ["--learning-starts", "300", "--replay-size", "1k", "--horizon", "4"]
    assert main(["train", algo, *SHORT, *few, "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["updates"] > 10
    run = str(the_run())
    assert (the_run() / "replay").exists()
    assert main(["eval", run, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eval_return"] == trained["eval_return"]
    assert main(["eval", run, "--episodes", "1", "--stochastic"]) == 0
    capsys.readouterr()
    assert main(["resume", run, "--env-steps", "2500", "--json"]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert resumed["env_steps"] >= 2500
    assert resumed["updates"] > trained["updates"]


def test_other_versions_are_refused_unless_forced(capsys):
    assert main(["train", "a2c", *SHORT, "--quiet"]) == 0
    file = the_run() / "run.json"
    record = json.loads(file.read_text())
    record["versions"]["torch"] = "1.0"
    file.write_text(json.dumps(record))
    again = ["resume", str(the_run()), "--env-steps", "3k", "--quiet"]
    assert main(again) == 2
    assert "torch 1.0 ->" in capsys.readouterr().err
    assert main([*again, "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ppo", "--env", "CartPol-v1"], "did you mean CartPole-v1"),
        (["train", "ppo", "--env", "CartPole-v1", "--runs", "/proc/x"], "--runs"),
        (["train", "ppo", "--env", "CartPole-v1", "--device", "cuda:99"], "device=cuda:99"),
        (["train", "ppo", "--env", "CartPole-v1", "--protocol", "dopamine"], "is for Atari"),
        (["train", "dqn", "--env", "CartPole-v1", "--preset", "atari"], "or the --preset that it"),
        (["train", "dqn", "--env", "HalfCheetah-v5"], "choose ppo or a2c"),
        (["train", "r2d1", "--env", "MountainCarContinuous-v0"], "choose ppo or a2c"),
        (["eval", "nowhere"], "is no run"),
        (["resume", "nowhere"], "is no run"),
        (["resume", "nowhere", "--lr", "1"], "--lr is of training, and a run goes on with the"),
        (["resume", "nowhere", "--no-double"], "--no-double is of training"),
        (["resume", "nowhere", "--reshedule"], "did you mean --reschedule?"),
        (["plot", "nowhere"], "does not exist"),
        (["trian"], "did you mean train?"),
        (["envs", "cartpol-v9"], "did you mean CartPole"),
        (["presets", "ppo/atri"], "did you mean ppo/atari or appo/atari?"),
        (["check-env", "CartPol-v1"], "did you mean CartPole-v1"),
        (["eval", ".", "--episodes", "0"], "must be at least 1"),
    ],
)
def test_mistakes_exit_with_2_and_one_message(arguments, message, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 75, "terminated")],
)
def test_a_stopped_run_is_saved_and_says_how_to_go_on(number, code, status):
    length = ["--env-steps", "10M", "--log-interval", "1k"]
    with Command("train", "a2c", "--env", "CartPole-v1", "--seed", "1", *length) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(len(x.read_text().splitlines()) > 1 for x in Path().glob("runs/*/progress.csv")):
                break
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"rlpyt resume {the_run()}" in out
    assert json.loads((the_run() / "run.json").read_text())["status"] == status
    assert list((the_run() / "checkpoints").iterdir())
    assert out.count("\n") < 30


def test_training_outlives_who_reads_its_output():
    command = [sys.executable, "-m", "rlpyt", "train", "a2c", *SHORT]
    reader, writer = os.pipe()
    process = subprocess.Popen(command, stdout=writer)
    os.close(writer)
    os.close(reader)
    assert process.wait(60) == 0
    assert json.loads((the_run() / "run.json").read_text())["status"] == "finished"


def test_a_list_may_be_cut_by_head():
    command = f"{sys.executable} -m rlpyt envs | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_home_display_and_terminal_are_not_needed():
    bare = {"PATH": os.environ["PATH"], "HOME": "/proc/nowhere", "TERM": "dumb"}
    bare |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "rlpyt", "train", "a2c", *SHORT],
        env=bare,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "eval" in done.stdout


def test_an_environments_fault_is_one_message_and_1(capsys):
    Path("faulty.py").write_text(
        "import gymnasium, numpy as np\n"
        "class Env(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,))\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return np.zeros(2, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.full(2, np.nan, np.float32), 0.0, False, False, {}\n"
    )
    assert main(["train", "a2c", "--env", "faulty:Env", "--env-steps", "1k", "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "not finite" in err
    assert "Traceback" not in err
    assert json.loads((the_run() / "run.json").read_text())["status"] == "failed"


def test_a_broken_pipe_of_an_environment_is_its_fault_and_not_the_end_of_who_reads():
    """Its simulator has gone: exit code 0 would hide that."""
    argv = ["train", "a2c", "--env", "small_workers:Faulty", "--env-steps", "1k", "--quiet"]
    argv += ["--env-kwargs", "column=0", "how=broken pipe"]
    with pytest.raises(BrokenPipeError) as caught:
        main(argv)
    assert "in environment 0 of 16 (small_workers:Faulty), step(" in caught.value.__notes__[0]
    assert json.loads((the_run() / "run.json").read_text())["status"] == "failed"


def test_a_full_disk_is_said_in_a_line(monkeypatch, capsys):
    """What is saved, and where, and not where in the code it was noticed."""

    def write(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write_file", write)
    assert main(["train", "a2c", *SHORT, "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "No space left on device; " in err and "the checkpoints before it are whole" in err
    assert json.loads((the_run() / "run.json").read_text())["status"] == "failed"


def test_profile_says_where_the_time_went(capsys):
    long = ["8k" if word == "2k" else word for word in SHORT]  # enough samples for each part
    assert main(["train", "a2c", *long, "--quiet", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("profile")
    assert "learn" in lines[0]
    assert "env" in lines[0]
    assert 5 < len(lines) < 15


def test_frames_are_counted_by_the_protocol(capsys):
    pytest.importorskip("ale_py")
    from rlpyt.cli.train import parse

    run, _ = parse(["ppo", "--env", "ALE/Pong-v5", "--total-frames", "200M"])
    assert run.loop.env_steps == 50_000_000
