"""Killed or out of space at any place of a save: an older or a newer checkpoint loads."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from numbered_states import is_state_at, names, state_at
from strikes import at_place, full_disk, killed, places

from rlpyt import faultpoints
from rlpyt.checkpoint import best, latest, load, mark_best, save, write

pytestmark = pytest.mark.usefixtures("no_plan_is_left")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_all_is_on_the_disk_before_it_gets_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[Any] = []
    rename = os.rename
    monkeypatch.setattr(os, "fsync", lambda file: order.append(os.fstat(file).st_ino))
    monkeypatch.setattr(os, "rename", lambda a, b: (order.append("rename"), rename(a, b)))
    path = save(folder, 1, state_at(1), keep=1)
    before = [path / "state.safetensors", path / "meta.json", path]
    assert order == [*(p.stat().st_ino for p in before), "rename", folder.stat().st_ino]


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("new", [2, 1], ids=["next", "replacing"])
def test_killed_at_any_place_of_a_save_the_old_or_the_new_loads(
    folder: Path, new: int, keep: int
) -> None:
    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        save(folder, 0, state_at(0), keep)
        save(folder, 1, state_at(1), keep)

    def work() -> None:
        save(folder, new, state_at(new + 10 * (new == 1)), keep)

    prepare()
    passed = places(work)
    assert {"checkpoint:rename new", "checkpoint:fsync folder"} < set(passed)
    for number, place in enumerate(passed):
        prepare()
        assert killed(number, work)
        state = load(folder)[0]
        done = number > passed.index("checkpoint:rename new")
        assert is_state_at((2 if new == 2 else 11) if done else 1, state), place
        assert latest(folder) is not None
        work()  # the resumed run saves once more
        assert is_state_at(2 if new == 2 else 11, load(folder)[0])
        assert len(names(folder)) == keep, place


def test_killed_again_in_the_save_after_a_killed_one_the_old_still_loads(folder: Path) -> None:
    save(folder, 1, state_at(1), keep=1)
    between_renames = places(lambda: save(folder, 1, state_at(1), 1)).index("checkpoint:rename new")
    for number in range(between_renames + 1):
        killed(between_renames, lambda: save(folder, 1, state_at(2), 1))
        assert names(folder) == [".000000000001.old", ".000000000001.part"]
        killed(number, lambda: save(folder, 1, state_at(3), 1))
        assert is_state_at(1, load(folder)[0])
        save(folder, 1, state_at(1), keep=1)
        assert names(folder) == ["000000000001"]


def test_killed_at_any_place_of_marking_the_old_or_the_new_is_best(folder: Path) -> None:
    one, two = (save(folder, n, state_at(n), keep=2) for n in (1, 2))
    passed = places(lambda: mark_best(two))
    for number in range(len(passed)):
        mark_best(one)
        killed(number, lambda: mark_best(two))
        assert best(folder) in (one, two)


def test_a_disk_that_fills_at_any_place_leaves_the_older_checkpoints_whole(folder: Path) -> None:
    save(folder, 1, state_at(1), keep=2)
    write(folder / "other", 0, {})
    for target in (2, 1):
        existing = {2: "new", 1: "other"}[target]
        for number in range(len(places(partial(write, folder / existing, 0, {})))):
            at_place(number, full_disk)
            with pytest.raises(OSError, match="No space left.*the checkpoints before it are whole"):
                write(folder / f"{target:012d}", target, state_at(target))
            faultpoints.plan = None
            counter = load(folder)[0]["counter"]
            assert is_state_at(counter, load(folder)[0])
            assert counter in (1, target)
            assert not [name for name in names(folder) if name.endswith(".part")]
            shutil.rmtree(folder / "000000000002", ignore_errors=True)


def test_a_full_file_system_is_an_error_with_its_reason(folder: Path) -> None:
    """RLIMIT_FSIZE stands in for the full disk: the write itself fails in the system."""
    script = (
        "import resource, signal, sys, torch\n"
        "from rlpyt.checkpoint import load, save\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "save(sys.argv[1], 1, {'x': torch.zeros(4)}, keep=1)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try:\n"
        "    save(sys.argv[1], 2, {'x': torch.zeros(1 << 16)}, keep=1)\n"
        "except OSError as error:\n"
        "    print(error)\n"
        "print(load(sys.argv[1])[1]['env_steps'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=60
    )
    says = done.stdout.splitlines()[0]
    assert says.endswith("the checkpoints before it are whole"), done.stderr
    assert "raise the limit of a file's size (ulimit -f unlimited)" in says
    assert done.stdout.splitlines()[1] == "1"
    assert names(folder) == ["000000000001"]


def test_a_checkpoint_of_any_name_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "cartpole", 1, state_at(1))
    write(tmp_path / "cartpole", 2, state_at(2))
    assert is_state_at(2, load(tmp_path / "cartpole")[0])
    assert names(tmp_path) == ["cartpole"]
    at = places(lambda: write(tmp_path / "other", 3, {})).index("checkpoint:rename new")
    killed(at + 1, lambda: write(tmp_path / "cartpole", 3, state_at(3)))
    assert not (tmp_path / "cartpole").exists()
    assert is_state_at(2, load(tmp_path / "cartpole")[0])
