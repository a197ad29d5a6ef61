"""Interrupt, fill, truncate, flip: an older or a newer checkpoint loads, never neither."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from careless import words_of_numpy

from rlpyt import checkpoint, faultpoints
from rlpyt.checkpoint import best, latest, load, mark_best, save, write
from rlpyt.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture(autouse=True)
def no_plan_is_left() -> Iterator[None]:
    yield
    faultpoints.plan = None


def state_at(env_steps: int) -> dict[str, Any]:
    values = torch.arange(5.0) + env_steps
    return {"weights": values, "counter": env_steps, "rows": (np.full(3, env_steps), (), None)}


def is_state_at(env_steps: int, state: Any) -> bool:
    return (
        torch.equal(state["weights"], torch.arange(5.0) + env_steps)
        and state["counter"] == env_steps
        and state["rows"][0].tolist() == [env_steps] * 3
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_saved_state_is_loaded_with_its_meta(folder: Path) -> None:
    path = save(folder, 512, state_at(512), keep=3)
    assert path == folder / "000000000512" == latest(folder)
    for place in (path, folder, str(folder)):
        state, meta = load(place)
        assert is_state_at(512, state)
        assert (meta["format"], meta["env_steps"]) == (1, 512)


def test_json_and_safetensors_are_enough_to_read_it(folder: Path) -> None:
    path = save(folder, 7, state_at(7), keep=1)
    assert names(path) == ["meta.json", "state.safetensors"]
    tensors = safetensors.numpy.load_file(path / "state.safetensors")
    assert tensors["state.weights"].tolist() == [7, 8, 9, 10, 11]
    assert json.loads((path / "meta.json").read_text())["tree"]["dict"]["counter"] == 7


def test_a_checkpoint_written_in_format_1_still_loads() -> None:
    state, meta = load(Path(__file__).parent / "data" / "checkpoint_format_1")
    assert meta["format"] == 1
    assert state["numbers"] == [1, -0.0, 2**70, "text", None, True]
    assert np.isnan(state["not_a_number"])
    assert state["step"]["reward"].dtype == np.float32
    assert state["half"].dtype == torch.bfloat16
    assert state["none"] == ()


def test_saving_leaves_the_state_and_every_generator_alone(folder: Path) -> None:
    state = state_at(3)
    before = torch.get_rng_state(), words_of_numpy(), random.getstate()
    save(folder, 3, state, keep=1)
    assert is_state_at(3, state)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (words_of_numpy() == before[1]).all()
    assert random.getstate() == before[2]


# ------------------------------------------------------------------------------- rotation


def test_rotation_keeps_the_newest_and_the_best(folder: Path) -> None:
    assert best(folder) is None
    mark_best(save(folder, 1, state_at(1), keep=2))
    for env_steps in (2, 3, 4):
        save(folder, env_steps, state_at(env_steps), keep=2)
    assert names(folder) == ["000000000001", "000000000003", "000000000004", "best"]
    assert best(folder) == folder / "000000000001"
    mark_best(folder / "000000000004")
    save(folder, 5, state_at(5), keep=2)
    assert names(folder) == ["000000000004", "000000000005", "best"]


def test_rotation_never_drops_what_was_just_saved_for_damaged_newer_ones(folder: Path) -> None:
    for env_steps in (1, 2, 3):
        save(folder, env_steps, state_at(env_steps), keep=3)
    (folder / "000000000003" / "state.safetensors").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="000000000003"):
        load(folder)
    save(folder, 2, state_at(20), keep=1)  # the run goes on from 2
    assert names(folder) == ["000000000002"]
    assert is_state_at(20, load(folder)[0])


def test_keeping_none_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="keep=0"):
        save(folder, 1, {}, keep=0)


def test_step_counts_beyond_twelve_digits_sort_as_numbers(folder: Path) -> None:
    save(folder, 999_999_999_999, {}, keep=5)
    save(folder, 1_000_000_000_000, {}, keep=5)
    assert latest(folder) == folder / "1000000000000"


# ------------------------------------------------------------------------ damage is noticed


def test_every_flip_and_truncation_falls_back_to_the_checkpoint_before(folder: Path) -> None:
    save(folder, 1, state_at(1), keep=2)
    newest = save(folder, 2, state_at(2), keep=2)
    draw = random.Random(0)
    for name in ("meta.json", "state.safetensors"):
        whole = (newest / name).read_bytes()
        flips = draw.sample(range(len(whole)), k=min(300, len(whole)))
        lengths = draw.sample(range(len(whole)), k=60)
        damaged = [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in flips]
        damaged += [whole[:length] for length in lengths] + [whole + b"\n"]
        for data in damaged:
            (newest / name).write_bytes(data)
            with pytest.warns(RuntimeWarning, match=f"{name} is damaged.*trying the check"):
                assert is_state_at(1, load(folder)[0])
        (newest / name).write_bytes(whole)
    assert is_state_at(2, load(folder)[0])


@pytest.mark.parametrize("name", ["meta.json", "state.safetensors"])
def test_a_missing_file_falls_back_and_says_so(folder: Path, name: str) -> None:
    save(folder, 1, state_at(1), keep=2)
    (save(folder, 2, state_at(2), keep=2) / name).unlink()
    with pytest.warns(RuntimeWarning, match=f"{name} cannot be read"):
        assert is_state_at(1, load(folder)[0])


def test_files_of_two_checkpoints_never_mix(folder: Path) -> None:
    one, two = (save(folder, n, state_at(n), keep=2) for n in (1, 2))
    shutil.copy(one / "state.safetensors", two)
    with pytest.warns(RuntimeWarning, match="state.safetensors is damaged"):
        assert is_state_at(1, load(folder)[0])


def test_a_checkpoint_asked_for_by_name_is_not_replaced_by_another(folder: Path) -> None:
    save(folder, 1, state_at(1), keep=2)
    newest = save(folder, 2, state_at(2), keep=2)
    (newest / "meta.json").unlink()
    with pytest.raises(UsageError, match="meta.json cannot be read.*choose another checkpoint of"):
        load(newest)


def test_a_folder_without_a_whole_checkpoint_says_what_to_do(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no checkpoint in .*; one is written at"):
        load(folder)
    (save(folder, 1, {}, keep=1) / "meta.json").write_text("{}")
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(UsageError, match="every checkpoint in .* is damaged; restore"),
    ):
        load(folder)


def test_a_format_of_the_future_asks_for_an_upgrade(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    save(folder, 1, {}, keep=1)
    monkeypatch.undo()
    with pytest.raises(UsageError, match="has format 2 .* up to 1; upgrade rlpyt"):
        load(folder)


# ------------------------------------------------------------------ every place of a save


def places(work: Any) -> list[str]:
    """The fault points that `work` passes, in order."""
    passed: list[str] = []
    faultpoints.plan = passed.append
    work()
    faultpoints.plan = None
    return passed


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


def kill_at(number: int) -> None:
    """From now on, kill this process at its fault point of this number."""
    left = number

    def plan(name: str) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    faultpoints.plan = plan


def in_a_killed_process(number: int, work: Any) -> int:
    """Fork; the child does `work` and is killed at fault point `number`. Returns its signal."""
    child = os.fork()
    if child == 0:
        kill_at(number)
        try:
            work()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


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
        assert in_a_killed_process(number, work) == signal.SIGKILL
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
        in_a_killed_process(between_renames, lambda: save(folder, 1, state_at(2), 1))
        assert names(folder) == [".000000000001.old", ".000000000001.part"]
        in_a_killed_process(number, lambda: save(folder, 1, state_at(3), 1))
        assert is_state_at(1, load(folder)[0])
        save(folder, 1, state_at(1), keep=1)
        assert names(folder) == ["000000000001"]


def test_killed_at_any_place_of_marking_the_old_or_the_new_is_best(folder: Path) -> None:
    one, two = (save(folder, n, state_at(n), keep=2) for n in (1, 2))
    passed = places(lambda: mark_best(two))
    for number in range(len(passed)):
        mark_best(one)
        in_a_killed_process(number, lambda: mark_best(two))
        assert best(folder) in (one, two)


def test_a_disk_that_fills_at_any_place_leaves_the_older_checkpoints_whole(folder: Path) -> None:
    def plan_failing_at(number: int) -> None:
        left = number

        def plan(name: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, "No space left on device")

        faultpoints.plan = plan

    save(folder, 1, state_at(1), keep=2)
    write(folder / "other", 0, {})
    for target in (2, 1):
        existing = {2: "new", 1: "other"}[target]
        for number in range(len(places(partial(write, folder / existing, 0, {})))):
            plan_failing_at(number)
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


def test_a_reader_leaves_a_save_in_progress_alone(folder: Path) -> None:
    save(folder, 1, state_at(1), keep=1)
    (folder / ".000000000002.part").mkdir()
    assert is_state_at(1, load(folder)[0])
    assert latest(folder) == folder / "000000000001"
    assert (folder / ".000000000002.part").exists()
    save(folder, 3, state_at(3), keep=1)
    assert names(folder) == ["000000000003"]


def test_a_reader_overtaken_by_rotation_reads_what_is_there_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 1, state_at(1), keep=1)
    read, overtaken = checkpoint._read, []

    def read_after_a_save(path: Path) -> Any:
        if not overtaken:
            overtaken.append(save(folder, 2, state_at(2), keep=1))
        return read(path)

    monkeypatch.setattr(checkpoint, "_read", read_after_a_save)
    assert is_state_at(2, load(folder)[0])


def test_a_checkpoint_of_any_name_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "cartpole", 1, state_at(1))
    write(tmp_path / "cartpole", 2, state_at(2))
    assert is_state_at(2, load(tmp_path / "cartpole")[0])
    assert names(tmp_path) == ["cartpole"]
    at = places(lambda: write(tmp_path / "other", 3, {})).index("checkpoint:rename new")
    in_a_killed_process(at + 1, lambda: write(tmp_path / "cartpole", 3, state_at(3)))
    assert not (tmp_path / "cartpole").exists()
    assert is_state_at(2, load(tmp_path / "cartpole")[0])
