"""Ranks on two machines, here two network namespaces: trained across, cut off, resumed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlpyt import checkpoint

SILENT = 4


def ip(*arguments: str, netns: str | None = None) -> None:
    at = ["-n", netns] if netns else []
    subprocess.run(["ip", *at, *arguments], check=True, capture_output=True, timeout=10)


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """Two namespaces, joined by a cable whose ends are 10.77.0.1 and 10.77.0.2."""
    names = [f"rlpyt-{uuid.uuid4().hex[:6]}-{i}" for i in range(2)]
    made: list[str] = []
    try:
        if shutil.which("ip") is None or os.geteuid() != 0:
            pytest.skip("network namespaces are made by root, with iproute2")
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable",
               "netns", names[1])  # fmt: skip
            for i, name in enumerate(names):
                ip("addr", "add", f"10.77.0.{i + 1}/24", "dev", "cable", netns=name)
                for device in ("lo", "cable"):
                    ip("link", "set", device, "up", netns=name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.decode()}")
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


def gone(there: Callable[[], bool], seconds: float) -> bool:
    """Whether it is no longer so within some seconds."""
    until = time.monotonic() + seconds
    while there():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """Whether it runs: one that has ended may not have been waited for."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def killed(process: subprocess.Popen[str]) -> str:
    """What it had said."""
    process.kill()
    return process.communicate(timeout=10)[0]


def torchrun(machines: list[str], *arguments: str) -> list[subprocess.Popen[str]]:
    """A command line of rlpyt, one rank on each machine."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable"}
    env["RLPYT_RANK_TIMEOUT"] = str(SILENT)
    started = []
    for i, name in enumerate(machines):
        where = ["--nnodes", "2", "--node-rank", str(i), "--nproc-per-node", "1"]
        where += ["--master-addr", "10.77.0.1", "--master-port", "29517"]
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
        process = subprocess.Popen(
            [*command, *where, "-m", "rlpyt", *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
    return started


def test_a_run_on_two_machines_ends_where_they_are_cut_off_and_goes_on(
    machines: list[str], tmp_path: Path
) -> None:
    given = {"--env": "CartPole-v1", "--env-steps": "10M", "--runs": str(tmp_path), "--name": "run"}
    given |= {"--checkpoint-interval": "2000", "--num-envs": "4", "--eval-episodes": "4"}
    both = torchrun(machines, "train", "ppo", *(x for pair in given.items() for x in pair))
    run = tmp_path / "run"
    try:
        assert gone(lambda: not checkpoint.steps(run / "checkpoints"), 60)
        ranks = [pid for process in both for pid in children(process.pid)]
        assert len(ranks) == 2
        ip("link", "set", "cable", "down", netns=machines[1])
        assert gone(lambda: any(map(alive, ranks)), 4 * SILENT)
    finally:
        # torchrun itself waits for the other machine longer: five minutes, by default.
        said = [killed(process) for process in both]
    assert any("has not answered" in x or "does not answer" in x for x in said), said
    ip("link", "set", "cable", "up", netns=machines[1])
    steps = str(checkpoint.steps(run / "checkpoints") + 4000)
    both = torchrun(machines, "resume", str(run), "--env-steps", steps)
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "resumed at" in said[0] and "resumed at" not in said[1]
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
