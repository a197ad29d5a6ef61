"""Killed or out of space at any place of a save with replay: an older or a newer one is there."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_rings import advance, copy_in_flight, make_ring, same
from strikes import at_place, full_disk, killed, places

from rlpyt import checkpoint, faultpoints
from rlpyt.replays.segments import Segments
from rlpyt.ring import Ring

FIVE_ROWS = 5 * 3 * (6 + 8 + 4 + 4 + 8 + 2)
KEEP = 2


pytestmark = pytest.mark.usefixtures("no_plan_is_left")


class SavedRun:
    """What a run does with its replay: rows that depend on their number alone, saves, resumes."""

    def __init__(self, folder: Path) -> None:
        self.checkpoints, self.replay = folder / "checkpoints", folder / "replay"
        self.ring = make_ring(capacity=12, state_interval=2, blocks=2)
        self.segments = Segments(self.replay, self.ring, FIVE_ROWS)

    def go_on(self, windows: int) -> None:
        for _ in range(windows):
            for i, block in enumerate(self.ring.blocks):
                advance(block, np.random.default_rng([i, block.answered]), 2)

    @property
    def env_steps(self) -> int:
        return self.ring.blocks[0].answered

    def save(self) -> None:
        state = {"replay": self.segments.save()}
        checkpoint.save(self.checkpoints, self.env_steps, state, KEEP)
        self.segments.prune(checkpoint.listings(self.checkpoints))

    def resume(self) -> int:
        """Load the newest checkpoint; what was in flight is made again."""
        _, meta = checkpoint.load(self.checkpoints, lambda s: self.segments.load(s["replay"]))
        copy_in_flight(ring_at(meta["env_steps"]), self.ring)
        return meta["env_steps"]

    def is_whole(self) -> bool:
        return same(self.ring.snapshot(), ring_at(self.env_steps).snapshot())

    def is_tidy(self) -> bool:
        """Whether no file is on disk that no checkpoint lists."""
        listings = checkpoint.listings(self.checkpoints)
        files = {x["name"] for each in listings for part in each["blocks"] for x in part["files"]}
        return len(listings) <= KEEP and {path.name for path in self.replay.iterdir()} == files


def ring_at(env_steps: int) -> Ring:
    """The ring of a run that was never stopped."""
    run = SavedRun(Path("nowhere"))
    run.go_on(env_steps // 2)
    return run.ring


def resumed(folder: Path) -> SavedRun:
    run = SavedRun(folder)
    run.resume()
    return run


def saved_run(folder: Path) -> SavedRun:
    """A run with two checkpoints, which has gone on since, so that the next drops segments."""
    shutil.rmtree(folder, ignore_errors=True)
    run = SavedRun(folder)
    for windows in (5, 3):
        run.go_on(windows)
        run.save()
    run.go_on(4)
    return run


@pytest.mark.parametrize("first", [False, True])
def test_killed_at_any_place_of_a_save_the_old_or_the_new_replay_loads(
    tmp_path: Path, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F21."""
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a kill takes nothing from the system

    def prepare() -> SavedRun:
        run = saved_run(tmp_path / "run")
        if first:  # no folder yet, and a ring that is saved for the first time
            shutil.rmtree(tmp_path / "run")
            checkpoint.save(run.checkpoints, 1, {"replay": None}, KEEP)
            run = SavedRun(tmp_path / "run")
            run.go_on(12)
        return run

    passed = places(prepare().save)
    assert {"segments:open", "segments:write", "segments:fsync", "segments:rename"} < set(passed)
    assert ("segments:make folder" in passed) == first != ("segments:remove" in passed)
    done = passed.index("checkpoint:rename new")
    writes = [n for n, place in enumerate(passed) if place == "segments:write"]
    for number in sorted({*range(len(passed))} - {*writes} | {*writes[::25]}):
        run, place = prepare(), passed[number]
        assert killed(number, run.save)
        if first and number <= done:
            assert checkpoint.load(run.checkpoints)[1]["env_steps"] == 1
            continue
        again = SavedRun(tmp_path / "run")
        assert again.resume() == (24 if number > done else 16), place
        assert again.is_whole(), place
        again.go_on(3)
        again.save()
        assert again.is_tidy(), place
        assert resumed(tmp_path / "run").is_whole(), place


def test_killed_again_and_again_a_run_loses_what_came_after_its_last_checkpoint_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F18: kills at random places, each in the run that was resumed after the kill before."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    draw, kills = random.Random(1), 0
    run = saved_run(tmp_path / "run")
    least = 16
    for _ in range(40):
        run.go_on(draw.randrange(1, 9))
        kills += killed(draw.randrange(150), run.save)
        run = SavedRun(tmp_path / "run")
        assert run.resume() >= least
        least = run.env_steps
        assert run.is_whole()
    assert 10 < kills < 40 and least > 16
    run.save()
    assert run.is_tidy()


def test_a_disk_that_fills_at_any_place_leaves_the_older_replay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    passed = places(saved_run(tmp_path / "run").save)
    writes = [n for n, place in enumerate(passed) if place == "segments:write"]
    to_try = {*range(passed.index("segments:remove"))} - {*writes} | {*writes[::25]}
    for number in sorted(to_try):
        run = saved_run(tmp_path / "run")
        at_place(number, full_disk)
        with pytest.raises(OSError, match="No space left"):
            run.save()
        faultpoints.plan = None
        assert not [path.name for path in run.replay.iterdir() if path.name.endswith(".part")]
        assert resumed(tmp_path / "run").is_whole()
        assert run.is_whole()
        run.save()  # there is space again
        assert run.is_tidy()
        assert resumed(tmp_path / "run").env_steps == run.env_steps == 24


def test_a_full_file_system_is_an_error_that_says_what_is_whole(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in for the full disk: the write itself fails in the system."""
    script = (
        "import resource, signal, sys\n"
        "import numpy as np\n"
        "from random_rings import EXAMPLE, make_ring\n"
        "from rlpyt.replays.segments import Segments\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "frame = EXAMPLE.replace(observation=np.zeros((80, 80), np.uint8))\n"
        "ring = make_ring(40, 1, 30, frame)\n"
        "ring.blocks[0].reserve(30)\n"
        "ring.blocks[0].answer(30)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try:\n"
        "    Segments(sys.argv[1], ring).save()\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "replay")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "not saved, the checkpoints before it are whole" in done.stdout, done.stderr
    assert list((tmp_path / "replay").iterdir()) == []


def test_segments_are_on_the_disk_before_they_get_their_names_and_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SavedRun(tmp_path / "run")
    run.go_on(4)
    order: list[Any] = []
    replace, rename = os.replace, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: order.append(os.fstat(file).st_ino))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("segment"), replace(a, b)))
    monkeypatch.setattr(os, "rename", lambda a, b: (order.append("checkpoint"), rename(a, b)))
    run.save()
    files = sorted(run.replay.iterdir())
    assert len(files) == 4
    named = [x for path in files for x in (path.stat().st_ino, "segment")]
    replay = run.replay.stat().st_ino
    assert order[:10] == [run.replay.parent.stat().st_ino, *named, replay]
    assert order.index("checkpoint") > order.index(replay)
