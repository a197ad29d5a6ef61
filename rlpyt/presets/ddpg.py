"""DDPG's presets. Every number has its source; "ours" is one that we chose or measured.

How published numbers are written here: an update of B transitions every environment step is
`replay_ratio` B, whatever `num_envs` and `horizon` are; those say after how many steps (their
product) the learner looks. Noise is in units in which actions lie in [-1, 1].

The zoo is RL Baselines3 Zoo's `hyperparams/ddpg.yml`, whose batch is Stable-Baselines3's 256. What
a preset does not name is the default of `DDPGOptions`: one update a step, tau 0.005, no clipping.
The paper's own (Lillicrap et al., 2016, section 7: lr 1e-4 and 1e-3, tau 0.001, weight decay, batch
normalization, an Ornstein-Uhlenbeck process of 0.2) are nobody's any more, nor here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import DDPGOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment with bounded continuous actions: moderate settings."""
    return Run(
        # CleanRL's ddpg_continuous_action.py: lr, batch, noise, 1M steps. It updates the actor and
        # the targets every other time and begins with 25k random actions: every time, and ten
        # thousand, are ours.
        env=EnvOptions(env, num_envs=1),
        algo=DDPGOptions(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="ddpg/default",
    )


def pendulum(env: Any) -> Run:
    """Pendulum: small networks, learning from the thousandth step on."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Zoo: gamma, noise, lr, 20k steps. 64 x 64 instead of 400 x 300 units, and a thousand
        # random steps instead of ten: ours.
        algo=DDPGOptions(
            horizon=1,
            gamma=0.98,
            lr=1e-3,
            batch_size=256,
            replay_size=200_000,
            replay_ratio=256.0,
            learning_starts=1000,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(64, 64)),
        loop=LoopOptions(env_steps=20_000),
        preset="ddpg/pendulum",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLanderContinuous: the zoo's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=DDPGOptions(  # zoo; its updates follow each episode, ours each step
            horizon=1,
            gamma=0.98,
            lr=1e-3,
            batch_size=256,
            replay_size=200_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),  # zoo
        loop=LoopOptions(env_steps=300_000),  # zoo
        preset="ddpg/lunar-lander",
    )


def mountain_car(env: Any) -> Run:
    """MountainCarContinuous: the zoo's, an Ornstein-Uhlenbeck process that finds the goal."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=DDPGOptions(  # zoo; what it does not name is SB3's: lr, batch, replay, 100 first steps
            horizon=1,
            gamma=0.99,
            lr=1e-3,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=100,
            exploration="ou",
            exploration_std=0.5,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),  # SB3's of DDPG and TD3
        loop=LoopOptions(env_steps=300_000),  # zoo
        preset="ddpg/mountain-car",
    )


def bipedal_walker(env: Any) -> Run:
    """BipedalWalker: the zoo's, as for LunarLander and longer."""
    loop = LoopOptions(env_steps=1_000_000)  # zoo
    return replace(lunar_lander(env), loop=loop, preset="ddpg/bipedal-walker")


def mujoco(env: Any) -> Run:
    """MuJoCo: Tianshou's settings, which score highest of the published ones at 1M steps."""
    return replace(tianshou(env), preset="ddpg/mujoco")


def tianshou(env: Any) -> Run:
    """MuJoCo: Tianshou's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=DDPGOptions(  # Tianshou's examples/mujoco/mujoco_ddpg.py
            horizon=1,
            gamma=0.99,
            lr=1e-3,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=25_000,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="ddpg/tianshou",
    )


def spinning_up(env: Any) -> Run:
    """MuJoCo: Spinning Up's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=DDPGOptions(  # Achiam (2018), "Spinning Up in Deep RL", ddpg.py and its benchmark
            horizon=50,  # update_every
            gamma=0.99,
            lr=1e-3,
            batch_size=100,
            replay_size=1_000_000,
            replay_ratio=100.0,
            learning_starts=1000,  # update_after
            random_steps=10_000,  # start_steps
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=3_000_000),
        preset="ddpg/spinning-up",
    )


def memory(env: Any) -> Run:
    """Memory tasks with bounded continuous actions: an LSTM on short sequences."""
    return Run(
        # Ours: Ni et al. (2022, "Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs")
        # for separate memories of actor and critics; sequences that overlap by half as in R2D2. For
        # position-only Pendulum, whose rewards reach -16: unscaled, and with an actor as fast as
        # the critics, the actor ended in one corner (DDPG, and TD3 with 0.1 of noise; one seed).
        env=EnvOptions(env, num_envs=4),
        algo=DDPGOptions(
            horizon=5,
            gamma=0.98,
            lr=1e-3,
            actor_lr=3e-4,
            batch_size=32,
            burn_in=10,
            train_rows=20,
            state_interval=10,
            replay_size=200_000,
            replay_ratio=480.0,
            learning_starts=2000,
            reward_scale=0.1,
            exploration_std=0.2,
        ),
        model=ActorQOptions(hidden_sizes=(64,), memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=30_000),
        preset="ddpg/memory",
    )
