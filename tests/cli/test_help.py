"""Help: derived from the options, complete, narrow enough, and quick."""

import os
import re
import resource
import subprocess
import sys

import pytest

from rlpyt.cli import main
from rlpyt.cli.train import TrainOptions, _flags, _options
from rlpyt.flags import flags_of
from rlpyt.presets import choose
from rlpyt.run import ALGORITHMS

COMMANDS = [[], ["train"], *(["train", algo] for algo in ALGORITHMS), ["eval"], ["enjoy"]]
COMMANDS += [["resume"], ["plot"], ["envs"], ["algos"], ["presets"], ["check-env"]]


def help_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_help_fits_80_columns(arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(arguments, capsys)
    assert text.startswith("usage: rlpyt")
    body = text.partition("\n\n")[2]
    assert max(map(len, body.splitlines())) <= 100
    boxed = [line for line in body.splitlines() if line.startswith("│")]
    assert all(len(line) <= 80 for line in boxed)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_help_names_every_option_and_explains_it(algo, capsys):
    text = help_of(["train", algo], capsys)
    for flag in _flags(algo):
        for spelling in flag.spellings:
            assert f"{spelling} " in text or f"{spelling}," in text, spelling
    options = re.split(r"│ --", text)[1:]
    for option in options:
        words = re.findall(r"[a-zA-Z]{2,}", option.split("(default")[0])
        assert len(words) > 4, f"no help for --{option[:40]}"


def test_defaults_shown_are_those_of_the_environments_preset(capsys):
    text = help_of(["train", "ppo", "--env", "ALE/Pong-v5"], capsys)
    assert "preset ppo/atari" in text
    assert re.search(r"--frame-stack INT\W[^-]+default:\W+4\)", text)
    assert re.search(r"--env-steps INT[^(]+\([^)]+\)[^(]+\(default:\W+10M\)", text)


def test_defaults_shown_are_those_of_a_preset_that_is_named(capsys):
    assert "preset a2c/mujoco" in help_of(["train", "a2c", "--preset", "mujoco"], capsys)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_flags_are_unique_over_all_parts_of_a_run(algo):
    run = choose(algo, "CartPole-v1")
    spellings = [s for flag in flags_of(_options(run)) for s in flag.spellings]
    assert len(set(spellings)) == len(spellings)
    assert TrainOptions.__doc__


def test_the_screens_name_every_algorithm(capsys):
    whole = help_of([], capsys)
    for algo in ALGORITHMS:
        assert algo in whole
        assert re.search(rf"^  {algo} ", help_of(["train"], capsys), re.M)


def test_the_commands_that_the_screens_show_can_be_read(capsys):
    from rlpyt.cli.train import parse

    shown = [line.split(">")[0].split() for line in help_of(["train"], capsys).splitlines()]
    commands = [words[2:] for words in shown if words[:2] == ["rlpyt", "train"]]
    complete = [words for words in commands if "--env" in words and "--help" not in words]
    assert len(complete) > 4
    for words in complete:
        parse(words)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_imports_neither_torch_nor_numpy(arguments):
    program = (
        "import sys; from rlpyt.cli import main; "
        f"main({[*arguments, '--help']}); "
        "sys.exit(', '.join({'torch', 'numpy', 'gymnasium'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_neither_torch_nor_numpy():
    program = (
        "import sys, rlpyt, rlpyt.presets, rlpyt.run; dir(rlpyt); rlpyt.__version__; rlpyt.Run; "
        "sys.exit(', '.join({'torch', 'numpy', 'gymnasium'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (["--help"], 0.25),
        (["train", "ppo", "--env", "CartPole-v1", "--help"], 0.4),
        (["train", "r2d1", "--env", "CartPole-v1", "--help"], 0.4),
    ],
)
def test_help_takes_less_processor_time_than_its_budget(arguments, seconds):
    """Processor time, the best of five: the machine may be busy with other tests."""

    def measure() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "rlpyt", *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "100"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(measure() for _ in range(5)) < seconds


def test_main_help_names_every_command(capsys):
    text = help_of([], capsys)
    for command in ("train", "eval", "enjoy", "resume", "plot", "envs", "algos", "presets"):
        assert command in text
    assert main([]) == 0  # no command at all: the same text
    assert capsys.readouterr().out == text


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rlpyt ")
