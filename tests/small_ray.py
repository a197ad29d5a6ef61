"""A Ray cluster of two nodes, and runs on it that are pretended: they load no PyTorch.

As a script it is `rlpyt`, whose sweeps look at no run beforehand.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rlpyt

# A node that says nothing is taken for dead after 6 s instead of 30.
WATCHFUL = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500}
WATCHFUL |= {"health_check_timeout_ms": 1000, "health_check_failure_threshold": 12}
NODE: dict[str, Any] = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 80 * 2**20}
ALONE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}

# `python -m rlpyt` of a run finds this in its working directory, in the place of rlpyt.
RUN = r"""
import fcntl, json, os, signal, subprocess, sys, time
from pathlib import Path

def write(status):
    keys = ("algo", "env", "env_steps", "options", "resolved")
    record = {**dict.fromkeys(keys), "format": 1, "status": status, "resumed": resumed}
    texts = {"run.json": json.dumps(record), "progress.csv": f"env_steps\n{steps}\n"}
    for name, text in texts.items():
        (folder / ".part").write_text(text)
        os.replace(folder / ".part", folder / name)

def stop(number, frame):
    write("interrupted" if number == signal.SIGINT else "terminated")
    os._exit(130 if number == signal.SIGINT else 75)

word, *words = sys.argv[1:]
if word == "resume":
    folder = Path(words[0])
    steps = int((folder / "progress.csv").read_text().split()[1])
    resumed = json.loads((folder / "run.json").read_text())["resumed"] + [steps]
else:
    folder = Path(words[words.index("--runs") + 1]) / words[words.index("--name") + 1]
    folder.mkdir()
    steps, resumed = 0, []
lock = open(folder / ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
write("running")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
below = subprocess.Popen(["sleep", "1000"])  # as some simulators have
told = {"cpus": sorted(os.sched_getaffinity(0)), "threads": os.environ["OMP_NUM_THREADS"]}
told |= {"pid": os.getpid(), "below": below.pid}
Path(f"told-{os.getpid()}.part").write_text(json.dumps(told))
os.rename(f"told-{os.getpid()}.part", f"told-{os.getpid()}.json")
while Path("slow").exists():
    time.sleep(0.05)
    steps += 1
    write("running")
write("finished")
"""


def pretend() -> None:
    """Have runs that are started below this directory be pretended; slow while `slow` is there."""
    Path("rlpyt").mkdir()
    real = os.path.dirname(rlpyt.__file__)  # actors, too, find this one, and its other modules
    Path("rlpyt/__init__.py").write_text(f"__path__.append({real!r})")
    Path("rlpyt/__main__.py").write_text(RUN)
    Path("slow").touch()


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A head and another node, of a CPU and, as they say, a GPU each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**NODE, **ALONE, "_system_config": WATCHFUL},
    )
    try:
        cluster.add_node(**NODE)
        yield cluster
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    from rlpyt.cli import main
    from rlpyt.launch import ray

    ray.look = lambda *_: False
    sys.exit(main(sys.argv[1:]))
