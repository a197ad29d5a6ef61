"""A replay that does not fit into memory is refused before a run begins, by its number (B115)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_parts import ChanceEnv
from toy_tasks import Frames

from rlpyt import memory_budget
from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.build import build
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.memory_budget import available_bytes, require, require_shared, row_bytes
from rlpyt.models.options import QNetworkOptions
from rlpyt.run import LoopOptions, Run

GIGABYTE = 2**30
MEMINFO = "MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\nSwapFree: 9999999 kB\n"


def system(root: Path, **files: Any) -> Path:
    """A /proc and /sys; in a name `__` stands for a slash, `memory_` for `memory.`."""
    for name, text in {"proc__meminfo": MEMINFO, **files}.items():
        path = root / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def test_without_limits_it_is_what_the_system_says_without_swap(tmp_path):
    assert available_bytes(system(tmp_path)) == 4 * GIGABYTE
    assert available_bytes(tmp_path / "elsewhere") is None
    require(10**15, 100.0, tmp_path / "elsewhere")  # nobody knows, so nobody refuses


def test_the_least_of_all_limits_counts_and_cache_is_free(tmp_path):
    """Version 2: the container's own group is not limited, the one above it is."""
    root = system(
        tmp_path,
        proc__self__cgroup="0::/user/job\n",
        sys__fs__cgroup__user__job__memory_max="max\n",
        sys__fs__cgroup__user__job__memory_current=2 * GIGABYTE,
        sys__fs__cgroup__user__memory_max=3 * GIGABYTE,
        sys__fs__cgroup__user__memory_current=2 * GIGABYTE,
        sys__fs__cgroup__user__memory_stat=f"anon 5\ninactive_file {GIGABYTE // 2}\n",
    )
    assert available_bytes(root) == 1.5 * GIGABYTE


@pytest.mark.parametrize("path", ["/", "/docker/1234"])
def test_the_limit_of_a_container_is_found_in_version_1(tmp_path, path):
    """Its path is often the host's, of which only the top is there."""
    root = system(
        tmp_path,
        proc__self__cgroup=f"5:cpu,cpuacct:{path}\n4:memory:{path}\n0::/\n",
        sys__fs__cgroup__memory__memory_limit_in_bytes=2 * GIGABYTE,
        sys__fs__cgroup__memory__memory_usage_in_bytes=3 * GIGABYTE,
        sys__fs__cgroup__memory__memory_stat=f"total_inactive_file {2 * GIGABYTE}\n",
    )
    assert available_bytes(root) == GIGABYTE
    unlimited = root / "sys/fs/cgroup/memory/memory.limit_in_bytes"
    unlimited.write_text("9223372036854771712\n")
    assert available_bytes(root) == 4 * GIGABYTE


def test_a_refusal_names_both_numbers_and_a_size_that_fits(tmp_path):
    root = system(tmp_path)
    require(40_000, 1e5, root)
    with pytest.raises(UsageError) as refused:
        require(50_000, 1e5, root)
    said = str(refused.value)
    assert "5,000,000,000 bytes (4.7 GiB: 50,000 rows of 100,000 bytes)" in said
    assert f"{4 * GIGABYTE:,} (4.0 GiB) are available" in said
    fits = int(said.split("--replay-size ")[1].split()[0])
    require(fits, 1e5, root)
    assert fits * 1e5 > 0.85 * 4 * GIGABYTE


RUNS: dict[str, tuple[Any, Any, QNetworkOptions]] = {
    "vectors": (ChanceEnv, DQNOptions(), QNetworkOptions()),
    "frames": (Frames, DQNOptions(), QNetworkOptions()),
    "priorities": (ChanceEnv, DQNOptions(prioritized=True), QNetworkOptions()),
    "states": (
        ChanceEnv,
        R2D1Options(prioritized=True, priority_entry="td", state_interval=3),
        QNetworkOptions(memory="lstm", memory_size=64),
    ),
}


def run_of(kind: str, env_steps: int = 200_000) -> Run:
    env, algo, model = RUNS[kind]
    return Run(EnvOptions(env, num_envs=4), algo, model, LoopOptions(seed=0, env_steps=env_steps))


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_asked_for_is_what_the_replay_holds(kind, monkeypatch):
    asked = []
    monkeypatch.setattr(memory_budget, "require", lambda *x: asked.append(x))
    parts = build(run_of(kind))
    ring, selector = parts.replay.ring, parts.replay.selector
    (rows, per_row), packed = asked[0], ring._packed
    held = packed._records.nbytes + sum(x.nbytes for x in packed._large.values())
    held += sum(x.nbytes for x in ring.states) if ring.states else 0
    if hasattr(selector, "_tree"):
        held += sum(level.nbytes for level in selector._tree._levels)
    assert rows == 100_000 and rows * per_row <= held < 1.2 * rows * per_row
    parts.close()


@pytest.mark.parametrize("kind", ["vectors", "states"])
def test_a_copy_on_the_cpu_is_counted(kind, monkeypatch):
    """Not the priorities, of which there is no other."""
    asked = []
    monkeypatch.setattr(memory_budget, "require", lambda *x: asked.append(x))
    for memory in ("host", "device"):
        run = run_of(kind)
        run = replace(run, algo=replace(run.algo, replay_memory=memory))
        parts = build(replace(run, loop=replace(run.loop, device="cpu")))
        ring = parts.replay.ring
        parts.close()
    copied = sum(x.numel() * x.element_size() for x in (*ring._rows_there, *ring._states_there))
    (rows, alone), (_, both) = asked
    assert rows * (both - alone) <= copied < 1.2 * rows * (both - alone)


def test_a_run_is_refused_when_it_is_built_and_a_short_one_that_fills_less_is_not(monkeypatch):
    monkeypatch.setattr(memory_budget, "available_bytes", lambda root: 2_000_000)
    with pytest.raises(UsageError, match="and 2,000,000"):
        build(run_of("vectors"))
    build(run_of("vectors", env_steps=20_000)).close()


def test_a_row_is_the_sum_of_its_fields():
    row = {"observation": np.zeros((84, 84), np.uint8), "reward": np.zeros((), np.float32)}
    assert row_bytes(row) == 84 * 84 + 4
    assert row_bytes(row, np.zeros((8, 10)), 5) == 84 * 84 + 4 + 16


def test_shared_memory_that_is_more_than_there_is_is_refused_with_both_numbers(tmp_path):
    """F19: it would be taken at once, and the system's answer is to kill."""
    root = system(tmp_path)
    require_shared(int(0.9 * 4 * GIGABYTE), root)
    with pytest.raises(UsageError, match=r"4096\.0 MB .* needed, and 4096\.0 MB are available"):
        require_shared(4 * GIGABYTE, root)
    require_shared(10**15, tmp_path / "elsewhere")  # nobody knows, so nobody refuses


def test_the_limit_of_the_process_counts_too(tmp_path, monkeypatch):
    root = system(tmp_path, proc__self__statm="1000 500 1 1 0 1 0")
    assert available_bytes(root) == 4 * GIGABYTE
    monkeypatch.setattr(memory_budget.resource, "getrlimit", lambda _: (GIGABYTE, GIGABYTE))
    assert available_bytes(root) == GIGABYTE - 1000 * memory_budget.resource.getpagesize()
