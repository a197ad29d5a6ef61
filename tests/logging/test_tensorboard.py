"""Our event files against TensorBoard's own reader."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlpyt.logging.tensorboard import EventFile, open_sinks

reading = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="needs TensorBoard's reader"
)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}


@reading
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    for i in range(20):
        file.write(2**33 + i, {"rollout/return_mean": i / 2, "eval/ü": 1e300, "x": -math.inf})
    file.close()
    found = scalars(tmp_path)
    assert found["rollout/return_mean"] == [(2**33 + i, i / 2) for i in range(20)]
    assert len(found["eval/ü"]) == 20 and found["x"][0][1] == -math.inf


@reading
def test_after_a_resume_the_curve_has_no_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = EventFile(tmp_path)
    for i in range(1, 11):
        file.write(100 * i, {"x": 1})
    file.close()
    later = time.time() + 10
    monkeypatch.setattr(time, "time", lambda: later)
    file = EventFile(tmp_path, env_steps=500)
    for i in range(6, 8):
        file.write(100 * i, {"x": 2})
    file.close()
    assert scalars(tmp_path)["x"] == [(100 * i, 1 if i < 6 else 2) for i in range(1, 8)]


def test_without_tensorboard_there_is_one_hint_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said: list[str] = []
    assert open_sinks(tmp_path, 0, said.append) == []
    assert len(said) == 1 and "pip install tensorboard" in said[0]
    assert list(tmp_path.iterdir()) == []


def test_writing_does_not_import_tensorboard(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from rlpyt.logging.tensorboard import EventFile;"
        f"EventFile(pathlib.Path({str(tmp_path)!r})).close();"
        "print({'tensorboard', 'tensorflow', 'torch', 'google'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "set()\n"
