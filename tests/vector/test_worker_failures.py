"""A worker that fails ends the run, with its name, its environments and the cause."""

import os
import re
import signal
import time
import warnings
from functools import partialmethod
from typing import Any

import numpy as np
import pytest
from faulty_workers import B, collect, faulty
from small_sampling import descendants, parts_of
from small_workers import at_most, stream

from rlpyt.errors import EnvironmentFault, StopAsked, WorkerError
from rlpyt.processes.start import Processes
from rlpyt.stopping import StopSignal

pytestmark = pytest.mark.usefixtures("leaves_nothing")

NAMED = r"worker \d \(pid \d+, environments [\d ,to]+\) "


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("where", "k"), [("step", 0), ("step", 37), ("reset", 0), ("reset", 3)])
def test_an_environment_that_raises_is_named_with_its_traceback(where, k, groups):
    """F1, B056."""
    call = r"step\(" if where == "step" else r"reset\(seed=\d+\)"
    says = NAMED + "failed: ValueError: a fault of its own"
    with pytest.raises(WorkerError, match=says) as caught:
        collect(faulty(where=where, k=k, groups=groups))
    text = str(caught.value)
    assert 2 in caught.value.columns and caught.value.pid
    assert "Traceback" in text and "in misbehave" in text
    assert np.char.find(text, "in environment 2 of 4 (small_workers:Faulty), ") > 0
    assert re.search(rf"in environment 2 of 4 \(small_workers:Faulty\), {call}", text)


def test_an_exception_that_cannot_be_pickled_arrives_as_text():
    with pytest.raises(WorkerError, match="Unpicklable"):
        collect(faulty("unpicklable"))


def test_an_environment_that_cannot_be_closed_masks_nothing():
    """F1: in close; its worker tells of it on stderr, and ends as the others do."""
    assert len(collect(faulty(where="close")).reward)


def test_a_close_that_hangs_does_not_hide_what_failed(monkeypatch):
    kwargs = {"column": 2, "how": "raise", "k": 20}
    given: Any = {"sampler": "workers", "workers": 2, "env_step_timeout": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the other worker's close is told of
        parts = parts_of("ppo", "small_workers:Stuck", kwargs, **given)
        monkeypatch.setattr(Processes, "stop", partialmethod(Processes.stop, 0.3))
        with pytest.raises(WorkerError, match="failed: ValueError: a fault of its own"):
            collect(parts)


@pytest.mark.parametrize(
    ("how", "says", "groups"),
    [
        ("exit 0", "exited with code 0", 1),
        ("exit 0", "exited with code 0", 2),
        ("exit 3", "exited with code 3", 1),
        ("null pointer", "SIGSEGV", 2),
        ("SIGABRT", "SIGABRT", 1),
        ("SIGBUS", "SIGBUS", 2),
        ("SIGKILL", r"killed by SIGKILL \(-9", 1),
        ("SIGKILL", r"killed by SIGKILL \(-9", 2),
    ],
)
def test_a_death_is_noticed_at_once_with_its_cause(how, says, groups, tmp_path):
    """F4, F5, B058: R1 and R2."""
    parts = faulty(how, groups=groups, k=20)
    parts.home.folder = tmp_path
    try:
        parts.sampler.reset()
        begun = time.monotonic()
        with pytest.raises(WorkerError, match=NAMED) as caught:
            stream(parts.sampler, 2)
        assert time.monotonic() - begun < 10  # 2 s where nothing else is at work
    finally:
        parts.close()
    assert re.search(says, caught.value.message) and 2 in caught.value.columns
    assert "environment 2, step" in caught.value.message
    if how == "null pointer":
        assert "in misbehave" in str(caught.value)  # faulthandler's trace


@pytest.mark.parametrize("how", ["SIGSTOP", "sleep", "loop", "loop in C"])
def test_a_call_that_does_not_return_ends_by_its_time_out(how, tmp_path):
    """F7, B059: R1, R8."""
    parts = faulty(how, groups=2, env_step_timeout=0.4, k=20)
    parts.home.folder = tmp_path
    begun = time.monotonic()
    with pytest.raises(
        WorkerError, match=NAMED + "did not answer for 0.4 s.*--env-step-timeout"
    ) as caught:
        collect(parts)
    assert time.monotonic() - begun < 15  # 0.4 + 2 s where nothing else is at work
    assert "environment 2, step" in str(caught.value)
    stacks = list((tmp_path / "stacks").iterdir())
    assert any("waits for" in file.read_text() for file in stacks)


def test_control_a_slow_call_is_no_hang_and_without_a_limit_none_is():
    """One step of 0.7 s, among others that keep their workers' hearts beating."""
    rows = collect(faulty("slow", env_step_timeout=5.0))
    assert (rows.observation[..., 0] == np.arange(B)).all()
    collect(faulty("slow", env_step_timeout=0.0))
    parts = faulty("sleep", env_step_timeout=0.0)
    with pytest.raises(TimeoutError), at_most(1.5):
        stream(parts.sampler, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for pid in descendants():
            os.kill(pid, signal.SIGKILL)
        parts.close()


def test_control_without_looking_a_death_is_not_noticed(monkeypatch):
    parts = faulty("SIGKILL", env_step_timeout=0.0)
    parts.sampler.reset()
    with monkeypatch.context() as patch:
        patch.setattr(Processes, "look", lambda self: None)
        with pytest.raises(TimeoutError), at_most(1.5):
            stream(parts.sampler, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        parts.close()


def test_a_constructor_that_raises_is_named():
    """F3, B055."""
    with pytest.raises(WorkerError, match="a fault of its own") as caught:
        collect(faulty(where="init"))
    assert "while environment 2 of 4 (small_workers:Faulty, train) was made" in str(caught.value)


def test_a_constructor_that_never_returns_ends_by_the_limit_of_a_start():
    """F3."""
    with pytest.raises(
        WorkerError,
        match="worker 1 .*did not answer for 0.5 s.*environment 2, make.*--start-timeout",
    ):
        collect(faulty("sleep", where="init", start_timeout=0.5))


def test_a_slow_constructor_is_told_of(monkeypatch):
    """F3: a line, and it goes on."""
    monkeypatch.setattr("rlpyt.vector.driver.TELL_AFTER", 0.2)
    parts, told = faulty("slow", where="init"), []
    parts.sampler.envs._driver._tell = told.append
    collect(parts)
    assert len(told) == 1 and "is still starting after" in told[0]


@pytest.mark.parametrize("groups", [1, 2])
def test_what_is_not_finite_is_named_as_in_one_process(groups):
    """F9."""
    for parts in (faulty("nan", groups=groups), faulty("nan", sampler="serial", workers=None)):
        with pytest.raises(EnvironmentFault, match="observation of environment 2 .* at row"):
            collect(parts)


def test_an_answer_that_is_not_finite_reaches_no_worker():
    """F10: of the second group, by its own number."""
    parts = parts_of("normalized", sampler="workers", workers=1, groups=2)
    try:
        parts.sampler.reset()
        act, count = parts.agent.act, [0]

        def poisoned(inputs: Any, state: Any, draw: Any) -> Any:
            action, info, state = act(inputs, state, draw)
            count[0] += 1
            if count[0] == 8:  # group 1 at row 3
                action[1] = float("nan")
            return action, info, state

        parts.agent.act = poisoned
        with pytest.raises(FloatingPointError, match="^action for environment 3 .* at row 3"):
            parts.sampler.collect()
    finally:
        parts.close()


def test_ctrl_c_during_a_hung_step_does_not_wait_for_the_time_out(monkeypatch):
    monkeypatch.setattr("rlpyt.processes.wait.GRACE", 0.3)
    parts = faulty("sleep", env_step_timeout=60.0)
    begun = time.monotonic()
    try:
        with StopSignal() as stop:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            with pytest.raises(StopAsked):
                stream(parts.sampler, 2)
        assert stop.name == "interrupted"
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            parts.close()
    assert time.monotonic() - begun < 20
