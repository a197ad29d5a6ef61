"""What is loaded is what was saved, whatever the ring, and only what is new is written."""

import json
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from random_rings import EXAMPLE, advance, copy_in_flight, make_ring, rings, same

from rlpyt import checkpoint, faultpoints
from rlpyt.checkpoint import Damaged
from rlpyt.errors import UsageError
from rlpyt.replays import segments as segments_module
from rlpyt.replays.segments import Segments
from rlpyt.ring import Ring

FIVE_ROWS = 5 * 3 * (6 + 8 + 4 + 4 + 8 + 2)  # bytes of five rows of make_ring()


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of saves; `test_segment_kills` sees to the order of what reaches the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "replay"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fault points that are passed."""
    passed: list[str] = []
    monkeypatch.setattr(faultpoints, "plan", passed.append)
    return passed


def names(listing: dict[str, Any]) -> list[str]:
    return [file["name"] for part in listing["blocks"] for file in part["files"]]


def rows_of(listing: dict[str, Any]) -> list[tuple[int, int]]:
    return [(x["begin"], x["end"]) for part in listing["blocks"] for x in part["files"]]


def taken_up(ring: Ring, other: Ring) -> Ring:
    """The control: another ring that takes up the snapshot of the first."""
    other.restore(ring.snapshot())
    return other


# ----------------------------------------------------------------------- exactly what was saved


@given(rings(), st.integers(0, 2**32), st.integers(1, 1000), st.data())
def test_a_loaded_ring_is_the_saved_one_by_bytes_and_goes_on_like_it(
    tmp_path_factory: pytest.TempPathFactory,
    options: dict[str, Any],
    seed: int,
    segment_bytes: int,
    data: st.DataObject,
) -> None:
    """B220: saves in between change nothing, and rows behind the listed save are not there."""
    folder, rng = tmp_path_factory.mktemp("replay"), np.random.default_rng(seed)
    ring, horizons = make_ring(**options), st.integers(1, options["horizon"])
    segments = Segments(folder, ring, segment_bytes)
    for _ in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(0, 12))):
            advance(data.draw(st.sampled_from(ring.blocks)), rng, data.draw(horizons))
        if data.draw(st.booleans()):
            ring.blocks[0].reserve(data.draw(horizons))  # by a writer that was killed
        listing = segments.save()
        if data.draw(st.booleans()):
            segments.prune([listing])
        other, control = make_ring(**options), taken_up(ring, make_ring(**options))
        loaded = Segments(folder, other, data.draw(st.integers(1, 1000)))
        loaded.load(json.loads(json.dumps(listing)))
        copy_in_flight(ring, other)
        assert same(other.snapshot(), ring.snapshot())
        assert same(other.bounds(), control.bounds())
        if data.draw(st.booleans()):  # a resumed run takes over
            ring, segments = other, loaded


@given(rings(), st.integers(0, 2**32), st.integers(2, 30), st.integers(0, 20), st.data())
def test_a_ring_of_another_capacity_takes_up_what_it_can_hold(
    tmp_path_factory: pytest.TempPathFactory,
    options: dict[str, Any],
    seed: int,
    capacity: int,
    windows: int,
    data: st.DataObject,
) -> None:
    folder, rng = tmp_path_factory.mktemp("replay"), np.random.default_rng(seed)
    ring = make_ring(**options)
    for _ in range(windows):
        advance(data.draw(st.sampled_from(ring.blocks)), rng, options["horizon"])
    listing = Segments(folder, ring, 200).save()
    options["capacity"] = max(capacity, options["horizon"], options["frame_stack"])
    other, control = make_ring(**options), taken_up(ring, make_ring(**options))
    loaded = Segments(folder, other, 200)
    copy_in_flight(ring, other)  # before or after, as one likes
    loaded.load(listing)
    assert same(other.snapshot(), control.snapshot())
    assert same(other.bounds(), control.bounds())
    for block, twin in zip(other.blocks, control.blocks, strict=True):
        advance(block, np.random.default_rng(seed), options["horizon"])
        advance(twin, np.random.default_rng(seed), options["horizon"])
    again = make_ring(**options)
    Segments(folder, again).load(loaded.save())
    copy_in_flight(other, again)
    assert same(again.snapshot(), control.snapshot())


def test_a_cut_after_the_save_still_ends_the_row_answered_last(
    folder: Path, rng: np.random.Generator
) -> None:
    ring = make_ring(capacity=30)
    (block,) = ring.blocks
    segments = Segments(folder, ring, FIVE_ROWS)
    advance(block, rng, *[2] * 5)
    assert rows_of(segments.save()) == [(0, 5), (5, 10)]
    block.at(9).row.terminated[:] = block.at(9).row.truncated[:] = False
    block.at(10).row.cut[:] = True
    advance(block, rng, 1)
    listing = segments.save()
    assert rows_of(listing) == [(0, 5), (5, 10), (10, 11)]
    other = make_ring(capacity=30)
    Segments(folder, other).load(listing)
    assert other.blocks[0].at(9).row.truncated.all()


def test_loading_leaves_the_slots_of_other_rows_alone(
    folder: Path, rng: np.random.Generator
) -> None:
    """The row in flight may be there already."""
    ring, other = make_ring(), make_ring()
    segments = Segments(folder, ring, FIVE_ROWS)
    advance(ring.blocks[0], rng, *[2] * 18)
    segments.save()
    advance(ring.blocks[0], rng, *[2] * 2)
    listing = segments.save()
    assert ring.bounds()[0].tolist() == [32]
    assert rows_of(listing) == [(30, 35), (35, 40)]
    (free,) = set(range(9)) - {n % 9 for n in range(32, 40)}
    for leaf in (other.rows.reward, other.rows.observation.image):
        leaf[:] = 77
    Segments(folder, other).load(listing)
    assert free == 31 % 9 == 40 % 9  # that of a row which was saved, but cannot be read
    for leaf in (other.rows.reward, other.rows.observation.image):
        assert (leaf[free] == 77).all()


def test_a_ring_without_rows_is_saved_and_loaded(folder: Path) -> None:
    listing = Segments(folder, make_ring(blocks=2)).save()
    assert names(listing) == []
    ring = make_ring(blocks=2)
    Segments(folder, ring).load(listing)
    assert ring.bounds()[1].tolist() == [0, 0]
    assert ring.starts(2)[1].tolist() == [0, 0]


# ------------------------------------------------------------------------------ only what is new


def test_a_save_writes_what_is_new_and_the_tail(
    folder: Path, rng: np.random.Generator, opened: list[str]
) -> None:
    ring = make_ring(capacity=30)
    segments = Segments(folder, ring, FIVE_ROWS)
    written = []
    for windows in (10, 4, 0, 1, 20):
        advance(ring.blocks[0], rng, *[2] * windows)
        opened.clear()
        listing = segments.save()
        written.append(opened.count("segments:open"))
    assert written == [4, 3, 1, 1, 6]
    assert rows_of(listing) == [(40, 45), (45, 50), (50, 55), (55, 60), (60, 65), (65, 70)]


def test_a_resumed_run_writes_nothing_again_but_the_tail(
    folder: Path, rng: np.random.Generator, opened: list[str]
) -> None:
    ring, other = make_ring(capacity=30), make_ring(capacity=30)
    advance(ring.blocks[0], rng, *[2] * 14)
    listing = Segments(folder, ring, FIVE_ROWS).save()
    resumed = Segments(folder, other, FIVE_ROWS)
    resumed.load(listing)
    opened.clear()
    assert resumed.save() == listing
    assert opened.count("segments:open") == 1


def test_a_segment_that_somebody_deleted_is_written_again(
    folder: Path, rng: np.random.Generator
) -> None:
    ring, other = make_ring(capacity=30), make_ring(capacity=30)
    segments = Segments(folder, ring, FIVE_ROWS)
    advance(ring.blocks[0], rng, *[2] * 14)
    listing = segments.save()
    (folder / names(listing)[2]).unlink()
    assert segments.save() == listing
    Segments(folder, other).load(listing)
    copy_in_flight(ring, other)
    assert same(other.snapshot(), ring.snapshot())


def test_a_run_that_takes_another_course_replaces_no_segment_of_the_first(
    folder: Path, rng: np.random.Generator
) -> None:
    ring, resumed = make_ring(capacity=30), make_ring(capacity=30)
    first, second = Segments(folder, ring, FIVE_ROWS), Segments(folder, resumed, FIVE_ROWS)
    advance(ring.blocks[0], rng, *[2] * 4)
    second.load(first.save())
    listings = []
    for each, segments in ((ring, first), (resumed, second)):
        advance(each.blocks[0], rng, *[2] * 8)
        listings.append(segments.save())
    assert rows_of(listings[0]) == rows_of(listings[1])
    assert names(listings[0])[0] == names(listings[1])[0]
    assert not set(names(listings[0])[1:]) & set(names(listings[1])[1:])
    for each, listing in zip((ring, resumed), listings, strict=True):
        other = make_ring(capacity=30)
        Segments(folder, other).load(listing)
        copy_in_flight(each, other)
        assert same(other.snapshot(), each.snapshot())


def test_pruning_deletes_what_no_listing_names_and_nothing_else(
    folder: Path, rng: np.random.Generator
) -> None:
    ring = make_ring(capacity=10, blocks=2)
    segments = Segments(folder, ring, FIVE_ROWS)
    listings = []
    for _ in range(4):
        for block in ring.blocks:
            advance(block, rng, *[2] * 4)
        listings.append(segments.save())
    for scrap in (".0-10-15.part", "0-000000000000-000000000005-0123456789abcdef.safetensors"):
        (folder / scrap).write_bytes(b"half")
    (folder / "notes.txt").write_text("the user's")
    segments.prune(listings[2:])
    kept = {*names(listings[2]), *names(listings[3])}
    assert {path.name for path in folder.iterdir()} == kept | {"notes.txt"}
    segments.prune(listings[3:])
    assert {path.name for path in folder.iterdir()} == {*names(listings[3]), "notes.txt"}
    Segments(folder.parent / "none", ring).prune([])


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_bytes_to_write_are_announced(
    folder: Path, rng: np.random.Generator, blocks: int
) -> None:
    ring = make_ring(capacity=200, state_interval=4, blocks=blocks)
    segments = Segments(folder, ring, 4000)
    for block in ring.blocks:
        advance(block, rng, *[2] * 200)
    segments.save()
    full = sum(path.stat().st_size - header(path) for path in folder.iterdir())
    assert 0.98 * full <= segments.bytes_to_write() <= 1.02 * full
    before = set(folder.iterdir())
    for block in ring.blocks:
        advance(block, rng, *[2] * 20)
    segments.save()
    new = sum(path.stat().st_size - header(path) for path in set(folder.iterdir()) - before)
    assert 0.5 * new <= new <= segments.bytes_to_write(40) < 0.6 * full


def header(path: Path) -> int:
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


# ------------------------------------------------------------------------------------ the files


def test_safetensors_is_enough_to_read_a_segment_and_its_fields_are_aligned(
    folder: Path, rng: np.random.Generator
) -> None:
    ring = make_ring(capacity=30, state_interval=4, blocks=2)
    for block in ring.blocks:
        advance(block, rng, *[2] * 10)
    listing = Segments(folder, ring).save()
    for block, (name,) in zip(ring.blocks, ([x] for x in names(listing)), strict=True):
        found = safetensors.numpy.load_file(folder / name)
        assert found["rows.observation.image"].shape == (
            20,
            *block.rows.observation.image.shape[1:],
        )
        assert same(found["rows.observation.image"], block.rows.observation.image[:20])
        assert same(found["rows.info.best"], block.rows.info["best"][:20])
        assert same(found["states.1"], block.states[1][:5].numpy())
        with safetensors.safe_open(folder / name, "numpy") as file:
            assert file.metadata() == {"begin": "0", "end": "20"}
        data = (folder / name).read_bytes()
        begin = header(folder / name)
        for field, about in json.loads(data[8:begin]).items():
            if field != "__metadata__":
                at = begin + about["data_offsets"][0]
                assert at % found[field].itemsize == 0


def test_fields_are_found_by_their_names_in_whatever_order_they_are(
    folder: Path, rng: np.random.Generator
) -> None:
    zero = np.zeros((), np.float32)
    ring = make_ring(example=EXAMPLE.replace(info={"a": zero, "b": zero}))
    other = make_ring(example=EXAMPLE.replace(info={"b": zero, "a": zero}))
    advance(ring.blocks[0], rng, 2, 2)
    Segments(folder, other).load(Segments(folder, ring).save())
    for name in ("a", "b"):
        assert same(other.rows.info[name][:4], ring.rows.info[name][:4])


def test_a_field_that_safetensors_cannot_hold_is_refused_by_name(folder: Path) -> None:
    ring = make_ring(example=EXAMPLE.replace(env_info={"x": np.zeros((), np.complex64)}))
    with pytest.raises(TypeError, match=r"rows.env_info.x has dtype complex64, which cannot"):
        Segments(folder, ring)


@pytest.mark.parametrize("blocks", [1, 2])
def test_saving_and_loading_take_a_few_slices_of_memory(
    folder: Path, rng: np.random.Generator, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SLICE_BYTES", 1 << 16)
    frame = EXAMPLE.replace(observation=np.zeros((40, 40), np.uint8))
    ring, other = (make_ring(1500, 4, 500, frame, blocks=blocks) for _ in range(2))
    for block in ring.blocks:
        advance(block, rng, *[500] * 4)

    def peak(work: Any) -> int:
        tracemalloc.start()
        work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    listings: list[Any] = []
    segments = Segments(folder, ring, 1 << 21)
    assert peak(lambda: listings.append(segments.save())) < 400_000
    assert peak(lambda: Segments(folder, other).load(listings[0])) < 600_000
    assert peak(ring.snapshot) > 9_000_000  # the control: a copy of the ring
    copy_in_flight(ring, other)
    assert same(other.snapshot(), ring.snapshot())


# --------------------------------------------------------------------------- damage is noticed


def save_twice(folder: Path, rng: np.random.Generator) -> tuple[Ring, list[dict[str, Any]]]:
    """Two checkpoints with a replay beside them; the ring of the first, and both listings."""
    ring, first = make_ring(capacity=12), make_ring(capacity=12)
    segments, listings = Segments(folder, ring, FIVE_ROWS), []
    for steps, windows in ((1, 8), (2, 4)):
        advance(ring.blocks[0], rng, *[2] * windows)
        listings.append(segments.save())
        state = {"replay": listings[-1], "weights": np.zeros(3)}
        checkpoint.save(folder.parent / "checkpoints", steps, state, keep=2)
        segments.prune(checkpoint.listings(folder.parent / "checkpoints"))
        if steps == 1:
            first.restore(ring.snapshot())
    return first, listings


def test_every_flip_and_truncation_is_noticed_and_nothing_can_be_read(
    folder: Path, rng: np.random.Generator
) -> None:
    _, (_, listing) = save_twice(folder, rng)
    draw, ring = random.Random(0), make_ring(capacity=12)
    for name in names(listing):
        Segments(folder, ring).load(listing)
        assert ring.starts(1)[1].tolist() == [12 - ring.history]
        whole = (folder / name).read_bytes()
        flips = [*range(16), *draw.sample(range(16, len(whole)), k=60)]
        lengths = [0, 7, 8, *draw.sample(range(len(whole)), k=20)]
        damaged = [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in flips]
        for data in [*damaged, *(whole[:n] for n in lengths), whole + b"\n"]:
            (folder / name).write_bytes(data)
            with pytest.raises(Damaged, match=f"{name} is damaged"):
                Segments(folder, ring).load(listing)
            assert ring.starts(1)[1].tolist() == [0]
        (folder / name).write_bytes(whole)
    Segments(folder, ring).load(listing)
    assert ring.starts(1)[1].tolist() == [12 - ring.history]


@pytest.mark.parametrize("fault", ["flip", "cut short", "missing", "not readable"])
def test_a_checkpoint_with_a_damaged_segment_falls_back_to_the_one_before(
    folder: Path, rng: np.random.Generator, fault: str
) -> None:
    first, (before, listing) = save_twice(folder, rng)
    (name, *_) = set(names(listing)) - set(names(before))
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    match fault:
        case "flip":
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case "cut short":
            path.write_bytes(whole[:-1])
        case "not readable":
            path.mkdir()
    ring = make_ring(capacity=12)
    segments = Segments(folder, ring, FIVE_ROWS)
    checkpoints = folder.parent / "checkpoints"
    with pytest.warns(RuntimeWarning, match=f"{name}.*; trying the checkpoint before it"):
        state, meta = checkpoint.load(checkpoints, lambda state: segments.load(state["replay"]))
    assert (meta["env_steps"], state["replay"]) == (1, before)
    copy_in_flight(first, ring)
    assert same(ring.snapshot(), first.snapshot())
    assert checkpoint.load(checkpoints)[1]["env_steps"] == 2  # who needs no replay
    with pytest.raises(UsageError, match=f"{name}.*choose another checkpoint"):
        checkpoint.load(checkpoints / f"{2:012d}", lambda state: segments.load(state["replay"]))


def test_listings_are_read_without_tensors_from_every_checkpoint_that_has_one(
    folder: Path, rng: np.random.Generator
) -> None:
    checkpoints = folder.parent / "checkpoints"
    assert checkpoint.listings(checkpoints) == []
    _, (before, listing) = save_twice(folder, rng)
    for path in checkpoints.glob("*/state.safetensors"):
        path.unlink()
    assert checkpoint.listings(checkpoints) == [listing, before]
    (checkpoints / f"{1:012d}" / "meta.json").write_text("{}")
    assert checkpoint.listings(checkpoints) == [listing]
    for steps, state in ((3, {"replay": None}), (4, {})):
        checkpoint.save(checkpoints, steps, state, keep=9)
    assert checkpoint.listings(checkpoints) == [listing]


# ----------------------------------------------------------------------------- another ring


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_envs": 4}, r"blocks of \[3\] environments, this one of \[4\]; resume with as many"),
        ({"blocks": 2}, r"blocks of \[3\] environments, this one of \[1, 2\]"),
        ({}, r"states.1 is not there here, but F64 \[\], every 4 rows in the saved replay"),
        ({"state_interval": 3}, r"states.1 is F64 \[\], every 3 rows here, but .* every 4"),
        (
            {"state_interval": 4, "example": EXAMPLE.replace(reward=np.zeros((), np.float64))},
            r"rows.reward is F64 \[\] here, but F32 \[\] in the saved replay; resume with",
        ),
    ],
)
def test_a_ring_of_another_kind_is_refused_by_name(
    folder: Path, rng: np.random.Generator, options: dict[str, Any], says: str
) -> None:
    ring = make_ring(state_interval=4)
    advance(ring.blocks[0], rng, 2, 2)
    listing = Segments(folder, ring).save()
    with pytest.raises(UsageError, match=says):
        Segments(folder, make_ring(**options)).load(listing)


def test_a_format_of_the_future_asks_for_an_upgrade(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "FORMAT", 2)
    listing = Segments(folder, make_ring()).save()
    monkeypatch.undo()
    with pytest.raises(UsageError, match="has format 2 .* up to 1; upgrade rlpyt"):
        Segments(folder, make_ring()).load(listing)
