"""What a checkpoint holds, which ones are kept, and what is noticed of damaged ones."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from careless import words_of_numpy
from numbered_states import is_state_at, names, state_at

from rlpyt import checkpoint
from rlpyt.checkpoint import best, latest, load, mark_best, save
from rlpyt.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


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


# ------------------------------------------------------------ beside a run that writes


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
