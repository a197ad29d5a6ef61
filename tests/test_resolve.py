"""What a run leaves open is chosen by its length and its network."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from toys import CountEnv

from rlpyt import resolve
from rlpyt.acting import open_agent
from rlpyt.algos.compiled import COMPILED_FILE
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import DQNOptions, PPOOptions, R2D1Options
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.flat import Adam
from rlpyt.models.options import ActorCriticOptions, QNetworkOptions
from rlpyt.run import LoopOptions, Run

UPDATE_EVERY = 4  # steps: 32 transitions at a replay ratio of 8


def dqn(updates: int, **model: Any) -> Run:
    algo = DQNOptions(learning_starts=1000)
    loop = LoopOptions(env_steps=1000 + UPDATE_EVERY * updates)
    return Run(EnvOptions("CartPole-v1", num_envs=4), algo, QNetworkOptions(**model), loop)


@pytest.fixture(autouse=True)
def a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "_has_compiler", lambda: True)


@pytest.mark.parametrize(
    ("images", "least"),
    [(False, resolve.COMPILED_UPDATES), (True, resolve.COMPILED_IMAGE_UPDATES)],
)
def test_a_run_is_compiled_from_the_number_of_updates_where_it_pays(
    images: bool, least: int
) -> None:
    for updates, compiled in ((least - 1, False), (least, True)):
        found = resolve.resolve(dqn(updates), 0, 5000, images)
        assert found.compile == compiled
        assert f"{updates:,} updates" in found.reasons["compile"]


def test_memories_and_what_learns_from_windows_stay_eager() -> None:
    long = dqn(10**7)
    ppo = replace(long, algo=PPOOptions(), model=ActorCriticOptions())
    r2d1 = replace(long, algo=R2D1Options(), model=QNetworkOptions(memory="lstm"))
    for run in (r2d1, ppo):
        assert not resolve.resolve(run, 0, 5000, False).compile


def test_without_a_compiler_a_run_stays_eager_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "_has_compiler", lambda: False)
    found = resolve.resolve(dqn(10**7), 0, 5000, False)
    assert not found.compile and "no C++ compiler" in found.reasons["compile"]


def test_where_files_are_limited_to_less_than_compiling_writes_a_run_stays_eager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiling would fail after minutes, in which nothing is learned."""
    for limit, compiled in ((COMPILED_FILE, True), (COMPILED_FILE - 1, False), (2**20, False)):
        monkeypatch.setattr("resource.getrlimit", lambda which, n=limit: (n, n))
        found = resolve.resolve(dqn(10**7), 0, 5000, False)
        assert found.compile == compiled
        assert compiled or "ulimit -f" in found.reasons["compile"]
    with pytest.raises(UsageError, match="compile=on: .*256 MB.* 1 MB .*unlimited.*--compile off"):
        Learner(nn.Linear(1, 1), lambda parameters: Adam(parameters, eps=1e-5), 0.5, compile=True)


@pytest.mark.parametrize("asked", ["on", "off"])
def test_what_is_asked_for_is_done_whatever_the_length(asked: Any) -> None:
    for run in (dqn(1), dqn(10**7)):
        run = replace(run, loop=replace(run.loop, compile=asked))
        assert resolve.resolve(run, 0, 5000, False).compile == (asked == "on")


def test_large_batches_of_a_small_network_take_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thirds faster for SAC on HalfCheetah, 210k parameters and batches of 256."""
    monkeypatch.setattr(resolve, "allowed_cores", lambda: 8)
    run = dqn(1)
    for parameters, batch, threads in ((210_000, 256, 8), (210_000, 32, 1), (5000, 256, 1)):
        algo = replace(run.algo, batch_size=batch)
        found = resolve.resolve(replace(run, algo=algo), 0, parameters, False)
        assert found.threads == threads


class SetsDtype(CountEnv):
    """As differentiable simulators do when they are made."""

    def __init__(self) -> None:
        super().__init__()
        torch.set_default_dtype(torch.float64)


def test_an_environment_that_sets_the_default_dtype_is_named_with_the_remedy() -> None:
    run = Run(EnvOptions(SetsDtype), PPOOptions())
    try:
        with pytest.raises(UsageError, match=r"is torch.float64, by .*SetsDtype.*a dtype"):
            open_agent(run)
    finally:
        torch.set_default_dtype(torch.float32)
    open_agent(replace(run, env=EnvOptions(CountEnv)))  # the control


class SetsDevice(CountEnv):
    """As scripts do that have everything on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        torch.set_default_device("meta")


def test_a_default_device_that_is_another_is_named_with_the_remedy() -> None:
    try:
        with pytest.raises(UsageError, match=r"is meta, by .*SetsDevice.*--device, in place"):
            open_agent(Run(EnvOptions(SetsDevice), PPOOptions()))
    finally:
        torch.set_default_device(None)
