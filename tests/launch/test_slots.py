"""Slots: any machine gives a valid plan, within what may be used of it."""

import os
from pathlib import Path

import pytest

from rlpyt.errors import UsageError
from rlpyt.launch import hardware
from rlpyt.launch.hardware import Core, Gpu, Machine, read_machine
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.slots import check_threads, describe, plan


def machine(cores: int, threads: int = 1, nodes: int = 1, gpus: int = 0, quota=None) -> Machine:
    """As Linux numbers one: the first threads of all cores, then the second ones."""
    made = [Core(tuple(range(i, cores * threads, cores)), i * nodes // cores) for i in range(cores)]
    near = [Gpu(str(i), i * nodes // gpus) for i in range(gpus)]
    return Machine(tuple(made), tuple(near), quota)


MACHINES = [
    machine(cores, threads, nodes, gpus, quota)
    for cores in (1, 2, 6, 7, 64)
    for threads in (1, 2)
    for nodes in (1, 2)
    for gpus in (0, 1, 4)
    for quota in (None, 0.5, 1.0, 3.5)
    if nodes <= cores
]


@pytest.mark.parametrize("takes_gpu", [False, True])
def test_every_machine_has_a_plan_without_arguments_that_shares_nothing(takes_gpu):
    """B236."""
    for here in MACHINES:
        slots = plan(here, QueueOptions(), takes_gpu=takes_gpu)
        used = [cpu for slot in slots for cpu in slot.cpus]
        assert slots and all(slot.cpus for slot in slots)
        assert set(used) <= {cpu for core in here.cores for cpu in core.cpus}
        if len(slots) <= len(here.cores) and here.quota is None:
            assert sorted(used) == sorted(cpu for core in here.cores for cpu in core.cpus)
        if here.limited:
            assert len(set(used)) <= max(1, here.quota)
        assert [slot.number for slot in slots] == list(range(len(slots)))
        gpus = [gpu for slot in slots for gpu in slot.gpus]
        assert len(set(gpus)) == len(gpus) == (len(here.gpus) if takes_gpu else 0)
        assert describe(slots, here).startswith(f"{len(slots)} slot")


def test_hyper_threads_of_a_core_stay_together():
    slots = plan(machine(4, threads=2), QueueOptions(), takes_gpu=False)
    assert [slot.cpus for slot in slots] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert slots[0].environment({})["OMP_NUM_THREADS"] == "2"


def test_a_slot_lies_on_one_memory_node_and_near_its_gpu():
    here = machine(12, nodes=2, gpus=2)
    for options in (QueueOptions(), QueueOptions(runs_per_gpu=3), QueueOptions(cpus_per_run=2)):
        for slot in plan(here, options, takes_gpu=True):
            nodes = {core.node for core in here.cores if set(core.cpus) & set(slot.cpus)}
            assert nodes == {here.gpus[int(slot.gpus[0])].node}
    assert len(plan(here, QueueOptions(cpus_per_run=4), takes_gpu=False)) == 3
    uneven = plan(here, QueueOptions(slots=5), takes_gpu=False)
    assert sum(len(slot.cpus) for slot in uneven) == 12
    assert {len(slot.cpus) for slot in uneven} <= {2, 3}


def test_runs_share_a_gpu_or_a_run_has_several():
    here = machine(8, gpus=4)
    shared = plan(here, QueueOptions(runs_per_gpu=2), takes_gpu=True)
    assert [slot.gpus for slot in shared] == [(g,) for g in "01230123"]
    several = plan(here, QueueOptions(gpus_per_run=2), takes_gpu=True)
    assert [slot.gpus for slot in several] == [("0", "1"), ("2", "3")]
    assert several[0].environment({})["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert all(len(slot.cpus) == 4 for slot in several)


def test_runs_that_take_no_gpu_are_shown_none_and_have_all_cores():
    slots = plan(machine(8, gpus=2), QueueOptions(), takes_gpu=False)
    assert len(slots) == 8
    assert slots[0].environment({})["CUDA_VISIBLE_DEVICES"] == ""


def test_threads_are_those_of_the_slot_or_fewer_where_fewer_were_asked_for():
    (slot,) = plan(machine(4), QueueOptions(slots=1), takes_gpu=False)
    for asked, given in {None: "4", "2": "2", "8": "4", "many": "4", "0": "4"}.items():
        environ = {} if asked is None else {"OMP_NUM_THREADS": asked}
        assert slot.environment(environ)["OMP_NUM_THREADS"] == given
    check_threads(4, [slot])
    with pytest.raises(UsageError, match="threads=5: a slot has 4 CPUs; .*--cpus-per-run 5"):
        check_threads(5, [slot])


def test_more_slots_than_cores_share_them_and_it_is_said():
    here = machine(2)
    slots = plan(here, QueueOptions(slots=5), takes_gpu=False)
    assert [slot.cpus for slot in slots] == [(0,), (1,), (0,), (1,), (0,)]
    assert "more runs than the 2 cores" in describe(slots, here)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"slots": 0}, "slots=0 must be at least 1"),
        ({"cpus_per_run": 3}, "cpus_per_run=3 are more than the 2 cores"),
        ({"slots": 2, "cpus_per_run": 2, "gpus_per_run": 0}, "choose --slots 1"),
        ({"gpus_per_run": 2}, "gpus_per_run=2: 1 GPU is visible"),
        ({"reserve_cpus": 2}, "reserve_cpus=2 of the 2 cores"),
        ({"slots": 2}, "--runs-per-gpu 2"),
        ({"runs_per_gpu": 2, "gpus_per_run": 2}, "either runs share a GPU or"),
    ],
)
def test_what_a_machine_cannot_give_is_refused_with_a_remedy(options, says):
    with pytest.raises(UsageError, match=says):
        plan(machine(2, gpus=1), QueueOptions(**options), takes_gpu=True)


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def cores_of(n: int) -> dict[str, str]:
    """Files of n cores of two threads, on two nodes."""
    files = {"sys/devices/system/node/node0/cpulist": f"0-{n // 2 - 1},{n}-{n + n // 2 - 1}"}
    files["sys/devices/system/node/node1/cpulist"] = f"{n // 2}-{n - 1},{n + n // 2}-{2 * n - 1}"
    for cpu in range(2 * n):
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {f"{topology}/core_id": str(cpu % n), f"{topology}/physical_package_id": "0"}
    return files


def test_cores_are_read_by_node_with_their_allowed_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_ask_driver", lambda *_: {})
    here = read_machine(written(tmp_path, cores_of(4)), {0, 1, 3, 4, 7}, {})
    assert here.cores == (Core((0, 4), 0), Core((1,), 0), Core((3, 7), 1))
    assert here.gpus == () and here.quota is None


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        (  # a pod within a slice, the outer one tighter
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
            },
            2.0,
        ),
        (  # version 1, seen from inside a container: the mount is the group
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1f\n0::/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_the_quota_of_every_kind_of_control_group_is_read(files, quota, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_ask_driver", lambda *_: {})
    here = read_machine(written(tmp_path, files), {0, 1, 2, 3}, {})
    assert here.quota == quota
    assert here.limited == (quota is not None)


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, ["0", "1", "2"]),
        ("", []),
        ("2,0", ["2", "0"]),
        ("1,7,0", ["1"]),
        ("-1", []),
        ("GPU-b", ["GPU-b"]),
        ("MIG-1/2/3", ["MIG-1/2/3"]),
    ],
)
def test_visible_gpus_are_those_of_the_list(visible, seen, tmp_path, monkeypatch):
    there = {str(i): (f"GPU-{'abc'[i]}", i) for i in range(3)}
    monkeypatch.setattr(hardware, "_ask_driver", lambda *_: there)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    gpus = hardware.read_gpus(tmp_path, environ)
    assert [gpu.id for gpu in gpus] == seen
    if visible == "GPU-b":
        assert gpus[0].node == 1


def test_the_driver_is_asked_with_its_own_program(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    lines = "0, GPU-a, 00000000:3B:00.0\n1, GPU-b, 00000000:AF:00.0"
    program.write_text(f"#!/bin/sh\necho '{lines}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    root = written(tmp_path, {"sys/bus/pci/devices/0000:af:00.0/numa_node": "1"})
    assert hardware.read_gpus(root, {"PATH": os.environ["PATH"]}) == (Gpu("0"), Gpu("1", 1))


def test_this_machine_has_a_plan():
    slots = plan(read_machine(), QueueOptions(), takes_gpu=False)
    assert {cpu for slot in slots for cpu in slot.cpus} <= os.sched_getaffinity(0)
