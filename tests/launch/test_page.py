"""What docs/sweeps.md shows: its commands can be read, its Python runs, a dry run prints that."""

import re
import shlex
from pathlib import Path

import pytest

from rlpyt.cli import main, sweep, train, tune
from rlpyt.errors import UsageError

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
COMMANDS = [shlex.split(x, comments=True) for x in re.findall(r"^\$ rlpyt (.*)$", PAGE, re.M)]


def test_every_command_can_be_read(monkeypatch):
    read = 0
    Path("runs/CartPole-v1__ppo__tune__1c2e7a90").mkdir(parents=True)
    preset = '{"algo": "ppo", "preset": "none", "options": {}}'
    Path("runs/CartPole-v1__ppo__tune__1c2e7a90/best.json").write_text(preset)
    for command, *words in COMMANDS:
        if command == "sweep" and words[0] not in ("status", "retry"):
            assert sweep.parse(words)[1]
        elif command == "tune":
            pytest.importorskip("optuna")
            tune.asked_of(*tune.parse(words))
        elif command == "train":
            train.parse(words)
        read += 1
    assert read == len(COMMANDS) > 10


def test_control_a_command_that_is_wrong_is_found():
    with pytest.raises(UsageError):
        sweep.parse(shlex.split("ppo --env CartPole-v1 --sedes 3"))


def test_a_dry_run_prints_what_is_shown(capsys):
    (words,) = [words for words in COMMANDS if "--dry-run" in words]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[0] in PAGE


def test_its_python_runs(capsys):
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(block, "docs/sweeps.md", "exec"), {"__name__": "docs"})
    assert capsys.readouterr().out.count("queued None rlpyt train") == 8
