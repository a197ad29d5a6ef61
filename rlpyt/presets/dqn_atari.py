"""DQN's presets for Atari, each a published configuration. Every number has its source.

How numbers are written is said in `dqn.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import DQNOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import QNetworkOptions
from rlpyt.run import LoopOptions, Run

ATARI = 10_000_000
"""Environment steps, 40M frames: where CleanRL's, the zoo's and Tianshou's Atari tables end. The
papers and Dopamine go on to 50M."""

# Mnih et al. (2015), extended data table 1. Its "target network update frequency 10,000" is said to
# count updates; in the code that was released (and in DQN Zoo) it counts environment steps, which
# are 2,500 updates. Its 0.01 is added to the square of a gradient summed over the batch, where ours
# is a mean (so in DQN Zoo). Error clipping is the Huber loss; gradients are not clipped.
MNIH = DQNOptions(
    horizon=1,
    gamma=0.99,
    lr=2.5e-4,
    optimizer="rmsprop",
    optimizer_eps=0.01 / 32**2,
    max_grad_norm=0.0,
    batch_size=32,
    replay_size=1_000_000,
    replay_ratio=8.0,
    learning_starts=50_000,
    target_update_updates=2500,
    reward_clip="sign",
    double=False,
    loss="huber",
    epsilon_end=0.1,
    epsilon_steps=1_000_000,
    eval_epsilon=0.05,
)

# Castro et al. (2018), `dopamine/jax/agents/*/configs/*.gin`: what all of them have in common, and
# Adam as in dqn.gin and rainbow.gin. Nothing is clipped but the rewards.
DOPAMINE = DQNOptions(
    horizon=1,
    gamma=0.99,
    lr=6.25e-5,
    optimizer_eps=1.5e-4,
    max_grad_norm=0.0,
    batch_size=32,
    replay_size=1_000_000,
    replay_ratio=8.0,  # update_period 4
    learning_starts=20_000,
    target_update_updates=2000,  # target_update_period 8000
    reward_clip="sign",
    double=False,
    epsilon_end=0.01,
    epsilon_steps=250_000,
    eval_epsilon=0.001,
)

# Stooke and Abbeel (2019), `rlpyt/experiments/configs/atari/dqn/atari_dqn.py`, config "dqn", and
# the defaults of its classes. Its launch scripts leave Adam's epsilon at PyTorch's 1e-8.
ORIGINAL = DQNOptions(
    horizon=2,
    gamma=0.99,
    lr=1e-4,
    max_grad_norm=10.0,
    batch_size=128,
    replay_size=1_000_000,
    replay_ratio=8.0,
    learning_starts=50_000,
    target_update_updates=312,
    reward_clip="sign",
    double=False,
    epsilon_end=0.01,
    epsilon_steps=950_000,  # from 50k steps to 1M
    eval_epsilon=0.001,
)


def atari(env: Any) -> Run:
    """Atari: Mnih et al. (2015), as published."""
    return _atari(env, "atari", MNIH, protocol="mnih2015")


def dopamine(env: Any) -> Run:
    """Atari: Dopamine's DQN, Adam on the squared error."""
    # Half their epsilon, because they differentiate the square of the error, and we half of it.
    return _atari(env, "dopamine", replace(DOPAMINE, loss="squared", optimizer_eps=0.75e-4))


def dopamine_c51(env: Any) -> Run:
    """Atari: Dopamine's C51."""
    # jax/agents/rainbow/configs/c51.gin
    algo = replace(DOPAMINE, values="categorical", lr=2.5e-4, optimizer_eps=3.125e-4)
    return _atari(env, "dopamine-c51", algo)


def dopamine_qr(env: Any) -> Run:
    """Atari: Dopamine's QR-DQN, three steps from prioritized replay."""
    # jax/agents/quantile/configs/quantile.gin: update_horizon 3, replay_scheme prioritized. The
    # exponent of its priorities is 0.5; importance weights enter the loss that it reports, not the
    # one that it differentiates (quantile_agent.py): beta 0.
    algo = replace(
        DOPAMINE,
        values="quantile",
        num_quantiles=200,
        huber_delta=1.0,
        lr=5e-5,
        optimizer_eps=3.125e-4,
        n_step=3,
        prioritized=True,
        priority_alpha=0.5,
        priority_beta=0.0,
        priority_beta_end=0.0,
    )
    return _atari(env, "dopamine-qr", algo)


def dopamine_iqn(env: Any) -> Run:
    """Atari: Dopamine's IQN, three steps from uniform replay."""
    # jax/agents/implicit_quantile/configs/implicit_quantile.gin. The product with the embedding of
    # fractions is taken before the linear layer of 512, which is then the head's (Dabney et al.,
    # 2018b, figure 1).
    algo = replace(
        DOPAMINE,
        values="implicit",
        num_fractions=64,
        greedy_fractions=32,
        huber_delta=1.0,
        lr=5e-5,
        optimizer_eps=3.125e-4,
        n_step=3,
    )
    model = QNetworkOptions(encoder="nature", image_linear=False, head_sizes=(512,))
    return _atari(env, "dopamine-iqn", algo, model)


def dopamine_rainbow(env: Any) -> Run:
    """Atari: Dopamine's Rainbow, which is C51 with three steps and prioritized replay."""
    # jax/agents/rainbow/configs/rainbow.gin; both exponents are fixed at 0.5 (rainbow_agent.py).
    algo = replace(
        DOPAMINE,
        values="categorical",
        n_step=3,
        prioritized=True,
        priority_alpha=0.5,
        priority_beta=0.5,
        priority_beta_end=0.5,
    )
    return _atari(env, "dopamine-rainbow", algo)


def rainbow(env: Any) -> Run:
    """Atari: Rainbow as in its paper, all six parts."""
    # Hessel et al. (2018), table 1 and appendix: 80k frames before learning, target every 32k,
    # no epsilon beside the noise. The clipping of gradients is the dueling paper's (Wang et al.,
    # 2016, section 4.2), which DQN Zoo's Rainbow keeps.
    algo = replace(
        DOPAMINE,
        double=True,
        values="categorical",
        n_step=3,
        prioritized=True,
        priority_alpha=0.5,
        priority_beta=0.4,
        priority_beta_end=1.0,
        max_grad_norm=10.0,
        epsilon_start=0.0,
        epsilon_end=0.0,
        eval_epsilon=0.0,
    )
    model = QNetworkOptions(
        encoder="nature",
        image_linear=False,
        head_sizes=(512,),
        dueling=True,
        noisy=True,
        noisy_sigma=0.5,
    )
    return _atari(env, "rainbow", algo, model, protocol="mnih2015")


def atari_dqn(env: Any) -> Run:
    """Atari: the original rlpyt's `dqn`."""
    return _atari(env, "atari-dqn", ORIGINAL, protocol="mnih2015", num_envs=16)


def ernbw(env: Any) -> Run:
    """Atari: the original rlpyt's `ernbw`, Rainbow without its noise."""
    # Its script is that of categorical DQN, which puts Adam's epsilon at 0.01 / batch_size.
    algo = replace(
        ORIGINAL,
        lr=6.25e-5,
        optimizer_eps=0.01 / 128,
        n_step=3,
        double=True,
        prioritized=True,
        priority_alpha=0.6,
        priority_beta=0.4,
        priority_beta_end=1.0,
        values="categorical",
    )
    model = QNetworkOptions(encoder="nature", image_linear=False, head_sizes=(512,), dueling=True)
    return _atari(env, "ernbw", algo, model, protocol="mnih2015", num_envs=16)


def _atari(
    env: Any,
    name: str,
    algo: DQNOptions,
    model: QNetworkOptions | None = None,
    protocol: Any = "dopamine",
    num_envs: int = 4,
) -> Run:
    """Stacks of four frames (Mnih et al., 2015); 4 environments x 1 row are update period 4."""
    return Run(
        env=EnvOptions(env, num_envs=num_envs, protocol=protocol, frame_stack=4),
        algo=algo,
        model=model or QNetworkOptions(encoder="nature"),
        loop=LoopOptions(env_steps=ATARI),
        preset=f"dqn/{name}",
    )
