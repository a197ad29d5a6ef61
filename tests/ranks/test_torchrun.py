"""Runs that torchrun starts: what is shown, what a death, a signal and a sweep come to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlpyt import checkpoint
from rlpyt.cli import main


class Torchrun:
    """A command line of rlpyt on two ranks, and what it prints."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", "2", "-m", "rlpyt", *arguments]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def children(self) -> list[int]:
        """Pids of the ranks."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def end(self, seconds: float = 90) -> tuple[int, str]:
        """Its exit code and output."""
        out, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, out


def arguments(runs: Path, steps: int) -> list[str]:
    given = {"--env": "CartPole-v1", "--env-steps": str(steps), "--runs": str(runs)}
    given |= {"--name": "run", "--seed": "1", "--checkpoint-interval": "2000", "--num-envs": "4"}
    given |= {"--eval-episodes": "4"}
    return ["train", "ppo", *(x for pair in given.items() for x in pair)]


def test_torchrun_trains_shows_and_writes_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = Torchrun(*arguments(tmp_path, 8000)).end()
    assert code == 0, out
    assert out.count("rlpyt · ppo · CartPole-v1") == 1
    assert "on each of 2 ranks: 4 envs" in out and "together 8 envs" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "finished" and record["env_steps"] >= 8000
    assert record["resolved"]["ranks"] == 2
    assert main(["resume", str(tmp_path / "run"), "--env-steps", "1e6"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is trained by 2 ranks" in said
    assert "torchrun --standalone --nproc-per-node 2 -m rlpyt resume" in said


def until_saved(run: Torchrun, runs: Path) -> None:
    until = time.monotonic() + 60
    while not checkpoint.steps(runs / "run" / "checkpoints"):
        assert time.monotonic() < until and run.process.poll() is None, run.end()
        time.sleep(0.05)


def test_a_killed_rank_ends_all_and_what_was_saved_goes_on(tmp_path: Path) -> None:
    """F30, B250."""
    run = Torchrun(*arguments(tmp_path, 10_000_000))
    until_saved(run, tmp_path)
    ranks = run.children()
    begun = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    code, out = run.end()
    assert code == 1 and time.monotonic() - begun < 60
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    assert "rank 1" in out
    steps = checkpoint.steps(tmp_path / "run" / "checkpoints")
    assert steps > 0
    run = Torchrun("resume", str(tmp_path / "run"), "--env-steps", str(steps + 4000))
    code, out = run.end()
    assert code == 0 and "resumed at" in out, out


def test_a_signal_to_torchrun_saves_and_ends(tmp_path: Path) -> None:
    run = Torchrun(*arguments(tmp_path, 10_000_000))
    until_saved(run, tmp_path)
    run.process.send_signal(signal.SIGTERM)
    _, out = run.end()
    assert "terminated, saved" in out, out
    assert "torchrun --standalone --nproc-per-node 2 -m rlpyt resume" in " ".join(out.split())
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "terminated"
    assert record["env_steps"] == checkpoint.steps(tmp_path / "run" / "checkpoints")


def test_a_sweep_s_run_has_the_ranks_that_it_is_to_have(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlpyt", "sweep", "ppo", "--env", "CartPole-v1", "--name", "s"]
    command += ["--seeds", "1", "--env-steps", "4000", "--runs", str(tmp_path), "--slots", "1"]
    done = subprocess.run(
        [*command, "--ranks-per-run", "2"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (path for path in (tmp_path / "s").iterdir() if (path / "run.json").exists())
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished" and record["resolved"]["ranks"] == 2
