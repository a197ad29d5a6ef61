"""The numbers of presets are those that their sources have."""

import pytest

from rlpyt import presets


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
        assert algo.replay_size == 100_000
    assert (plain.optimizer, plain.lr, plain.optimizer_eps) == ("rmsprop", 2.5e-4, 0.01**2)
    assert rainbow.optimizer_eps == iqn.optimizer_eps == 3.125e-4
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
