"""A2C's presets. Every number has its source; "ours" is one that we chose or measured.

The zoo is RL Baselines3 Zoo's `hyperparams/a2c.yml`. What a preset does not name is the default of
`A2COptions`: Mnih et al. (2016) as in OpenAI Baselines and Stable-Baselines3, 5 rows, RMSprop with
lr 7e-4 and epsilon 1e-5 inside the root, lambda 1, value_coef 0.5, max_grad_norm 0.5.
"""

from __future__ import annotations

from typing import Any

from rlpyt.algos.options import A2COptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment: the published settings over 16 environments."""
    return Run(
        env=EnvOptions(env, num_envs=16),  # Mnih et al. (2016): 16 actors
        algo=A2COptions(lr_schedule="linear"),
        loop=LoopOptions(env_steps=1_000_000),  # ours
        preset="a2c/default",
    )


def classic(env: Any) -> Run:
    """CartPole: 8 environments as in the zoo, Adam, and a linear learning rate."""
    return Run(
        env=EnvOptions(env, num_envs=8),  # zoo
        # Zoo: entropy_coef, and the defaults over 500k steps. Adam, horizon, lambda and lr: ours,
        # for 200k: seeds 0, 1, 2 evaluate to 500, with RMSprop at 7e-4 to 439, 475 and 255.
        algo=A2COptions(
            horizon=8,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            gae_lambda=0.95,
            entropy_coef=0.0,
            optimizer="adam",
        ),
        model=ActorCriticOptions(hidden_sizes=(64, 64), activation="tanh", share_trunk=False),
        loop=LoopOptions(env_steps=200_000),
        preset="a2c/classic",
    )


def acrobot(env: Any) -> Run:
    """Acrobot: the zoo's, normalized."""
    return Run(
        env=EnvOptions(env, num_envs=16),
        algo=A2COptions(normalize_observation=True, normalize_reward=True, entropy_coef=0.0),
        loop=LoopOptions(env_steps=500_000),
        preset="a2c/acrobot",
    )


def mountain_car(env: Any) -> Run:
    """MountainCar, discrete or continuous: the zoo's for the discrete one, normalized."""
    return Run(
        env=EnvOptions(env, num_envs=16),
        algo=A2COptions(normalize_observation=True, normalize_reward=True, entropy_coef=0.0),
        loop=LoopOptions(env_steps=1_000_000),
        preset="a2c/mountain-car",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLander, discrete or continuous: the zoo's for the discrete one."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        algo=A2COptions(lr=8.3e-4, lr_schedule="linear", gamma=0.995, entropy_coef=1e-5),
        loop=LoopOptions(env_steps=200_000),
        preset="a2c/lunar-lander",
    )


def pendulum(env: Any) -> Run:
    """Pendulum: the zoo's without state-dependent exploration."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Zoo (Pendulum-v0, "almost tuned"), but for use_sde and the log_std_init that belongs to
        # it. gamma 0.9: the zoo's own for PPO on this task; its A2C has 0.99.
        algo=A2COptions(
            horizon=8,
            lr=7e-4,
            lr_schedule="linear",
            gamma=0.9,
            gae_lambda=0.9,
            value_coef=0.4,
            max_grad_norm=0.5,
            entropy_coef=0.0,
            normalize_observation=True,
            normalize_reward=True,
        ),
        loop=LoopOptions(env_steps=1_000_000),
        preset="a2c/pendulum",
    )


def atari(env: Any) -> Run:
    """Atari: the published settings, as in OpenAI Baselines and the zoo."""
    return Run(
        env=EnvOptions(env, num_envs=16, frame_stack=4),  # Mnih et al. (2016); (2015)
        # Baselines' a2c.py, whose value_coef 0.5 weighs half the squared error: 0.25, as the zoo
        # has it. Rewards by sign: Mnih et al. (2015).
        algo=A2COptions(
            horizon=5,
            lr=7e-4,
            lr_schedule="linear",
            gamma=0.99,
            gae_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            max_grad_norm=0.5,
            reward_clip="sign",
        ),
        model=ActorCriticOptions(encoder="nature", share_trunk=True),
        loop=LoopOptions(env_steps=10_000_000),  # zoo: 40M frames
        preset="a2c/atari",
    )


def mujoco(env: Any) -> Run:
    """MuJoCo: Tianshou's settings."""
    return Run(
        env=EnvOptions(env, num_envs=16),
        algo=A2COptions(  # Tianshou's examples/mujoco/mujoco_a2c.py
            horizon=5,  # 80 steps over 16 environments
            lr=7e-4,
            lr_schedule="linear",
            gamma=0.99,
            gae_lambda=0.95,
            value_coef=0.5,
            entropy_coef=0.01,
            max_grad_norm=0.5,
            normalize_observation=True,
            normalize_reward=True,  # they divide returns; see ppo.mujoco
        ),
        model=ActorCriticOptions(
            hidden_sizes=(64, 64), activation="tanh", share_trunk=False, log_std_init=-0.5
        ),
        loop=LoopOptions(env_steps=1_000_000),
        preset="a2c/mujoco",
    )


def minatar(env: Any) -> Run:
    """MinAtar: the Atari preset with raw rewards and lambda 0.8."""
    return Run(
        env=EnvOptions(env, num_envs=16),
        # As `atari`; lambda: the actor-critic of Young and Tian (2019), which MinAtar's published
        # curves are of. Rewards are raw there, and small.
        algo=A2COptions(
            horizon=5,
            lr=7e-4,
            lr_schedule="linear",
            gamma=0.99,
            gae_lambda=0.8,
            entropy_coef=0.01,
            value_coef=0.25,
        ),
        model=ActorCriticOptions(encoder="minatar", share_trunk=True),
        loop=LoopOptions(env_steps=5_000_000),  # Young and Tian (2019)
        preset="a2c/minatar",
    )


def memory(env: Any) -> Run:
    """Memory tasks: the classic preset with an LSTM (--memory gru, or none for its blind twin)."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        algo=A2COptions(  # as `classic`; twice the rows: the gradient sees one window
            horizon=16,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            gae_lambda=0.95,
            entropy_coef=0.0,
            optimizer="adam",
        ),
        model=ActorCriticOptions(share_trunk=False, memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=200_000),
        preset="a2c/memory",
    )
