"""TD3's presets. Every number has its source; "ours" is one that we chose or measured.

How published numbers are written here: see `ddpg.py`. The zoo is RL Baselines3 Zoo's
`hyperparams/td3.yml`, whose batch is Stable-Baselines3's 256. What a preset does not name is the
default of `TD3Options`, which are the paper's (Fujimoto et al., 2018, section 6.1): the actor and
the targets every other update, tau 0.005, noise of 0.2 clipped at 0.5 on the targets' actions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import TD3Options
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment with bounded continuous actions: the paper's, with fewer random steps."""
    run = mujoco(env)
    # Ten thousand random steps, as in the paper for HalfCheetah and Ant: its code has 25 thousand.
    return replace(run, algo=replace(run.algo, learning_starts=10_000), preset="td3/default")


def pendulum(env: Any) -> Run:
    """Pendulum: small networks, learning from the thousandth step on."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Zoo: gamma, noise, lr, 20k steps. 64 x 64 instead of 400 x 300 units, and a thousand
        # random steps instead of ten: ours.
        algo=TD3Options(
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
        preset="td3/pendulum",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLanderContinuous: the zoo's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=TD3Options(  # zoo; its updates follow each episode, ours each step
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
        preset="td3/lunar-lander",
    )


def mountain_car(env: Any) -> Run:
    """MountainCarContinuous: the zoo's, an Ornstein-Uhlenbeck process that finds the goal."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=TD3Options(  # zoo; what it does not name is SB3's: lr, batch, replay, 100 first steps
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
        preset="td3/mountain-car",
    )


def bipedal_walker(env: Any) -> Run:
    """BipedalWalker: the zoo's, as for LunarLander and longer."""
    loop = LoopOptions(env_steps=1_000_000)  # zoo
    return replace(lunar_lander(env), loop=loop, preset="td3/bipedal-walker")


def mujoco(env: Any) -> Run:
    """MuJoCo: the authors' code, whose settings are Tianshou's too."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # github.com/sfujim/TD3, main.py and TD3.py; Tianshou's examples/mujoco/mujoco_td3.py. The
        # paper itself has lr 1e-3, batches of 100 and 400 x 300 units.
        algo=TD3Options(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=25_000,
            exploration_std=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="td3/mujoco",
    )


def tianshou(env: Any) -> Run:
    """MuJoCo: Tianshou's, the authors' own."""
    return replace(mujoco(env), preset="td3/tianshou")


def spinning_up(env: Any) -> Run:
    """MuJoCo: Spinning Up's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=TD3Options(  # Achiam (2018), "Spinning Up in Deep RL", td3.py and its benchmark
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
        preset="td3/spinning-up",
    )


def memory(env: Any) -> Run:
    """Memory tasks with bounded continuous actions: an LSTM on short sequences."""
    return Run(
        # Ours: separate memories of actor and critics as in Ni et al. (2022, "Recurrent Model-Free
        # RL Can Be a Strong Baseline for Many POMDPs"), sequences that overlap as in R2D2. For
        # position-only Pendulum, whose rewards reach -16: unscaled, and with an actor as fast as
        # the critics, the actor ended in one corner (DDPG, and TD3 with 0.1 of noise; one seed).
        env=EnvOptions(env, num_envs=4),
        algo=TD3Options(
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
        preset="td3/memory",
    )
