"""Presets: complete, and found by environment and by name."""

import dataclasses
import inspect

import pytest

from rlpyt import presets, rules
from rlpyt.algos.options import ReplayOptions
from rlpyt.errors import UsageError
from rlpyt.presets.families import discrete, family
from rlpyt.run import ALGORITHMS, Run


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_a_complete_documented_run_that_knows_its_name(name):
    run = presets.choose(name.partition("/")[0], "X-v0", name)
    assert isinstance(run, Run)
    assert run.preset == name
    assert run.algo_name == name.partition("/")[0]
    assert inspect.getdoc(presets.PRESETS[name])
    rows = run.algo.horizon * run.env.num_envs
    assert rows % getattr(run.algo, "minibatch_size", 1) == 0


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_sets_nothing_that_has_no_effect(name):
    run = presets.choose(name.partition("/")[0], "X-v0", name)
    plain = type(run.algo)()
    idle = rules.without_effect(run.algo, run.model)
    # Ready for `--values categorical`, `--values quantile`, ... and for a memory.
    ready = {"v_min", "v_max", "num_atoms", "num_quantiles", "num_fractions", "state_interval"}
    changed = {
        field.name
        for field in dataclasses.fields(run.algo)
        if getattr(run.algo, field.name) != getattr(plain, field.name)
    }
    assert not changed & idle.keys() - ready


REPLAYING = [name for name, kind in ALGORITHMS.items() if issubclass(kind, ReplayOptions)]


@pytest.mark.parametrize("name", [x for algo in REPLAYING for x in presets.names(algo)])
def test_a_preset_looks_at_its_replay_about_as_often_as_an_update_is_due(name):
    """Else the weights that act are older than the numbers say."""
    run = presets.choose(name.partition("/")[0], "X-v0", name)
    algo = run.algo
    assert isinstance(algo, ReplayOptions)
    updates = run.env.num_envs * algo.horizon * algo.replay_ratio / algo.rows_per_update
    assert updates <= 64


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
        ("BipedalWalker-v3", "bipedal-walker"),
        (dict, "default"),
    ],
)
def test_the_environment_chooses_the_family(env, name):
    assert family(env) == name
    for algo in ALGORITHMS:
        own = f"discrete-{name}" if discrete(env) and algo == "sac" else name
        if f"{algo}/{own}" in presets.PRESETS:
            assert presets.choose(algo, env).preset == f"{algo}/{own}"


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("CartPole-v1", "classic"),
        ("Acrobot-v1", "acrobot"),
        ("LunarLander-v3", "discrete-lunar-lander"),
        ("LunarLanderContinuous-v3", "lunar-lander"),
        ("MountainCar-v0", "discrete-mountain-car"),
        ("MountainCarContinuous-v0", "mountain-car"),
        ("my_module:LunarLander-v3", "discrete-lunar-lander"),
        ("MinAtar/Breakout-v1", "minatar"),
        ("ALE/Pong-v5", "atari"),
        ("rlpyt/CartPolePositions-v0", "discrete-memory"),
        ("rlpyt/TMaze-v0", "discrete-memory"),
        ("rlpyt/PendulumPositions-v0", "memory"),
        ("Pendulum-v1", "pendulum"),
    ],
)
def test_sac_has_presets_for_either_kind_of_actions(env, name):
    run = presets.choose("sac", env)
    assert run.preset == f"sac/{name}"
    continuous = name in ("lunar-lander", "mountain-car", "memory", "pendulum")
    published = name == "atari" or continuous  # elsewhere all but even odds would be the end of it
    assert run.algo.entropy_fraction == 0.98 if published else run.algo.entropy_fraction <= 0.25


@pytest.mark.parametrize("algo", ["dqn", "r2d1"])
@pytest.mark.parametrize("env", ["Pendulum-v1", "HalfCheetah-v5"])
def test_q_learning_of_continuous_actions_is_refused_with_who_can(algo, env):
    with pytest.raises(UsageError, match=f"{algo} needs a discrete .* {env} .*choose ppo or a2c"):
        presets.choose(algo, env)
    assert presets.choose(algo, env, "default").preset == f"{algo}/default"


@pytest.mark.parametrize("algo", ["ddpg", "td3", "d4pg"])
@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5", "MinAtar/Breakout-v1"])
def test_actors_of_continuous_actions_are_refused_discrete_ones_with_who_can(algo, env):
    with pytest.raises(UsageError, match=f"{algo} needs a continuous .* {env} .*choose ppo or a2c"):
        presets.choose(algo, env)


def test_where_a_family_has_no_preset_of_its_own_the_default_is_taken():
    assert presets.choose("ppo", "BipedalWalker-v3").preset == "ppo/default"
    with pytest.raises(UsageError, match="dqn needs a discrete"):
        presets.choose("dqn", "BipedalWalker-v3")


def test_a_name_takes_the_place_of_the_family():
    assert presets.choose("ppo", "CartPole-v1", "atari").preset == "ppo/atari"
    assert presets.choose("ppo", "CartPole-v1", "ppo/atari").preset == "ppo/atari"
    assert presets.choose("ppo", "CartPole-v1", "none").preset == "none"
    assert presets.choose("dqn", "ALE/Pong-v5", "rainbow").preset == "dqn/rainbow"


@pytest.mark.parametrize(
    ("algo", "name", "message"),
    [
        ("ppq", None, r"'ppq' is unknown; did you mean ppo\?"),
        ("ppo", "clasic", r"did you mean classic\?"),
        ("ppo", "a2c/atari", "is of a2c"),
        ("ppo", "ppo/atri", r"did you mean atari\?"),
        ("dqn", "rainbw", r"did you mean rainbow\?"),
        ("r2d1", "rainbow", "preset=rainbow is unknown"),
    ],
)
def test_a_misspelt_name_is_met_with_the_nearest(algo, name, message):
    with pytest.raises(UsageError, match=message):
        presets.choose(algo, "CartPole-v1", name)


@pytest.mark.parametrize(
    "env", ["ALE/Pong-v5", "MinAtar/Breakout-v1", "rlpyt/CartPolePositions-v0"]
)
def test_where_rows_are_of_the_present_weights_appo_is_ppo(env):
    ppo, appo = (presets.choose(algo, env) for algo in ("ppo", "appo"))
    same = dataclasses.asdict(ppo.algo)
    assert appo.algo.vtrace_lambda == same.pop("gae_lambda")
    assert same.items() <= dataclasses.asdict(appo.algo).items()
    assert (appo.env, appo.model, appo.loop) == (ppo.env, ppo.model, ppo.loop)


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo", "r2d1"])
def test_a_memory_preset_trains_on_whole_sequences_and_has_a_blind_twin(algo):
    run = presets.choose(algo, "rlpyt/CartPolePositions-v0")
    assert run.model.memory == "lstm"
    if algo in ("ppo", "appo"):
        assert run.algo.minibatch_size >= run.algo.state_interval
    blind = dataclasses.replace(run, model=dataclasses.replace(run.model, memory="none"))
    assert blind.algo == run.algo
