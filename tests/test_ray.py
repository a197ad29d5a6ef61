"""A Ray cluster of two nodes: sweeps and remote replicas on it, and what ends with what."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import small_ray
from small_sampling import column, outcome_of, trained

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlpyt[ray]'")
from rlpyt.cli import main
from rlpyt.errors import UsageError
from rlpyt.launch import journal, ray, ray_run
from rlpyt.launch.options import QueueOptions

pytestmark = pytest.mark.timeout(300)  # a cluster starts first
FOLDER = Path("runs/s")
RUN = "ppo --env CartPole-v1 --env-steps 200 --num-envs 4 --horizon 25 --minibatch-size 50"


@pytest.fixture(scope="module")
def cluster():
    with small_ray.two_nodes() as started:
        yield started


@pytest.fixture
def words(cluster) -> list[str]:
    given = f"sweep {RUN} --eval-episodes 0 --name s --backend ray --ray-address {cluster.address}"
    return given.split()


@pytest.fixture
def pretended(words, monkeypatch) -> list[str]:
    small_ray.pretend()
    monkeypatch.setattr(ray, "look", lambda *_: False)
    return words


@contextmanager
def start(words: list[str]) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-P", small_ray.__file__, *words]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        logs = [path.read_text() for path in FOLDER.glob("logs/*")]
        assert time.monotonic() < deadline, f"it did not come: {logs}"
        time.sleep(0.05)
    return found


def events(kind: str) -> list[dict]:
    there = (FOLDER / journal.FILE).exists()
    return [e for e in journal.read(FOLDER) if e["event"] == kind] if there else []


def states() -> list[str]:
    return [event["state"] for event in events("end")]


def told() -> list[dict]:
    return [json.loads(path.read_text()) for path in Path().glob("told-*.json")]


def alive(runs: list[dict]) -> list[int]:
    pids = [pid for run in runs for pid in (run["pid"], run["below"])]
    return [pid for pid in pids if journal.identity(pid)]


def record(run: str) -> dict:
    return json.loads((FOLDER / run / "run.json").read_text())


def test_ctrl_c_ends_the_runs_of_all_nodes_and_the_same_command_goes_on(pretended, capsys):
    """B239."""
    words = [*pretended, "--seeds", "2"]
    with start(words) as queue:
        until(lambda: len(told()) == 2 and len(events("start")) == 2)
        queue.send_signal(signal.SIGINT)
        out, err = queue.communicate(timeout=60)
    assert queue.returncode == 130, out + err
    until(lambda: not alive(told()), seconds=5)
    assert [(event["state"], event["code"]) for event in events("end")] == [("cut", 130)] * 2
    assert events("stopped")[-1]["why"] == "interrupted"
    assert len({event["node"] for event in events("start")}) == 2  # one on each
    assert [(run["threads"], len(run["cpus"])) for run in told()] == [("1", 1)] * 2
    Path("slow").unlink()
    assert main(words) == 0
    assert "before   2 to go on with" in capsys.readouterr().out
    assert states()[2:] == ["finished", "finished"]
    assert [len(record(event["run"])["resumed"]) for event in events("job")] == [1, 1]
    assert main(["sweep", "status", str(FOLDER), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 2


def test_killed_with_its_queue_a_run_goes_on_under_the_next_and_is_not_doubled(pretended):
    """B238."""
    with start(pretended) as queue:
        until(lambda: told() and events("start"))
        queue.kill()
    until(lambda: not alive(told()), seconds=20)
    assert not states()
    Path("slow").unlink()
    assert main(["sweep", "retry", str(FOLDER), "--quiet"]) == 0
    assert states() == ["cut", "finished"]
    assert len(record(events("job")[0]["run"])["resumed"]) == 1


def test_a_run_whose_node_dies_goes_on_on_another(pretended, cluster):
    head = cluster.head_node.node_id[:8]
    with start([*pretended, "--seeds", "2"]) as queue:
        until(lambda: len(told()) == 2 and len(events("start")) == 2)
        (lost,) = [e["run"] for e in events("start") if e["node"].split()[1] != head]
        (node,) = cluster.worker_nodes
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(**small_ray.NODE)
        until(lambda: "cut" in states())
        Path("slow").unlink()
        out, err = queue.communicate(timeout=60)
    assert queue.returncode == 0, out + err
    ends = [(event["run"] == lost, event["state"]) for event in events("end")]
    assert sorted(ends) == [(False, "finished"), (True, "cut"), (True, "finished")]
    assert len(record(lost)["resumed"]) == 1
    until(lambda: not alive(told()), seconds=5)


def test_a_run_is_the_run_that_its_command_makes_and_what_cannot_be_is_refused(words, capsys):
    assert main([*words, "--cpus-per-run", "3"]) == 2
    assert "no node of the cluster has 3 CPUs" in capsys.readouterr().err
    assert main([*words, "--reserve-cpus", "1"]) == 2
    assert "ray start --num-cpus" in capsys.readouterr().err
    assert not events("start")
    assert main(words) == 0
    out = capsys.readouterr().out
    # On as many nodes as other tests have left; with a glance at a GPU, which it does not take.
    assert " of 1 CPU on " in out and "1/1" in out
    (event,) = events("end")
    assert (event["state"], event["code"]) == ("finished", 0)
    assert record(event["run"])["env_steps"] >= 200


NUMBERED = "small_sampling:Numbered"


def test_rows_of_remote_replicas_are_those_of_one_process(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    loop, remote = {"env_steps": 300}, {"sampler": "ray", "workers": 2}
    expected = trained("r2d1", tmp_path, strict=True, loop=loop)
    assert trained("r2d1", tmp_path, strict=True, loop=loop, **remote) == expected


def test_an_asynchronous_run_goes_on_without_a_replica_that_is_killed(
    cluster, monkeypatch, tmp_path
):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    kwargs = {"fails": 2, "at": 40, "how": "kill", "once": str(tmp_path / "failed")}
    outcome = outcome_of(
        "dqn",
        tmp_path,
        loop={"env_steps": 800, "log_interval": 200},
        env={"env": NUMBERED, "env_kwargs": kwargs},
        sampler="ray",
        workers=2,
        asynchronous=True,
        on_worker_failure="restart",
    )
    assert (tmp_path / "failed").exists()
    assert outcome.status == "finished" and 800 <= outcome.runner.episodes.env_steps < 804
    assert np.isclose(column(outcome.folder, "replay/ratio")[-1], 4.0, rtol=0.05)
    assert column(outcome.folder, "workers/restarts")[-1] == 1
    assert outcome.runner.parts.sampler._restarts == 0  # it alone: nobody else began anew


def test_a_node_that_does_not_see_the_sweeps_folder_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_run, "SEEN_SECONDS", 0.0)
    run = ray_run.RayRun(str(tmp_path / "none"), str(tmp_path), None, 1)
    with pytest.raises(UsageError, match="a disk that all nodes share"):
        run._open()
    (tmp_path / journal.FILE).touch()
    run = ray_run.RayRun(str(tmp_path), str(tmp_path / "none"), None, 1)
    with pytest.raises(UsageError, match="a folder that all nodes have"):
        run._open()


def test_slots_are_what_the_nodes_have_room_for(monkeypatch, tmp_path):
    nodes = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 3.0}, {"CPU": 16.0, "GPU": 1.0}, {}]
    monkeypatch.setattr(ray, "alive_nodes", lambda: nodes)

    def room(**options) -> int:
        return ray.RayCluster(QueueOptions(**options), "auto", tmp_path, tmp_path).room()

    assert room() == 27
    assert room(cpus_per_run=4) == 6
    assert room(cpus_per_run=2, gpus_per_run=1) == 3
    assert room(runs_per_gpu=4) == 12
    assert room(gpus_per_run=3) == 0
    assert room(gpus_per_run=3, slots=5) == 5  # of a cluster that grows
