"""Help: derived from the options, complete, narrow enough, and loading little."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from rlpyt.cli import main
from rlpyt.cli.train import TrainOptions, _flags, _options
from rlpyt.flags import flags_of
from rlpyt.presets import choose
from rlpyt.run import ALGORITHMS

COMMANDS = [[], ["train"], *(["train", algo] for algo in ALGORITHMS), ["eval"], ["enjoy"]]
COMMANDS += [["resume"], ["plot"], ["envs"], ["algos"], ["presets"], ["check-env"]]
COMMANDS += [["sweep"], ["sweep", "status"], ["sweep", "retry"], ["tune"]]
COMMANDS += [["bench", "sampler"]]
IN_AN_ENVIRONMENT = [["train", algo, "--env", "CartPole-v1"] for algo in ALGORITHMS]


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
    run = choose(algo, "CartPole-v1", "default")
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


# What is loaded decides how long help takes, on any machine; benchmarks/startup.py has the times.
TYRO = (
    "import tyro, dataclasses; X = dataclasses.make_dataclass('X', [('x', int | None)]); "
    "tyro.cli(X, args=['--help'], default=X(1), config=(tyro.conf.OmitArgPrefixes,))"
)
LOADED = "finally: print('\\nLOADED', *sys.modules)"


def loaded_by(program: str) -> set[str]:
    """Modules that an interpreter of its own holds once a program of one line has ended."""
    whole = f"import sys\ntry: {program}\nexcept SystemExit: pass\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("\nLOADED")[2].split())


# Of each line that it reads, it tells what a copy of it loads that runs that line.
COPIES = f"""
import os, sys, traceback
try: {TYRO}
except SystemExit: pass
before = set(sys.modules)
for program in sys.stdin:
    if not os.fork():
        try: exec(program)
        except SystemExit: pass
        except BaseException: print(traceback.format_exc())
        print("\\nLOADED", *sorted(set(sys.modules) - before), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def beside_tyro() -> Iterator[Callable[[str], set[str]]]:
    """Gives what a program of one line loads where tyro has printed the help of one option."""
    with subprocess.Popen([sys.executable, "-c", COPIES], stdin=-1, stdout=-1, text=True) as copied:
        told, asked = copied.stdout, copied.stdin
        assert told is not None and asked is not None

        def loaded(program: str) -> set[str]:
            print(program, file=asked, flush=True)
            lines: list[str] = []
            while not lines or not lines[-1].startswith("LOADED"):
                lines.append(told.readline())
                assert lines[-1] and "Traceback" not in lines[-1], lines
            return set(lines[-1].split()[1:])

        yield loaded


def help_program(arguments: list[str]) -> str:
    return f"from rlpyt.cli import main; main({[*arguments, '--help']})"


def foreign(modules: set[str]) -> set[str]:
    """Packages that are neither ours nor the standard library's."""
    return {name.partition(".")[0] for name in modules} - {"rlpyt"} - sys.stdlib_module_names


@pytest.fixture(scope="module")
def bare() -> set[str]:
    return loaded_by("pass")


@pytest.fixture(scope="module")
def tyro() -> set[str]:
    """What tyro takes to print the help of one option, whatever its version."""
    return loaded_by(TYRO)


def test_the_main_help_loads_the_standard_library_alone_and_little_of_it(bare):
    more = loaded_by(help_program([])) - bare
    assert not foreign(more)
    ours = {name for name in more if name.startswith("rlpyt")}
    assert ours == {"rlpyt", "rlpyt.cli", "rlpyt.cli.screens", "rlpyt.errors", "rlpyt.torchrun"}
    assert len(more) < 60, sorted(more)  # 33 on Python 3.11; asyncio brings 75 more


@pytest.mark.parametrize("arguments", COMMANDS[1:] + IN_AN_ENVIRONMENT, ids=" ".join)
def test_help_of_a_command_loads_little_beside_tyro(arguments, beside_tyro):
    """No torch, numpy, gymnasium or rich: no package at all that tyro itself does not load."""
    more = beside_tyro(help_program(arguments))
    assert not foreign(more)
    ours = {name for name in more if name.startswith("rlpyt")}
    assert len(ours) < 50, sorted(ours)
    assert len(more - ours) < 25, sorted(more - ours)


def test_importing_the_package_and_its_presets_loads_no_package_but_tyro(tyro):
    program = "import rlpyt, rlpyt.presets, rlpyt.run; dir(rlpyt); rlpyt.__version__; rlpyt.Run"
    assert not foreign(loaded_by(program) - tyro)


@pytest.mark.parametrize("heavy", ["numpy", "gymnasium", "rich.console"])
def test_a_heavy_import_would_be_found(heavy, bare, tyro, beside_tyro):
    """The tests above can fail."""
    more = loaded_by(f"import {heavy}; {help_program([])}")
    assert foreign(more - bare) >= {heavy.partition(".")[0]}
    assert foreign(more - tyro) >= {heavy.partition(".")[0]}
    more = beside_tyro(f"import {heavy}; {help_program(['train'])}")
    assert foreign(more) >= {heavy.partition(".")[0]}


def test_main_help_names_every_command(capsys):
    text = help_of([], capsys)
    for command in ("train", "eval", "enjoy", "resume", "plot", "envs", "algos", "presets"):
        assert command in text
    assert main([]) == 0  # no command at all: the same text
    assert capsys.readouterr().out == text


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rlpyt ")
