"""The console in terminals, pipes and notebooks; nothing that happens to it stops training."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from rlpyt.logging import console as module
from rlpyt.logging.console import Console

METRICS = {"rollout/return_mean": 22.0, "rollout/return_100": 22.0, "time/env": 0.5}


def train(console: Console, begin: int = 0, end: int = 100_000, each: int = 1024) -> None:
    for n in range(begin + each, end + each, each):
        console.update(n, METRICS if n % 2048 == 0 else None)
        if n % 8192 == 0:
            console.activity("evaluating")
            console.evaluation(n, n / 200, 1.0, 20)


class Terminal:
    """A pseudo-terminal that keeps what was written to it."""

    def __init__(self) -> None:
        self._leader, follower = pty.openpty()
        self.stream = open(follower, "w", encoding="utf-8")  # noqa: SIM115  # closed by `close`
        self.written = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 65536)
            except OSError:
                return
            if not data:
                return
            self.written += data

    def finish(self) -> str:
        self.stream.close()
        self._thread.join()
        os.close(self._leader)
        return self.written.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "REDRAW_SECONDS", 0.0)
    return Terminal()


def test_a_pipe_gets_fewer_than_thirty_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Console(1_000_000, ["rlpyt · ppo", "preset"]) as console:
        train(console, end=1_000_000, each=2048)
        console.close(["saved    run.json"])
    lines = capsys.readouterr().out.splitlines()
    assert 12 <= len(lines) < 30
    assert lines[:2] == [" rlpyt · ppo", " preset"]
    assert " 100 %" in lines[-2] and "eval 4" in lines[-2]
    assert lines[-1] == " saved    run.json"
    assert all("\x1b" not in line and len(line) < 120 for line in lines)


def test_a_long_run_in_a_pipe_shows_its_first_thousandth(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Console(1_000_000) as console:
        for n in range(1000, 1_000_001, 1000):
            now[0] += 60
            console.update(n)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16
    assert lines[0].strip() == "1k/1M    0 %  0:01:00    17 steps/s"


def test_a_resumed_run_goes_on_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    history = [(n, {**METRICS, "rollout/return_mean": n / 1000}) for n in range(1000, 90_000, 1000)]
    with Console(100_000, env_steps=89_000, history=history, solved_return=22.0) as console:
        train(console, begin=89_000)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "solved at 1k" in lines[0]


def test_a_run_without_steps_prints_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    Console(100, env_steps=100).close(["nothing to do"])
    assert capsys.readouterr().out == " nothing to do\n"


def test_quiet_prints_nothing_and_a_stream_is_used_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Console(1000, ["header"], mode="quiet") as console:
        train(console, end=1000)
    with Console(1000, ["header"], stream=sys.stderr) as console:
        train(console, end=1000)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(" header\n")


def test_a_terminal_shows_one_block_and_gets_its_cursor_back(terminal: Terminal) -> None:
    with Console(100_000, ["rlpyt · ppo"], stream=terminal.stream) as console:
        train(console, end=50_000)
        console.message("a message that stays")
        train(console, begin=50_176)
        console.close(["saved    run.json"])
    written = terminal.finish()
    assert written.count("rlpyt · ppo") == 1 and written.count("a message that stays") == 1
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "━" in written and "env 50 %" in written and "\x1b[2K" in written
    assert written.index("\x1b[?25h") < written.index("saved    run.json")


def test_an_exception_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    before = sys.stdout, sys.stderr
    with contextlib.suppress(RuntimeError), Console(1000, stream=terminal.stream) as console:
        console.update(500, METRICS)
        raise RuntimeError
    assert (sys.stdout, sys.stderr) == before
    written = terminal.finish()
    assert written.endswith("\x1b[?25h") and "500/1k" in written


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("CI", "true")])
def test_dumb_terminals_and_ci_get_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with Console(100_000, stream=terminal.stream) as console:
        train(console)
    written = terminal.finish()
    assert "\x1b" not in written and "100 %" in written


def test_no_color_has_no_colours(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with Console(100_000, stream=terminal.stream) as console:
        train(console)
    assert "\x1b[3" not in terminal.finish()


def test_a_narrow_terminal_is_survived(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "8")
    with Console(100_000, ["rlpyt · ppo"], stream=terminal.stream) as console:
        train(console)
    assert "rlpyt" in terminal.finish()


def test_an_encoding_without_our_signs_is_survived() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    with Console(1000, ["8 envs × 128 rows · é"], stream=stream) as console:
        console.update(1000)
        console.evaluation(1000, 1.0, 2.0, 3)
    stream.flush()
    assert buffer.getvalue().startswith(b" 8 envs x 128 rows | ?\n")


def test_a_reader_that_goes_away_does_not_stop_training() -> None:
    read, write = os.pipe()
    stream = os.fdopen(write, "w")
    console = Console(100_000, ["header"], stream=stream)
    os.close(read)
    train(console)
    console.message("nobody hears this")
    console.close(["nor this"])
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    closed = Console(1000, ["x"], stream=stream)
    train(closed, end=1000)
    closed.close()


def test_a_notebook_updates_one_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            shown.append(bundle["text/plain"])

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(bundle["text/html"])
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.display = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(module, "REDRAW_SECONDS", 0.0)
    with Console(100_000, ["rlpyt"]) as console:
        train(console)
        console.close(["saved"])
    assert shown[0].startswith("<pre") and "100k/100k" in shown[-1]
    assert capsys.readouterr().out.split() == ["rlpyt", "saved"]


def test_rich_is_imported_for_a_terminal_only() -> None:
    code = (
        "import sys; from rlpyt.logging.console import Console\n"
        "with Console(10) as console: console.update(10)\n"
        "print({'rich', 'torch', 'numpy'} & set(sys.modules))"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.stdout.endswith("set()\n")
