"""Presets: complete, found by environment, and the numbers that their sources have."""

import dataclasses
import inspect

import pytest

from rlpyt import presets
from rlpyt.errors import UsageError
from rlpyt.presets.families import family
from rlpyt.run import Run


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_a_complete_documented_run_that_knows_its_name(name):
    run = presets.choose(name.partition("/")[0], "X-v0", name)
    assert isinstance(run, Run)
    assert run.preset == name
    assert run.algo_name == name.partition("/")[0]
    assert inspect.getdoc(presets.PRESETS[name])
    rows = run.algo.horizon * run.env.num_envs
    assert rows % getattr(run.algo, "minibatch_size", 1) == 0


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("CartPole-v1", "classic"),
        ("Acrobot-v1", "acrobot"),
        ("MountainCar-v0", "mountain-car"),
        ("MountainCarContinuous-v0", "mountain-car"),
        ("LunarLander-v3", "lunar-lander"),
        ("LunarLanderContinuous-v3", "lunar-lander"),
        ("Pendulum-v1", "pendulum"),
        ("ALE/Pong-v5", "atari"),
        ("PongNoFrameskip-v4", "atari"),
        ("HalfCheetah-v5", "mujoco"),
        ("InvertedPendulum-v5", "mujoco"),
        ("Humanoid-v4", "mujoco"),
        ("dm_control/cheetah-run-v0", "mujoco"),
        ("MinAtar/Breakout-v1", "minatar"),
        ("rlpyt/CartPolePositions-v0", "memory"),
        ("my_module:HalfCheetah-v5", "mujoco"),
        ("my_module:make_env", "default"),
        ("BipedalWalker-v3", "default"),
        (dict, "default"),
    ],
)
def test_the_environment_chooses_the_family(env, name):
    assert family(env) == name
    for algo in ("ppo", "a2c"):
        assert presets.choose(algo, env).preset == f"{algo}/{name}"


def test_a_name_takes_the_place_of_the_family():
    assert presets.choose("ppo", "CartPole-v1", "atari").preset == "ppo/atari"
    assert presets.choose("ppo", "CartPole-v1", "ppo/atari").preset == "ppo/atari"
    assert presets.choose("ppo", "CartPole-v1", "none").preset == "none"


@pytest.mark.parametrize(
    ("algo", "name", "message"),
    [
        ("ppq", None, r"'ppq' is unknown; did you mean ppo\?"),
        ("ppo", "clasic", r"did you mean classic\?"),
        ("ppo", "a2c/atari", "is of a2c"),
        ("ppo", "ppo/atri", r"did you mean atari\?"),
    ],
)
def test_a_misspelt_name_is_met_with_the_nearest(algo, name, message):
    with pytest.raises(UsageError, match=message):
        presets.choose(algo, "CartPole-v1", name)


def test_the_numbers_of_the_papers():
    atari = presets.choose("ppo", "ALE/Pong-v5").algo
    assert (atari.horizon, atari.update_epochs, atari.minibatch_size) == (128, 4, 256)
    assert (atari.lr, atari.clip_coef, atari.entropy_coef) == (2.5e-4, 0.1, 0.01)
    mujoco = presets.choose("ppo", "HalfCheetah-v5")
    assert mujoco.algo.horizon * mujoco.env.num_envs == 2048
    assert mujoco.algo.recompute_advantages
    assert not mujoco.algo.normalize_advantage
    a2c = presets.choose("a2c", "ALE/Pong-v5")
    assert (a2c.env.num_envs, a2c.algo.horizon, a2c.algo.gae_lambda) == (16, 5, 1.0)


def test_a_memory_preset_trains_on_whole_sequences_and_has_a_blind_twin():
    run = presets.choose("ppo", "rlpyt/CartPolePositions-v0")
    assert run.model.memory == "lstm"
    assert run.algo.minibatch_size >= run.algo.horizon
    blind = dataclasses.replace(run, model=dataclasses.replace(run.model, memory="none"))
    assert blind.algo == run.algo
