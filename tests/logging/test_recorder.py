"""One x a line, tensors read once a line, and no backend in training's way."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpyt.logging import recorder as module
from rlpyt.logging.csv import read
from rlpyt.logging.recorder import Recorder
from rlpyt.means import Means


class Memory:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, float]]] = []
        self.closed = False

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        self.lines.append((env_steps, dict(values)))

    def close(self) -> None:
        self.closed = True


def test_a_line_is_the_mean_of_what_was_recorded_since_the_line_before(tmp_path: Path) -> None:
    sink = Memory()
    recorder = Recorder(tmp_path, [sink])
    recorder.record_all({"loss/policy": torch.tensor(1.0, requires_grad=True), "time/env": 0.5})
    recorder.record("loss/policy", torch.tensor([3.0]))
    line = recorder.write(10)
    assert line == {"loss/policy": 2.0, "time/env": 0.5}
    recorder.record("loss/policy", 7)
    assert recorder.write(20) == {"loss/policy": 7.0}
    recorder.close()
    assert sink.lines == [(10, line), (20, {"loss/policy": 7.0})] and sink.closed
    table = read(tmp_path / "progress.csv")
    assert table["env_steps"] == [10, 20] and table["loss/policy"] == [2, 7]


def test_a_vector_of_several_tags_is_recorded_as_each_of_them_alone(tmp_path: Path) -> None:
    """Also where some lines have it and others do not, and beside a tag recorded by itself."""
    windows = [torch.rand(2) for _ in range(5)]
    folders = tmp_path / "whole", tmp_path / "apart"
    for folder in folders:
        folder.mkdir()
    recorders = [Recorder(folder) for folder in folders]
    for i, vector in enumerate(windows):
        found = Means(dict, ("loss/q", "loss/error"), vector)
        assert list(found) == ["loss/q", "loss/error"] and len(found) == 2
        assert found["loss/error"] == vector[1] and "loss/lr" not in found
        recorders[0].record_all(found)
        recorders[1].record_all(dict(found))
        if i == 2:
            for recorder in recorders:
                recorder.record("loss/q", 7.0)
                recorder.load(recorder.state())  # as a run does that is resumed
        if i == 3:
            assert recorders[0].write(i) == pytest.approx(recorders[1].write(i))
    assert recorders[0].write(9) == pytest.approx(recorders[1].write(9))
    for recorder in recorders:
        recorder.close()


def test_counts_are_those_of_when_a_line_is_written(tmp_path: Path) -> None:
    """Not means, and in no line in which nothing was learned."""
    now = {"replay/rows": 1.0}
    recorder = Recorder(tmp_path)
    for rows in (2.0, 3.0):
        now["replay/rows"] = rows
        found = Means(lambda: now)
        assert found == {"replay/rows": rows} and "loss/q" not in found
        recorder.record_all(found)
    now["replay/rows"] = 4.0
    saved = recorder.state()
    assert recorder.write(1) == {"replay/rows": 4.0}
    assert recorder.write(2) == {}
    recorder.load(saved)  # as where a run was stopped before it wrote the line
    assert recorder.write(3) == {"replay/rows": 4.0}
    recorder.close()


def test_a_recorded_tensor_may_be_overwritten_afterwards(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    loss = torch.tensor(1.0, dtype=torch.float64)
    recorder.record("loss", loss)
    loss.fill_(9)
    assert recorder.write(1) == {"loss": 1.0}
    recorder.close()


def test_an_absent_statistic_is_an_empty_cell_and_no_nan(tmp_path: Path) -> None:
    sink = Memory()
    recorder = Recorder(tmp_path, [sink])
    recorder.record("a", math.nan)
    recorder.record("a", 1.0)
    recorder.record("b", torch.tensor(math.nan))
    recorder.record("c", math.nan)
    recorder.write(1)
    recorder.close()
    assert sink.lines == [(1, {"a": 1.0})]


def test_a_tensor_of_several_numbers_is_refused_by_name(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with pytest.raises(ValueError, match=r"loss/policy has shape \(3,\)"):
        recorder.record("loss/policy", torch.zeros(3))
    recorder.close()


def test_many_losses_take_the_memory_of_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    weight = torch.ones(1000, requires_grad=True)
    for _ in range(5000):
        recorder.record("loss", (weight * 2).sum())
    ((count, total),) = recorder._sums.values()
    assert isinstance(total, torch.Tensor)
    assert (count, total.numel(), total.grad_fn) == (5000, 1, None)
    assert recorder.write(1) == {"loss": 2000.0}
    recorder.close()


def test_recording_reads_nothing_from_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: torch.Tensor) -> None:
        raise AssertionError("a tensor was read")

    recorder = Recorder(tmp_path)
    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "__float__", "__bool__", "cpu", "numpy"):
            patch.setattr(torch.Tensor, name, read)
        recorder.record("loss", torch.ones(()))
        recorder.record("loss", torch.ones(()))
    assert recorder.write(1) == {"loss": 1.0}
    recorder.close()


def test_env_steps_of_lines_never_go_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write(10)
    with pytest.raises(ValueError, match="at 5 env steps after one at 10"):
        recorder.write(5)
    recorder.close()


@pytest.mark.filterwarnings("error")
def test_a_sink_that_raises_is_said_once_and_counted(tmp_path: Path) -> None:
    class Raising(Memory):
        def write(self, env_steps: int, values: Mapping[str, float]) -> None:
            raise ConnectionError("offline")

    said: list[str] = []
    good = Memory()
    recorder = Recorder(tmp_path, [Raising(), good], tell=said.append)
    for i in range(10):
        recorder.record("x", i)
        recorder.write(i)
        time.sleep(0.005)
    recorder.close()
    assert said == [
        "Raising: ConnectionError: offline; training goes on",
        "Raising: 10 lines are missing (ConnectionError: offline)",
    ]
    assert len(good.lines) == 10 and len(read(tmp_path / "progress.csv")["x"]) == 10


def test_a_sink_that_hangs_costs_training_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, release = threading.Event(), threading.Event()

    class Hanging(Memory):
        def write(self, env_steps: int, values: Mapping[str, float]) -> None:
            hanging.set()
            release.wait()

    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)
    said: list[str] = []
    recorder = Recorder(tmp_path, [Hanging()], tell=said.append)
    for i in range(200):
        recorder.write(i)
    recorder.close()
    assert hanging.wait(30) and not release.is_set()  # the sink hangs still, and nobody waited
    assert said[0] == "Hanging: does not keep up; training goes on"
    assert "lines are missing" in said[1]
    release.set()


def test_progress_that_cannot_be_written_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    recorder = Recorder(tmp_path, tell=said.append)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(recorder._csv, "_write", full)
        for i in range(3):
            recorder.record("x", i)
            recorder.write(i)
    recorder.write(3)
    recorder.close()
    assert len(said) == 1 and "No space left" in said[0]
    assert read(tmp_path / "progress.csv")["env_steps"] == [0, 1, 2, 3]


def test_resumed_means_equal_uninterrupted_ones(tmp_path: Path) -> None:
    values = torch.rand(20).unbind()
    folders = [tmp_path / "straight", tmp_path / "resumed"]
    for folder in folders:
        folder.mkdir()
    straight, resumed = (Recorder(folder) for folder in folders)
    for i, x in enumerate(values):
        straight.record("x", x)
        resumed.record("x", x)
        if i == 7:
            state = resumed.state()
            resumed.close()
            resumed = Recorder(folders[1])
            resumed.load({tag: np.array(sums) for tag, sums in state.items()})
    assert straight.write(1) == resumed.write(1)
    straight.close()
    resumed.close()
