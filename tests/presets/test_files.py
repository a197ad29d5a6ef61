"""Presets in files: written and read again, and what is no preset of the algorithm is named."""

import json
from pathlib import Path

import pytest

from rlpyt import PPO, presets
from rlpyt.cli import main
from rlpyt.errors import UsageError
from rlpyt.presets import files
from rlpyt.run_options import with_options

GIVEN = {"lr": 1e-3, "hidden_sizes": (32, 16), "normalize_observation": True, "env_steps": 5000}


def test_options_come_back_as_they_were_written_over_the_preset_that_they_differ_from():
    run = with_options(presets.choose("ppo", "CartPole-v1"), {**GIVEN, "seed": 3, "gamma": 0.9})
    path = Path("mine.json")
    files.write(path, run, {*GIVEN, "seed"}, why="a test")
    read = presets.choose("ppo", "Acrobot-v1", "mine.json")
    assert (read.algo.lr, read.model.hidden_sizes) == (1e-3, (32, 16))
    assert read.algo.normalize_observation and read.loop.env_steps == 5000
    assert read.loop.seed is None  # of where and when a run is made, a preset says nothing
    assert read.algo.gamma == presets.choose("ppo", "CartPole-v1").algo.gamma  # not asked for
    assert read.env.num_envs == run.env.num_envs  # of ppo/classic, not of Acrobot's own
    assert read.preset == "mine.json" and read.env.env == "Acrobot-v1"
    assert json.loads(path.read_text())["why"] == "a test"
    assert PPO("CartPole-v1", preset="mine.json", lr=2e-3).run.algo.lr == 2e-3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "preset=a.json cannot be read"),
        ("{", "preset=a.json cannot be read"),
        ("[]", "is no preset"),
        ('{"algo": "ppo"}', "is no preset"),
        ('{"algo": "dqn", "preset": "none", "options": {}}', "is of dqn, not of ppo"),
        (
            '{"algo": "ppo", "preset": "none", "options": {"l": 1}}',
            "preset=a.json: .*no option 'l'",
        ),
        ('{"algo": "ppo", "preset": "none", "options": {"gamma": 2}}', "gamma=2.0 must lie"),
        ('{"algo": "ppo", "preset": "x", "options": {}}', "preset=x is unknown"),
        ('{"algo": "ppo", "preset": "none", "options": {}, "format": 9}', "install a newer"),
    ],
)
def test_what_is_no_preset_of_the_algorithm_is_named(content, says):
    """B232: in a file, too."""
    if content is not None:
        Path("a.json").write_text(content)
    with pytest.raises(UsageError, match=says):
        presets.choose("ppo", "CartPole-v1", "a.json")


def test_the_command_line_takes_a_file(capsys):
    Path("a.json").write_text('{"algo": "ppo", "preset": "none", "options": {"lerning_rate": 1}}')
    assert main(["train", "ppo", "--env", "CartPole-v1", "--preset", "a.json"]) == 2
    assert "did you mean learning_rate?" in capsys.readouterr().err
