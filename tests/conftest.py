"""What holds in every test: one torch thread, seeded property tests, no run written elsewhere."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

# Set before SDL and Matplotlib load: a test never opens a window.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MPLBACKEND", "Agg")
# What a test starts as a process of its own inherits this: two cores are shared by all of them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What `rlpyt bench sampler` found on this machine is of no test, and no test adds to it.
os.environ["RLPYT_CACHE"] = os.devnull

# A shell starts what runs in its background with SIGINT ignored, and processes inherit that; the
# tests of Ctrl-C mean it as a terminal sends it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "law", deadline=None, derandomize=True, max_examples=50, database=None
)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "law"))


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Small networks are fastest on one thread, and a test that sets another number undoes it."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs are written to `runs/` below the working directory: here, below the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """R3: no process outlives the test."""
    from small_sampling import descendants

    before = descendants()
    yield
    deadline = time.monotonic() + 5
    while descendants() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert descendants() <= before


@pytest.fixture
def no_plan_is_left() -> Iterator[None]:
    """Nothing strikes at fault points (`strikes.py`) after the test."""
    from rlpyt import faultpoints

    yield
    faultpoints.plan = None


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that updates were compiled to, by a compiler that generates no code."""
    from torch._dynamo.backends.debugging import aot_eager
    from torch._inductor import compile_fx

    torch.compiler.reset()
    seen: list[Any] = []

    def cheap(graph: Any, inputs: Any, **_: Any) -> Any:
        seen.append(graph)
        return aot_eager(graph, inputs)

    monkeypatch.setattr(compile_fx, "compile_fx", cheap)
    yield seen
    torch.compiler.reset()
