"""An error of an environment is its own, with environment and call; closing hides none."""

import signal
import traceback

import pytest
from stepping import in_process, step
from toys import CountEnv, CrashEnv, Unpicklable

from rlpyt.errors import EnvironmentFault


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("how", ["raise", "unpicklable"])
def test_an_exception_keeps_its_type_and_traceback_and_says_where(where, how):
    """F1."""
    envs = in_process(
        lambda b: CrashEnv(where if b == 2 else "nowhere", 1 if where == "reset" else 3, how), 3
    )
    with pytest.raises(RuntimeError, match=f"crash in {where}") as caught:
        step(envs, 30)
    assert type(caught.value) is (Unpicklable if how == "unpicklable" else RuntimeError)
    assert caught.value.__cause__ is None
    text = "".join(traceback.format_exception(caught.value))
    assert "toys.py" in text and "in environment 2 of 3 (" in text and f"{where}(" in text


@pytest.mark.parametrize("where", ["reset", "step", "close"])
@pytest.mark.parametrize(
    ("how", "kind"), [("system exit", SystemExit), ("ctrl-c", KeyboardInterrupt)]
)
def test_an_environment_that_would_end_the_process_is_at_fault(where, how, kind, monkeypatch):
    """The run would end with code 0, and without a word."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)  # Ctrl-C raises nothing in a run
    envs = in_process(lambda b: CrashEnv(where if b == 1 else "nowhere", 1, how), 3)
    if where == "close":
        with pytest.warns(RuntimeWarning, match=rf"close\(\) raised {kind.__name__}"):
            envs.close()
        return
    with pytest.raises(EnvironmentFault, match=rf"environment 1 of 3 .*{where}.* raised") as caught:
        step(envs, 30)
    assert type(caught.value.__cause__) is kind


def test_control_ctrl_c_in_a_call_of_an_environment_stays_what_it_is():
    with pytest.raises(KeyboardInterrupt):
        step(in_process(lambda b: CrashEnv("step", 3, "ctrl-c"), 1), 30)


def test_control_nothing_is_raised_where_nothing_fails():
    step(in_process(lambda b: CrashEnv("nowhere"), 3), 30)


def test_one_that_cannot_be_closed_is_told_of_and_the_others_are_closed():
    """F1: an error of close() masks no other."""
    closed = []

    class Closes(CountEnv):
        def close(self):
            closed.append(self.column)

    envs = in_process(lambda b: CrashEnv("close") if b == 1 else Closes(column=b), 3)
    with pytest.warns(RuntimeWarning, match="environment 1 .*crash in close"):
        envs.close()
    assert closed == [0, 2]
    envs.close()  # twice is once


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_failed_close_hides_no_error_before_it():
    envs = in_process(lambda b: CrashEnv("close"), 2)

    def fail():
        try:
            raise ValueError("the first")
        finally:
            envs.close()

    with pytest.raises(ValueError, match="the first") as caught:
        fail()
    notes = caught.value.__notes__
    assert len(notes) == 2 and "environment 1" in notes[1] and "crash in close" in notes[1]
    with pytest.raises(RuntimeWarning, match="crash in close"):  # the control: it is the first
        in_process(lambda b: CrashEnv("close"), 1).close()
