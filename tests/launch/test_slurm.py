"""Sweeps in Slurm: what is submitted, and that a job that is preempted goes on where it saved."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlpyt.cli import main
from rlpyt.launch import journal

submitit = pytest.importorskip("submitit")

from rlpyt.launch.jobs import Job  # noqa: E402
from rlpyt.launch.slurm import ClusterRun  # noqa: E402

FOLDER = Path("runs/s")
TESTS = Path(__file__).parent.parent
RUN = "ppo --env CartPole-v1 --num-envs 4 --horizon 25 --minibatch-size 50 --eval-episodes 1"
SWEEP = ["sweep", *RUN.split(), "--name", "s", "--backend", "slurm", "--slurm", "time=60"]

MODULE = """
import time
from pathlib import Path
from gymnasium.envs.classic_control import CartPoleEnv

class Slow(CartPoleEnv):
    def step(self, action):
        if Path("slow").exists():
            time.sleep(0.02)
        return super().step(action)
"""
SBATCH = """#!/bin/sh
cp "$1" submitted.sh
echo "Submitted batch job 4321"
"""
SRUN = f"""#!{sys.executable}
import os, sys
program = next(i for i, word in enumerate(sys.argv) if word == {sys.executable!r})
os.execv(sys.argv[program], sys.argv[program:])
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Programs of Slurm: sbatch keeps what it is given, squeue shows what `alive` lists."""
    programs = tmp_path / "bin"
    programs.mkdir()
    here = {"sbatch": SBATCH, "srun": SRUN, "squeue": "#!/bin/sh\ncat alive\n"}
    here["scontrol"] = '#!/bin/sh\necho "$@" >> requeued\n'
    for name, text in here.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr("rlpyt.launch.slurm.look", lambda *_: False)
    Path("alive").write_text("")


def started(number: int) -> subprocess.Popen:
    """A job of the array, as Slurm would start it."""
    environ = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "4321", "SLURM_NTASKS": "1"}
    environ |= {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_PROCID": "0"}
    script = Path("submitted.sh").read_text()
    command = next(line for line in script.splitlines() if line.startswith("srun "))
    command = f"exec {command}".replace("%A", "4321").replace("%a", str(number))
    environ |= dict(re.findall(r"^export (\w+)=(\S+)$", script, re.M))
    return subprocess.Popen(["sh", "-c", command], env={**os.environ, **environ})


def events(kind: str) -> list[dict]:
    return [event for event in journal.read(FOLDER) if event["event"] == kind]


def test_a_job_that_is_preempted_saves_is_queued_again_and_goes_on(slurm, capsys):
    Path("own.py").write_text(MODULE)
    Path("slow").touch()
    words = [*SWEEP, "--seeds", "2", "--env-steps", "600", "--cpus-per-run", "2", "--slots", "2"]
    words[words.index("CartPole-v1")] = "own:Slow"
    assert main(words) == 0
    script = Path("submitted.sh").read_text()
    for line in ("--array=0-1%2", "--cpus-per-task=2", "--time=60", "--signal=USR2@90"):
        assert f"#SBATCH {line}" in script
    assert [event["job"] for event in events("submitted")] == ["4321_0", "4321_1"]
    name = events("submitted")[0]["run"]
    run = FOLDER / name
    with started(0) as first:
        deadline = time.monotonic() + 60
        log = run / "progress.csv"
        while not log.exists() or len(log.read_text().splitlines()) < 2:
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.05)
        first.send_signal(signal.SIGTERM)  # Slurm's, which submitit lets pass
        first.send_signal(signal.SIGUSR2)
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "terminated" and record["env_steps"] > 0
    assert Path("requeued").read_text() == "requeue 4321_0\n"
    Path("alive").write_text("4321_0\n4321_1\n")
    assert main(words) == 0  # nothing is doubled
    assert len(events("submitted")) == 2
    assert "2 wait or run in Slurm already" in capsys.readouterr().out
    Path("slow").unlink()
    with started(0) as second:
        second.wait(timeout=60)
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished" and len(record["resumed"]) == 1
    assert main(["sweep", "status", str(FOLDER), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["runs"]
    assert [x["state"] for x in shown] == ["finished", "queued"]
    Path("alive").write_text("")  # the other is lost
    assert main(words) == 0
    assert [event["run"] for event in events("submitted")][2:] == [shown[1]["name"]]
    assert [event["state"] for event in events("end")] == ["finished"]


STUB = """
import signal, sys, time
from pathlib import Path
if Path("begun").exists():
    sys.exit(int(Path("begun").read_text()))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
Path("begun").write_text("3")
time.sleep(60)
"""


def test_with_submitits_local_executor_a_run_ends_with_75_and_is_begun_again(tmp_path):
    Path("stub.py").write_text(STUB)
    job = Job("run", ("ppo",), 100)
    run = ClusterRun(str(tmp_path), job, (sys.executable, "stub.py"), str(tmp_path))
    executor = submitit.LocalExecutor(tmp_path / "local")
    executor.update_parameters(timeout_min=2, signal_delay_s=1)
    submitted = executor.submit(run)
    deadline = time.monotonic() + 60
    while not Path("begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    controller = submitted._process.pid  # it would die of the signal, which is for its task
    (task,) = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    os.kill(int(task), signal.SIGUSR2)
    submitted._process.wait(timeout=60)
    assert submitted.result() == 3
    report = json.loads((tmp_path / "ends" / "run.json").read_text())
    assert (report["state"], report["code"]) == ("failed", 3)


@pytest.mark.parametrize(("status", "state"), [("running", "failed"), ("finished", "finished")])
def test_exit_code_0_before_the_end_of_a_run_is_a_failure(status, state, tmp_path):
    script = "import small_queue, sys; from pathlib import Path; "
    script += "small_queue.write_run(Path(sys.argv[1]), sys.argv[2])"
    command = (sys.executable, "-c", script, str(tmp_path / "run"), status)
    run = ClusterRun(str(tmp_path), Job("run", ("ppo",), 100), command, str(TESTS))
    executor = submitit.LocalExecutor(tmp_path / "local")
    executor.update_parameters(timeout_min=2)
    assert executor.submit(run).result() == 0
    report = json.loads((tmp_path / "ends" / "run.json").read_text())
    assert (report["state"], report["code"]) == (state, 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--slurm", "partition=gpu"], "how many minutes may a run take"),
        (["--slurm", "time=60", "tme=3"], "Unavailable parameter"),
        (["--slurm", "time"], "write NAME=VALUE"),
    ],
)
def test_settings_that_cannot_be_are_named(slurm, words, says, capsys):
    assert main([*SWEEP[:-2], *words]) == 2
    assert says in capsys.readouterr().err


def test_a_machine_without_slurm_says_so(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(SWEEP) == 2
    assert "there is no sbatch here" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "rlpyt.launch.slurm")
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main(SWEEP) == 2
    assert "pip install 'rlpyt[slurm]'" in capsys.readouterr().err
    assert main(["sweep", *RUN.split(), "--slurm", "time=3"]) == 2
    assert "add --backend slurm" in capsys.readouterr().err
