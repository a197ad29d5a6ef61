"""rlpyt envs, algos, presets, check-env, plot."""

import json
from pathlib import Path

import pytest

from rlpyt import presets
from rlpyt.cli import main
from rlpyt.run import ALGORITHMS


def test_environments_are_found_by_a_part_of_their_name(capsys):
    assert main(["envs", "cartpole"]) == 0
    assert "CartPole-v1\n" in capsys.readouterr().out
    assert main(["envs", "cartpole-v?", "--json"]) == 0
    assert "CartPole-v1" in json.loads(capsys.readouterr().out)


def test_what_an_environment_lacks_is_said_beside_it(capsys, monkeypatch):
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jax" else there(name)
    )
    assert main(["envs", "*CartPole-v1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["CartPole-v1"] == ""
    assert found["phys2d/CartPole-v1"] == (
        "needs jax, which is not installed: pip install 'gymnasium[jax]'"
    )


def test_algorithms_and_presets_have_a_line_each(capsys):
    assert main(["algos"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*ALGORITHMS]
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == presets.names()
    assert all(len(line.split()) > 2 for line in lines)


def test_a_preset_is_shown_as_the_options_that_it_sets(capsys):
    assert main(["presets", "ppo/mujoco"]) == 0
    shown = capsys.readouterr().out.split("\n")
    assert any(line.split() == ["--minibatch-size", "64"] for line in shown)
    assert any(line.split() == ["--no-normalize-advantage"] for line in shown)
    assert any(line.split() == ["--recompute-advantages"] for line in shown)
    assert main(["presets", "ppo/classic"]) == 0
    assert "--share-trunk    false" in capsys.readouterr().out  # unset, true or false: no switch
    assert main(["presets", "dqn/rainbow"]) == 0
    shown = capsys.readouterr().out.split("\n")
    for words in (
        ["--values", "categorical"],
        ["--noisy"],
        ["--no-image-linear"],
        ["--n-step", "3"],
    ):
        assert any(line.split() == words for line in shown)


@pytest.mark.parametrize("name", ["ppo/atari", "dqn/classic", "dqn/rainbow", "dqn/minatar-iqn"])
def test_a_preset_names_the_file_that_its_numbers_are_explained_in(name, capsys):
    assert main(["presets", name]) == 0
    file = capsys.readouterr().out.rpartition("where each number is from: ")[2].strip()
    source = (Path(presets.__file__).parents[2] / file).read_text()
    assert f"def {name.partition('/')[2].replace('-', '_')}(" in source


def test_check_env_returns_1_where_training_would_fail(capsys, monkeypatch):
    assert main(["check-env", "CartPole-v1", "--steps", "50"]) == 0
    assert "nothing that stands in the way" in capsys.readouterr().out
    Path("broken_env.py").write_text(
        "import gymnasium, numpy as np\n"
        "class Broken(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,))\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        return np.zeros(3, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.zeros(3, np.float32), 0.0, False, False, {}\n"
    )
    assert main(["check-env", "broken_env:Broken", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert found[0]["severity"] == "error"


def test_plot_writes_curves_of_the_runs_below(capsys):
    short = ["--env", "CartPole-v1", "--env-steps", "2k", "--eval-episodes", "0", "--quiet"]
    assert main(["train", "a2c", *short, "--seed", "1"]) == 0
    assert main(["train", "a2c", *short, "--seed", "2"]) == 0
    capsys.readouterr()
    assert main(["plot", "runs", "--by", "algo", "--stat", "iqm", "--out", "a.svg"]) == 0
    assert capsys.readouterr().out == "a.svg\n"
    assert Path("a.svg").exists()
    assert main(["plot", "runs", "--out", "a.tiff"]) == 2
