"""The first signal asks, the second one ends at once, and handlers are given back."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from toys import CountEnv

from rlpyt.algos.options import A2COptions
from rlpyt.envs.options import EnvOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks
from rlpyt.stopping import StopSignal
from rlpyt.training import train

SIGNALS = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_held_and_nothing_else_happens(number):
    with StopSignal() as stop:
        assert stop.name == ""  # the control
        os.kill(os.getpid(), number)
        assert stop.name == SIGNALS[number][0]


def test_the_handlers_of_before_return():
    before = [signal.getsignal(number) for number in SIGNALS]
    with StopSignal():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(ZeroDivisionError), StopSignal():
        _ = 1 / 0
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_somebody_took_is_taken_back(number):
    """Simulators install handlers of their own, also while a run trains."""
    before = signal.getsignal(number)
    with StopSignal() as stop:
        signal.signal(number, signal.SIG_IGN)
        os.kill(os.getpid(), number)
        assert stop.name == ""  # the control
        stop.hold()
        os.kill(os.getpid(), number)
        assert stop.name == SIGNALS[number][0]
    assert signal.getsignal(number) == before
    stop.hold()
    assert signal.getsignal(number) == before  # nothing is held any more


class TakesSignals(CountEnv):
    """Of which evaluation's are made while the run trains."""

    def __init__(self):
        super().__init__()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def test_a_run_is_asked_to_stop_also_where_its_environments_take_signals():
    def ask(runner):
        if runner.evaluations.newest is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    loop = LoopOptions(env_steps=400, eval_interval=32, eval_episodes=1, seed=1)
    run = Run(EnvOptions(TakesSignals, num_envs=2), A2COptions(horizon=8), loop=loop)
    before = signal.getsignal(signal.SIGTERM)
    try:
        outcome = train(run, hooks=Hooks(on_window=ask), mode="quiet")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert outcome.status == "terminated" and outcome.saved
    assert outcome.runner.episodes.env_steps < 400


def test_a_handler_that_python_did_not_install_is_no_error(monkeypatch):
    stop = StopSignal()
    with stop:
        stop._previous[signal.SIGTERM] = None  # what signal.signal returns then
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_the_second_signal_ends_the_process_at_once(first, second):
    """R6, F15: also where nothing ever looks at the flag."""
    code = (
        "import time\nfrom rlpyt.stopping import StopSignal\n"
        "with StopSignal() as stop:\n print('ready', flush=True)\n"
        " while not stop.name: time.sleep(0.01)\n print('asked', flush=True)\n time.sleep(90)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(first)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(second)
        assert child.wait(30) == SIGNALS[second][1]  # it would sleep for longer
    finally:
        child.kill()
        child.stdout.close()
        child.wait(5)


def test_the_second_signal_gives_a_terminal_its_cursor_back():
    """R3: what shows a run has hidden it."""
    code = (
        "import os, signal\nfrom rlpyt.stopping import StopSignal\n"
        "with StopSignal():\n for _ in range(2): os.kill(os.getpid(), signal.SIGINT)"
    )
    ours, theirs = os.openpty()
    try:
        done = subprocess.run([sys.executable, "-c", code], stdout=theirs, timeout=30)
        assert done.returncode == 130
        assert os.read(ours, 99).startswith(b"\x1b[?25h")
    finally:
        os.close(ours)
        os.close(theirs)


def test_nothing_is_installed_outside_of_the_main_thread():
    before = signal.getsignal(signal.SIGINT)
    found = []

    def enter():
        with StopSignal():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(30)
    assert found == [before]
