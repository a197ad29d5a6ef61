"""D4PG's presets. Every number has its source; "ours" is one that we chose or measured.

How published numbers are written here: see `ddpg.py`. Tassa et al. (2018, "DeepMind Control
Suite", appendix A) give D4PG's settings there: 101 atoms from -150 to 150, five steps, batches of
256, lr 1e-4, a target network that is copied every 100 updates, networks of 300 x 200 and 400 x 300
units. Its rewards lie in [0, 1]; where they do not, atoms would have to be placed anew for every
task, and the critics here are quantiles, which need no bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import D4PGOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment with bounded continuous actions: quantiles, five steps."""
    return replace(mujoco(env), preset="d4pg/default")


def pendulum(env: Any) -> Run:
    """Pendulum: small networks, learning from the thousandth step on."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # As DDPG's, with the distribution of 51 atoms. A step costs at most 16.3, which a tenth and
        # gamma make returns of at least -82: ours, as is two steps instead of five.
        algo=D4PGOptions(
            horizon=1,
            gamma=0.98,
            lr=1e-3,
            batch_size=256,
            replay_size=200_000,
            replay_ratio=256.0,
            learning_starts=1000,
            n_step=2,
            reward_scale=0.1,
            num_atoms=51,
            v_min=-80.0,
            v_max=0.0,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(64, 64)),
        loop=LoopOptions(env_steps=20_000),
        preset="d4pg/pendulum",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLanderContinuous: as DDPG's, with quantiles."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=D4PGOptions(  # the zoo's of DDPG; three steps and 51 quantiles are ours
            horizon=1,
            gamma=0.98,
            lr=1e-3,
            batch_size=256,
            replay_size=200_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            n_step=3,
            values="quantile",
            num_quantiles=51,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),
        loop=LoopOptions(env_steps=300_000),
        preset="d4pg/lunar-lander",
    )


def mountain_car(env: Any) -> Run:
    """MountainCarContinuous: as DDPG's, with quantiles."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=D4PGOptions(  # the zoo's of DDPG; three steps and 51 quantiles are ours
            horizon=1,
            gamma=0.99,
            lr=1e-3,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=100,
            n_step=3,
            values="quantile",
            num_quantiles=51,
            exploration="ou",
            exploration_std=0.5,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),
        loop=LoopOptions(env_steps=300_000),
        preset="d4pg/mountain-car",
    )


def bipedal_walker(env: Any) -> Run:
    """BipedalWalker: as for LunarLander and longer."""
    loop = LoopOptions(env_steps=1_000_000)
    return replace(lunar_lander(env), loop=loop, preset="d4pg/bipedal-walker")


def mujoco(env: Any) -> Run:
    """MuJoCo: DDPG's settings with quantiles and three steps."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Spinning Up's of DDPG (see there). Batches of 256, 51 quantiles and three steps: ours.
        # Barth-Maron et al. (2018) have five steps, and many actors that make up for them.
        algo=D4PGOptions(
            horizon=50,
            gamma=0.99,
            lr=1e-3,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=1000,
            random_steps=10_000,
            n_step=3,
            values="quantile",
            num_quantiles=51,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="d4pg/mujoco",
    )


def control_suite(env: Any) -> Run:
    """dm_control: the settings of its article, prioritized as in D4PG's."""
    return Run(
        env=EnvOptions(env, num_envs=4),
        # Tassa et al. (2018), see above. Theirs are 32 actors with noise from 1/32 to 1 and a
        # learner that never waits; four environments, an update a step and 0.3 of noise: ours.
        algo=D4PGOptions(
            horizon=1,
            gamma=0.99,
            lr=1e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            n_step=5,
            prioritized=True,
            values="categorical",
            num_atoms=101,
            v_min=-150.0,
            v_max=150.0,
            target_update_updates=100,
            target_tau=1.0,
            exploration_std=0.3,
        ),
        model=ActorQOptions(hidden_sizes=(300, 200), critic_sizes=(400, 300)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="d4pg/control-suite",
    )


def memory(env: Any) -> Run:
    """Memory tasks with bounded continuous actions: an LSTM on short sequences."""
    return Run(
        env=EnvOptions(env, num_envs=4),  # ours, as DDPG's
        algo=D4PGOptions(
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
            n_step=2,
            values="quantile",
            num_quantiles=25,
            reward_scale=0.1,
            exploration_std=0.2,
        ),
        model=ActorQOptions(hidden_sizes=(64,), memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=30_000),
        preset="d4pg/memory",
    )
