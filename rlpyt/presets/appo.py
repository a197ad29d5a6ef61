"""APPO's presets. Every number has its source; "ours" is one that we chose or measured.

From rows of the present weights APPO is PPO, with V-trace's lambda for GAE's: the numbers are those
of PPO's presets, where their sources are. What a preset does not name is the default of
`APPOOptions`.
"""

from __future__ import annotations

from typing import Any

from rlpyt.algos.options import APPOOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment: PPO's, in shorter windows, so that rows are less old."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # `ppo.default`; horizon: ours. A window is learned from while the next is collected.
        algo=APPOOptions(
            horizon=64,
            lr=3e-4,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=128,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.2,
            entropy_coef=0.0,
        ),
        loop=LoopOptions(env_steps=500_000),
        preset="appo/default",
    )


def classic(env: Any) -> Run:
    """CartPole: 8 x 32 rows in 4 epochs of 4 minibatches; lr and clip fall to 0."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # `ppo.classic` with windows a quarter as long, and the learning rate that goes with them:
        # ours, also for rows that are several windows old.
        algo=APPOOptions(
            horizon=32,
            lr=1e-3,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=64,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.2,
            clip_schedule="linear",
            entropy_coef=0.0,
        ),
        model=ActorCriticOptions(hidden_sizes=(64, 64), activation="tanh", share_trunk=False),
        loop=LoopOptions(env_steps=100_000),
        preset="appo/classic",
    )


def atari(env: Any) -> Run:
    """Atari: PPO's, which are Sample Factory's too."""
    return Run(
        env=EnvOptions(env, num_envs=8, frame_stack=4),
        # Sample Factory's sf_examples/atari/atari_params.py has the numbers of `ppo.atari`; its
        # V-trace is off there (and lambda is GAE's), its rollouts are asynchronous or not.
        algo=APPOOptions(
            horizon=128,
            lr=2.5e-4,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.1,
            clip_schedule="linear",
            entropy_coef=0.01,
            value_coef=0.5,
            max_grad_norm=0.5,
            reward_clip="sign",
        ),
        model=ActorCriticOptions(encoder="nature", share_trunk=True),
        loop=LoopOptions(env_steps=10_000_000),  # Sample Factory: 40M frames
        preset="appo/atari",
    )


def mujoco(env: Any) -> Run:
    """MuJoCo: Sample Factory's published settings, where they are options here."""
    return Run(
        env=EnvOptions(env, num_envs=64),  # 8 workers of 8
        # Sample Factory's sf_examples/mujoco/mujoco_params.py, but for its weight of the KL
        # divergence and its clipped value error; it normalizes returns, we the rewards. V-trace is
        # off there.
        algo=APPOOptions(
            horizon=64,
            lr=2.95e-3,
            lr_schedule="linear",
            update_epochs=2,
            minibatch_size=1024,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.2,
            value_coef=1.3,
            entropy_coef=0.0,
            max_grad_norm=3.5,
            normalize_observation=True,
            normalize_reward=True,
        ),
        model=ActorCriticOptions(hidden_sizes=(64, 64), activation="tanh", share_trunk=False),
        loop=LoopOptions(env_steps=10_000_000),
        preset="appo/mujoco",
    )


def minatar(env: Any) -> Run:
    """MinAtar: PPO's."""
    return Run(
        env=EnvOptions(env, num_envs=16),  # `ppo.minatar`, here and below
        algo=APPOOptions(
            horizon=128,
            lr=1e-3,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.2,
            entropy_coef=0.02,
            value_coef=0.25,
            max_grad_norm=0.5,
        ),
        model=ActorCriticOptions(encoder="minatar", share_trunk=True),
        loop=LoopOptions(env_steps=5_000_000),  # Young and Tian (2019)
        preset="appo/minatar",
    )


def memory(env: Any) -> Run:
    """Memory tasks: PPO's (--memory gru, or none for its blind twin)."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        algo=APPOOptions(  # `ppo.memory`
            horizon=64,
            state_interval=16,
            lr=2e-3,
            lr_schedule="linear",
            update_epochs=6,
            minibatch_size=256,
            gamma=0.99,
            vtrace_lambda=0.95,
            clip_coef=0.2,
            clip_schedule="linear",
            entropy_coef=0.0,
            normalize_observation=True,
            normalize_reward=True,
        ),
        model=ActorCriticOptions(share_trunk=False, memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=100_000),
        preset="appo/memory",
    )
