"""Sweeps from the outside: processes, signals, cores, interpreters, what is printed and written."""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from small_runs import fingerprint

import rlpyt
from rlpyt.cli import main
from rlpyt.launch import journal
from rlpyt.launch.outcome import Sweep, farewell

RLPYT = [sys.executable, "-m", "rlpyt"]
SHORT = "ppo --env CartPole-v1 --env-steps 600 --num-envs 4 --horizon 25 --minibatch-size 50"
QUICK = [*SHORT.split(), "--eval-episodes", "1", "--name", "s"]
FOLDER = Path("runs/s")

# What environments of these tests do beside their work.
MODULE = """
import json, os, subprocess, time
from pathlib import Path
import torch
from gymnasium.envs.classic_control import CartPoleEnv

class Telling(CartPoleEnv):
    def reset(self, **more):
        told = {"cpus": sorted(os.sched_getaffinity(0)), "threads": torch.get_num_threads()}
        told |= {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
        told |= {"group": os.getpgid(0), "pid": os.getpid()}
        Path(f"told-{os.getpid()}.json").write_text(json.dumps(told))
        return super().reset(**more)

class Slow(CartPoleEnv):
    # with a program of its own beside it, as some simulators have
    started = None
    def step(self, action):
        if Slow.started is None:
            Slow.started = subprocess.Popen(["sleep", "1000"])
            Path(f"below-{Slow.started.pid}").touch()
        time.sleep(0.01)
        return super().step(action)

class Failing(CartPoleEnv):
    def step(self, action):
        if Path("repaired").exists():
            return super().step(action)
        raise ValueError("the simulator is on fire")
"""


@pytest.fixture
def module():
    Path("own.py").write_text(MODULE)


def start(*words: str) -> subprocess.Popen:
    return subprocess.Popen([*RLPYT, "sweep", *words], stdout=-1, stderr=-1, text=True)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        logs = [path.read_text() for path in FOLDER.glob("logs/*")]
        assert time.monotonic() < deadline, f"it did not come: {logs}"
        time.sleep(0.02)
    return found


def events(kind: str) -> list[dict]:
    there = (FOLDER / journal.FILE).exists()
    return [e for e in journal.read(FOLDER) if e["event"] == kind] if there else []


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if journal.identity(pid)]


def test_a_queue_killed_in_the_middle_goes_on_and_finishes_each_run_once():
    """B238; and a run of a sweep is the run that its command makes alone."""
    words = [*QUICK, "--seeds", "4", "--env-steps", "2k"]
    words.remove("600"), words.remove("--env-steps")
    with start(*words) as queue:
        until(lambda: len(events("end")) >= 1 and len(events("start")) > len(events("end")))
        queue.kill()
    started = [event["pid"] for event in events("start")]
    until(lambda: not alive(started), seconds=2)
    done = {event["run"] for event in events("end")}
    assert len(done) < 4
    with start(*words) as queue:
        out, err = queue.communicate(timeout=60)
    assert queue.returncode == 0, out + err
    ends = Counter(event["run"] for event in events("end") if event["state"] == "finished")
    assert list(ends.values()) == [1] * 4
    begun = [event["run"] for event in events("start")]
    assert all(begun.count(name) == 1 for name in done)
    folders = sorted(path.parent.name for path in FOLDER.glob("*/run.json"))
    assert folders == sorted(ends)
    assert "before" in out and len(out.splitlines()) < 30
    name = begun[-1]
    command = next(e["options"] for e in events("job") if e["run"] == name)
    assert main(["train", *command, "--name", "alone", "--quiet"]) == 0
    assert fingerprint(Path("runs/alone")) == fingerprint(FOLDER / name)


def test_ctrl_c_ends_runs_and_what_they_started_and_the_journal_says_so(module):
    """B239: as a terminal sends it, to the queue alone."""
    words = ["a2c", "--env", "own:Slow", "--seeds", "3", "--name", "s", "--env-steps", "50k"]
    with start(*words, "--slots", "2") as queue:
        until(lambda: len(list(Path().glob("below-*"))) == 2)
        below = [int(path.name.partition("-")[2]) for path in Path().glob("below-*")]
        runs = [event["pid"] for event in events("start")]
        assert sorted(alive([*below, *runs])) == sorted([*below, *runs])
        queue.send_signal(signal.SIGINT)
        out, err = queue.communicate(timeout=60)
    assert queue.returncode == 130, out + err
    until(lambda: not alive([*below, *runs]), seconds=2)
    assert [event["state"] for event in events("end")] == ["cut", "cut"]
    assert events("stopped")[-1]["why"] == "interrupted"
    for event in events("start"):
        record = json.loads((FOLDER / event["run"] / "run.json").read_text())
        assert record["status"] == "interrupted" and record["env_steps"] > 0
    assert f"the same command goes on; so does: rlpyt sweep retry {FOLDER}" in out
    assert main(["sweep", "status", str(FOLDER), "--json"]) == 0


def test_what_goes_on_with_a_search_is_its_own_command():
    """Trying again finishes what has begun, and draws no trial."""
    cut = Sweep(FOLDER, "interrupted", [])
    (_, grid), (_, search) = farewell(cut), farewell(cut, search=True)
    assert "so does: rlpyt sweep retry" in grid
    assert "so does" not in search and search.endswith("ends what has begun, and draws no more")


def test_a_failing_run_keeps_its_code_and_last_lines_until_it_is_tried_again(module, capsys):
    words = ["--env", "own:Failing", "--num-envs", "2", "--env-steps", "200", "--name", "s"]
    words += ["--eval-episodes", "0", "--preset", "classic"]
    assert main(["sweep", "ppo", *words, "--retries", "1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (run,) = found["runs"]
    assert (run["state"], run["code"], found["failed"]) == ("failed", 1, 1)
    assert "the simulator is on fire" in run["tail"][-1] + run["tail"][-2]
    assert len(events("start")) == 2  # and once more
    assert main(["sweep", "ppo", *words]) == 1
    shown = capsys.readouterr().out
    assert len(events("start")) == 2  # it has had its tries
    assert f"again with: rlpyt sweep retry {FOLDER}" in shown
    assert main(["sweep", "status", str(FOLDER)]) == 0
    shown = capsys.readouterr().out
    assert "exit 1" in shown and "on fire" in shown and f"{FOLDER}/logs" in shown
    Path("repaired").touch()
    assert main(["sweep", "retry", str(FOLDER), "--quiet"]) == 0
    assert [event["state"] for event in events("end")] == ["failed", "failed", "finished"]


def test_a_run_has_the_cores_of_its_slot_and_no_more_threads(module):
    """B236."""
    words = "ppo --env own:Telling --num-envs 2 --horizon 20 --env-steps 40 --eval-episodes 0"
    words += " --name s --seeds 2 --minibatch-size 40 --update-epochs 1"
    words += " --hidden-sizes 1000 1000"  # so many that it would take all cores there are
    with start(*words.split()) as queue:
        out, err = queue.communicate(timeout=60)
    assert queue.returncode == 0, out + err
    told = [json.loads(path.read_text()) for path in Path().glob("told-*.json")]
    slots = {event["run"]: event["slot"] for event in events("start")}
    allowed = sorted(os.sched_getaffinity(0))
    runs = {event["pid"] for event in events("start")}
    told = [one for one in told if one["pid"] in runs]
    assert len(told) == 2 and len(set(slots.values())) == min(2, len(allowed))
    for one in told:
        assert len(one["cpus"]) == 1 and one["cpus"][0] in allowed
        assert one["threads"] == 1 and one["OMP_NUM_THREADS"] == "1"
        assert one["CUDA_VISIBLE_DEVICES"] == ""
        assert one["group"] == one["pid"]
    assert len({one["cpus"][0] for one in told}) == min(2, len(allowed))


def test_runs_use_the_interpreter_that_is_chosen(capsys, monkeypatch):
    """B242."""
    other = Path("other-python")
    other.write_text(f'#!/bin/sh\ntouch was-used\nexec {shlex.quote(sys.executable)} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(Path(rlpyt.__file__).parents[1]))
    few = [word for word in QUICK if word != "s"]
    assert main(["sweep", *few, "s", "--python", str(other.resolve()), "--no-preload"]) == 0
    assert Path("was-used").exists()
    (run,) = FOLDER.glob("Cart*")
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    capsys.readouterr()
    assert main(["sweep", *few, "third", "--python", "/no/such/python"]) == 2
    assert "python=/no/such/python cannot be started" in capsys.readouterr().err
    assert main(["sweep", *few, "fourth", "--python", "/bin/false"]) == 2
    assert "python=/bin/false cannot start runs" in capsys.readouterr().err


def test_what_cannot_be_made_is_refused_before_anything_starts(capsys):
    few = ["--env", "CartPole-v9", "--name", "s"]
    assert main(["sweep", "ppo", *few]) == 2
    assert "CartPole-v9" in capsys.readouterr().err
    assert not events("start")
    assert main(["sweep", *QUICK, "--threads", "64", "--cpus-per-run", "1"]) == 2
    assert "threads=64: a slot has 1 CPU; choose fewer" in capsys.readouterr().err
    Path("runs/mine").mkdir()
    Path("runs/mine/notes").touch()
    assert main(["sweep", *QUICK[:-1], "mine"]) == 2
    assert "runs/mine is there and is no sweep's" in capsys.readouterr().err


def test_where_ray_is_missing_it_says_so(capsys, monkeypatch):
    words = ["sweep", *SHORT.split(), "--name", "s", "--ray-address", "127.0.0.1:1"]
    assert main(words) == 2
    assert "add --backend ray" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "rlpyt.launch.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*words, "--backend", "ray"]) == 2
    assert "pip install 'rlpyt[ray]'" in capsys.readouterr().err


def test_python_runs_and_adds_to_a_sweep_and_refuses_another_command_for_a_run():
    few = {"env_steps": 600, "num_envs": 4, "horizon": 25, "minibatch_size": 50}
    few |= {"eval_episodes": 1, "mode": "quiet", "name": "s", "slots": 1}
    done = rlpyt.sweep("ppo", "CartPole-v1", **few)
    (run,) = done.runs
    assert (done.status, done.code, run.state, run.code) == ("finished", 0, "finished", 0)
    assert run.eval_return and run.env_steps >= 600 and run.folder.exists()
    assert 0 < done.utilization <= 1
    command = json.loads((run.folder / "run.json").read_text())["command"]
    assert Path(command[0]).parent == Path(sys.executable).parent  # B242: this interpreter
    more = rlpyt.sweep("ppo", "CartPole-v1", seeds=2, **few)
    assert [run.state for run in more.runs] == ["finished"] * 2
    assert len(events("start")) == 2
    with pytest.raises(rlpyt.UsageError, match="by another command"):
        rlpyt.sweep("ppo", "CartPole-v1", **{**few, "horizon": 50})
    assert dataclasses.asdict(done)
