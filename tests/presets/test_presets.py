"""Presets: complete, found by environment, and the numbers that their sources have."""

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
    impala = presets.choose("impala", "ALE/Pong-v5")
    algo, rows = impala.algo, impala.env.num_envs * impala.algo.horizon
    assert (impala.env.num_envs, algo.horizon, algo.vtrace_lambda) == (32, 20, 1.0)
    assert (algo.lr, algo.entropy_coef, algo.value_coef) == (6e-4, 0.01, 0.5 / 2)
    assert (algo.rho_clip, algo.c_clip) == (1.0, 1.0)
    # The paper's are of sums over a batch, ours of means.
    assert algo.max_grad_norm * rows == pytest.approx(40)
    assert algo.optimizer_eps * rows == pytest.approx(0.01)


@pytest.mark.parametrize(
    "env", ["ALE/Pong-v5", "MinAtar/Breakout-v1", "rlpyt/CartPolePositions-v0"]
)
def test_where_rows_are_of_the_present_weights_appo_is_ppo(env):
    ppo, appo = (presets.choose(algo, env) for algo in ("ppo", "appo"))
    same = dataclasses.asdict(ppo.algo)
    assert appo.algo.vtrace_lambda == same.pop("gae_lambda")
    assert same.items() <= dataclasses.asdict(appo.algo).items()
    assert (appo.env, appo.model, appo.loop) == (ppo.env, ppo.model, ppo.loop)


@pytest.mark.parametrize(
    ("name", "start", "period", "target", "batch"),
    [
        ("atari", 50_000, 4, 10_000, 32),
        ("dopamine", 20_000, 4, 8_000, 32),
        ("dopamine-c51", 20_000, 4, 8_000, 32),
        ("dopamine-qr", 20_000, 4, 8_000, 32),
        ("dopamine-iqn", 20_000, 4, 8_000, 32),
        ("dopamine-rainbow", 20_000, 4, 8_000, 32),
        ("rainbow", 20_000, 4, 8_000, 32),
        ("atari-dqn", 50_000, 16, 312 * 16, 128),
        ("minatar", 5_000, 1, 1_000, 32),
        ("minatar-rainbow", 1_000, 4, 1_000, 32),
        ("minatar-iqn", 1_000, 4, 1_000, 32),
    ],
)
def test_the_steps_that_q_learning_counts_in_its_papers(name, start, period, target, batch):
    """Steps before learning, between updates and between target networks; transitions a batch."""
    algo = presets.choose("dqn", "X-v0", f"dqn/{name}").algo
    assert (algo.learning_starts, algo.batch_size) == (start, batch)
    assert batch / algo.replay_ratio == period
    assert algo.target_update_updates * period == target


@pytest.mark.parametrize(
    ("name", "lr", "batch", "starts", "random"),
    [
        ("ddpg/spinning-up", 1e-3, 100, 1000, 10_000),
        ("td3/spinning-up", 1e-3, 100, 1000, 10_000),
        ("sac/spinning-up", 1e-3, 100, 1000, 10_000),
        ("ddpg/tianshou", 1e-3, 256, 25_000, 25_000),
        ("td3/tianshou", 3e-4, 256, 25_000, 25_000),
        ("sac/tianshou", 1e-3, 256, 10_000, 10_000),
        ("sac/mujoco", 3e-4, 256, 10_000, 10_000),
        ("sac/redq", 3e-4, 256, 5000, 5000),
        ("sac/droq", 3e-4, 256, 5000, 5000),
        ("sac/crossq", 1e-3, 256, 5000, 5000),
    ],
)
def test_the_numbers_of_published_benchmarks(name, lr, batch, starts, random):
    """One update a step, but twenty of REDQ's and DroQ's, whatever windows are."""
    run = presets.choose(name.partition("/")[0], "HalfCheetah-v5", name)
    algo, per_step = run.algo, 20 if name in ("sac/redq", "sac/droq") else 1
    assert (algo.lr, algo.batch_size, algo.learning_starts, algo.warm_up) == (
        *(lr, batch, starts, random),
    )
    assert algo.replay_ratio / algo.batch_size == per_step
    assert (run.model.hidden_sizes, algo.gamma, algo.target_tau) == ((256, 256), 0.99, 0.005)
    assert (algo.policy_delay, algo.target_update_updates) == {
        **dict.fromkeys(("td3/spinning-up", "td3/tianshou"), (2, 2)),
        **dict.fromkeys(("sac/redq", "sac/droq"), (20, 1)),
        "sac/crossq": (3, 1),
    }.get(name, (1, 1))
    fixed = {"sac/spinning-up": 0.2, "sac/tianshou": 0.2}
    assert getattr(algo, "temperature", None) == fixed.get(name)


def test_the_numbers_of_discrete_sac():
    """Christodoulou (2019), table 2: in steps, with an update every fourth."""
    algo = presets.choose("sac", "ALE/Pong-v5").algo
    assert (algo.lr, algo.batch_size, algo.replay_size, algo.gamma) == (3e-4, 64, 1_000_000, 0.99)
    assert (algo.learning_starts, algo.entropy_fraction) == (20_000, 0.98)
    period = algo.batch_size / algo.replay_ratio
    assert (period, algo.target_update_updates * period, algo.target_tau) == (4, 8000, 1.0)


def test_the_parts_of_redq_and_tqc():
    redq, tqc = (presets.choose("sac", "Hopper-v5", name) for name in ("redq", "tqc"))
    assert (redq.algo.critics, redq.algo.target_critics) == (10, 2)
    assert (tqc.algo.critics, tqc.algo.num_quantiles, tqc.algo.drop_quantiles) == (5, 25, 2)
    assert (tqc.algo.values, tqc.model.critic_sizes) == ("quantile", (512, 512, 512))


def test_the_parts_of_droq_and_crossq():
    droq, crossq = (presets.choose("sac", "Hopper-v5", name) for name in ("droq", "crossq"))
    assert (droq.algo.critics, droq.algo.target_critics, droq.algo.actor_judge) == (2, 2, "mean")
    model = droq.model
    assert (model.critic_dropout, model.critic_layer_norm, model.layer_norm) == (0.01, True, False)
    assert (crossq.algo.adam_beta1, crossq.model.critic_sizes) == (0.5, (2048, 2048))
    assert (crossq.model.batch_norm, crossq.model.batch_norm_warm_up) == (True, 100_000)


def test_the_parts_of_rainbow():
    run = presets.choose("dqn", "ALE/Pong-v5", "rainbow")
    algo, model = run.algo, run.model
    assert algo.double
    assert model.dueling
    assert model.noisy
    assert (algo.n_step, algo.values, algo.num_atoms) == (3, "categorical", 51)
    assert (algo.prioritized, algo.priority_alpha, algo.priority_beta) == (True, 0.5, 0.4)
    assert (algo.epsilon_start, algo.epsilon_end) == (0.0, 0.0)
    assert (model.image_linear, model.head_sizes) == (False, (512,))


ATARI_Q = {  # lr, epsilon of the optimizer, n; then batch, and environment steps: between updates,
    # between targets, before learning; epsilon at the end, after steps, in evaluations
    "atari": (2.5e-4, 0.01 / 32**2, 1, 32, 4, 10_000, 50_000, 0.1, 1_000_000, 0.05),
    "dopamine": (6.25e-5, 1.5e-4 / 2, 1, 32, 4, 8000, 20_000, 0.01, 250_000, 0.001),
    "dopamine-c51": (2.5e-4, 3.125e-4, 1, 32, 4, 8000, 20_000, 0.01, 250_000, 0.001),
    "dopamine-qr": (5e-5, 3.125e-4, 3, 32, 4, 8000, 20_000, 0.01, 250_000, 0.001),
    "dopamine-iqn": (5e-5, 3.125e-4, 3, 32, 4, 8000, 20_000, 0.01, 250_000, 0.001),
    "dopamine-rainbow": (6.25e-5, 1.5e-4, 3, 32, 4, 8000, 20_000, 0.01, 250_000, 0.001),
    "rainbow": (6.25e-5, 1.5e-4, 3, 32, 4, 8000, 20_000, 0.0, 250_000, 0.0),
    "atari-dqn": (1e-4, 1e-8, 1, 128, 16, 312 * 16, 50_000, 0.01, 950_000, 0.001),
    "ernbw": (6.25e-5, 0.01 / 128, 3, 128, 16, 312 * 16, 50_000, 0.01, 950_000, 0.001),
}
EXPONENTS = {  # of priorities, and of weights from the beginning to the end
    "dopamine-qr": (0.5, 0.0, 0.0),
    "dopamine-rainbow": (0.5, 0.5, 0.5),
    "rainbow": (0.5, 0.4, 1.0),
    "ernbw": (0.6, 0.4, 1.0),
}


@pytest.mark.parametrize("name", ATARI_Q)
def test_the_numbers_of_published_q_learning(name):
    """Mnih et al. (2015), Dopamine's files, Hessel et al. (2018), the original rlpyt's."""
    algo = presets.choose("dqn", "ALE/Pong-v5", name).algo
    period = algo.batch_size / algo.replay_ratio
    assert ATARI_Q[name] == (
        *(algo.lr, algo.optimizer_eps, algo.n_step, algo.batch_size, period),
        *(algo.target_update_updates * period, algo.learning_starts),
        *(algo.epsilon_end, algo.epsilon_steps, algo.eval_epsilon),
    )
    found = (algo.priority_alpha, algo.priority_beta, algo.priority_beta_end)
    assert (found if algo.prioritized else None) == EXPONENTS.get(name)
    assert algo.double == (name in ("rainbow", "ernbw"))
    assert (algo.replay_size, algo.reward_clip, algo.gamma) == (1_000_000, "sign", 0.99)
    clipped = {"rainbow": 10.0, "atari-dqn": 10.0, "ernbw": 10.0}
    assert algo.max_grad_norm == clipped.get(name, 0.0)


def test_the_numbers_of_small_q_learning():
    """RL Zoo's MountainCar; Young and Tian (2019), Obando-Ceron and Castro (2021)."""
    car = presets.choose("dqn", "MountainCar-v0").algo
    assert (car.lr, car.gamma, car.replay_size, car.learning_starts) == (4e-3, 0.98, 10_000, 1000)
    assert (car.batch_size / car.replay_ratio, car.target_update_updates * 2) == (2, 600)
    plain, rainbow, iqn = (
        presets.choose("dqn", "MinAtar/Breakout-v1", name).algo
        for name in (None, "minatar-rainbow", "minatar-iqn")
    )
    for algo, period, target in ((plain, 1, 1000), (rainbow, 4, 1000), (iqn, 4, 1000)):
        assert algo.batch_size / algo.replay_ratio == period
        assert algo.target_update_updates * period == target
        assert (algo.optimizer_eps, algo.replay_size) == (3.125e-4, 100_000)
    assert (rainbow.lr, rainbow.n_step, rainbow.v_min, rainbow.v_max) == (1e-4, 3, -100.0, 100.0)
    assert (iqn.lr, iqn.n_step, iqn.num_fractions, iqn.greedy_fractions) == (1e-4, 1, 32, 32)


def test_the_numbers_of_the_original_r2d1():
    run = presets.choose("r2d1", "ALE/Pong-v5")
    algo = run.algo
    assert algo.rows_per_update == 32 * (40 + 80)
    assert algo.rows_per_update / algo.replay_ratio == run.env.num_envs * algo.horizon
    assert (algo.gamma, algo.lr, algo.max_grad_norm, algo.n_step) == (0.997, 1e-4, 80.0, 5)
    assert run.model.memory_size == 512
    assert (algo.priority_alpha, algo.priority_beta, algo.priority_beta_end) == (0.9, 0.6, 0.6)
    assert (algo.priority_eta, algo.value_rescale, algo.target_update_updates) == (0.9, 1e-3, 2500)
    assert (algo.learning_starts, algo.learning_starts + algo.epsilon_steps) == (100_000, 1_000_000)
    assert (algo.double, algo.loss, algo.reward_clip) == (True, "squared", "none")


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo", "r2d1"])
def test_a_memory_preset_trains_on_whole_sequences_and_has_a_blind_twin(algo):
    run = presets.choose(algo, "rlpyt/CartPolePositions-v0")
    assert run.model.memory == "lstm"
    if algo in ("ppo", "appo"):
        assert run.algo.minibatch_size >= run.algo.state_interval
    blind = dataclasses.replace(run, model=dataclasses.replace(run.model, memory="none"))
    assert blind.algo == run.algo
