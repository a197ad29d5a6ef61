"""SAC's presets of continuous actions; those of one Discrete choice are in `sac_discrete.py`.

Every number has its source; "ours" is one that we chose or measured.

How published numbers are written here: see `ddpg.py`. The zoo is RL Baselines3 Zoo's
`hyperparams/sac.yml`. What a preset does not name is the default of `SACOptions`, which are the
paper's (Haarnoja et al., 2018b, table 1): lr 3e-4, batches of 256, tau 0.005, a temperature that is
learned towards an entropy of minus the number of the action's dimensions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import SACOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.presets.sac_discrete import acrobot as acrobot
from rlpyt.presets.sac_discrete import atari as atari
from rlpyt.presets.sac_discrete import classic as classic
from rlpyt.presets.sac_discrete import discrete_lunar_lander as discrete_lunar_lander
from rlpyt.presets.sac_discrete import discrete_memory as discrete_memory
from rlpyt.presets.sac_discrete import discrete_mountain_car as discrete_mountain_car
from rlpyt.presets.sac_discrete import minatar as minatar
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment with bounded continuous actions, or one Discrete choice: the paper's."""
    return replace(mujoco(env), preset="sac/default")


def pendulum(env: Any) -> Run:
    """Pendulum: small networks, learning from the thousandth step on."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Zoo: lr, 20k steps. 64 x 64 instead of 256 x 256 units, and a thousand random steps
        # instead of a hundred: ours.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=1e-3,
            batch_size=256,
            replay_size=200_000,
            replay_ratio=256.0,
            learning_starts=1000,
        ),
        model=ActorQOptions(hidden_sizes=(64, 64)),
        loop=LoopOptions(env_steps=20_000),
        preset="sac/pendulum",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLanderContinuous: the zoo's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=SACOptions(  # zoo
            horizon=1,
            gamma=0.99,
            lr=7.3e-4,
            lr_schedule="linear",
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            target_tau=0.01,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),  # zoo
        loop=LoopOptions(env_steps=500_000),  # zoo
        preset="sac/lunar-lander",
    )


def mountain_car(env: Any) -> Run:
    """MountainCarContinuous: the zoo's without state-dependent exploration."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Zoo, but for use_sde, which is not here, and a thousand random steps: ours. Noise that is
        # drawn anew at each step seldom finds the goal; ddpg and td3 have a process that does.
        algo=SACOptions(
            horizon=32,
            gamma=0.9999,
            lr=3e-4,
            batch_size=512,
            replay_size=50_000,
            replay_ratio=512.0,
            learning_starts=1000,
            target_tau=0.01,
            temperature=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(64, 64)),  # zoo
        loop=LoopOptions(env_steps=50_000),  # zoo
        preset="sac/mountain-car",
    )


def bipedal_walker(env: Any) -> Run:
    """BipedalWalker: the zoo's without state-dependent exploration."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=SACOptions(  # zoo, but for use_sde, which is not here
            horizon=64,
            gamma=0.98,
            lr=7.3e-4,
            batch_size=256,
            replay_size=300_000,
            replay_ratio=256.0,
            learning_starts=10_000,
            target_tau=0.02,
        ),
        model=ActorQOptions(hidden_sizes=(400, 300)),  # zoo
        loop=LoopOptions(env_steps=500_000),  # zoo
        preset="sac/bipedal-walker",
    )


def mujoco(env: Any) -> Run:
    """MuJoCo: the paper's."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Haarnoja et al. (2018b), table 1. Ten thousand random steps: the authors' code, as in
        # Stable-Baselines3's zoo and in Tianshou.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=10_000,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=1_000_000),
        preset="sac/mujoco",
    )


def tianshou(env: Any) -> Run:
    """MuJoCo: Tianshou's, with a temperature that stays."""
    run = mujoco(env)
    # Tianshou's examples/mujoco/mujoco_sac.py
    return replace(run, algo=replace(run.algo, lr=1e-3, temperature=0.2), preset="sac/tianshou")


def spinning_up(env: Any) -> Run:
    """MuJoCo: Spinning Up's, with a temperature that stays."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        algo=SACOptions(  # Achiam (2018), "Spinning Up in Deep RL", sac.py and its benchmark
            horizon=50,  # update_every
            gamma=0.99,
            lr=1e-3,
            batch_size=100,
            replay_size=1_000_000,
            replay_ratio=100.0,
            learning_starts=1000,  # update_after
            random_steps=10_000,  # start_steps
            temperature=0.2,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=3_000_000),
        preset="sac/spinning-up",
    )


def redq(env: Any) -> Run:
    """REDQ: ten critics, targets from two of them, twenty updates a step."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Chen et al. (2021), algorithm 1 and table 4: N = 10, M = 2, G = 20, the actor once a step.
        # Their target entropies are MBPO's, by task; here minus the number of dimensions.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=20 * 256.0,
            learning_starts=5000,
            critics=10,
            target_critics=2,
            policy_delay=20,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=125_000),  # their Hopper; 300k elsewhere
        preset="sac/redq",
    )


def tqc(env: Any) -> Run:
    """TQC: five critics of 25 quantiles, the greatest two of each left out of targets."""
    run = mujoco(env)
    # Kuznetsov et al. (2020), table 3: N = 5, M = 25, critics of three layers of 512 units; d = 2,
    # but 0 on HalfCheetah and 5 on Hopper.
    algo = replace(run.algo, critics=5, values="quantile", num_quantiles=25, drop_quantiles=2)
    model = replace(run.model, critic_sizes=(512, 512, 512))
    return replace(run, algo=algo, model=model, preset="sac/tqc")


def droq(env: Any) -> Run:
    """DroQ: two critics with dropout and layer normalization, twenty updates a step."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Hiraoka et al. (2022), algorithm 2, and the authors' code (main.py, and the README's table
        # of dropout rates: 0.01 on each task): G = 20, the actor once a step. Their target
        # entropies are MBPO's, by task; here minus the number of dimensions.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=20 * 256.0,
            learning_starts=5000,
            policy_delay=20,
            actor_judge="mean",
        ),
        model=ActorQOptions(hidden_sizes=(256, 256), critic_layer_norm=True, critic_dropout=0.01),
        loop=LoopOptions(env_steps=125_000),  # their Hopper; 300k elsewhere
        preset="sac/droq",
    )


def crossq(env: Any) -> Run:
    """CrossQ: batch normalization, wide critics, no target networks, one update a step."""
    return Run(
        env=EnvOptions(env, num_envs=1),
        # Bhatt et al. (2024), and the authors' code (train.py, algo crossq): Adam's beta1 0.5, the
        # actor every third update, critics of 2048 x 2048 units.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=1e-3,
            adam_beta1=0.5,
            batch_size=256,
            replay_size=1_000_000,
            replay_ratio=256.0,
            learning_starts=5000,
            policy_delay=3,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256), critic_sizes=(2048, 2048), batch_norm=True),
        loop=LoopOptions(env_steps=1_000_000),
        preset="sac/crossq",
    )


def memory(env: Any) -> Run:
    """Memory tasks with bounded continuous actions: an LSTM on short sequences."""
    return Run(
        # Ours: separate memories of actor and critics as in Ni et al. (2022, "Recurrent Model-Free
        # RL Can Be a Strong Baseline for Many POMDPs"), sequences that overlap as in R2D2.
        env=EnvOptions(env, num_envs=4),
        algo=SACOptions(
            horizon=5,
            gamma=0.98,
            lr=1e-3,
            batch_size=32,
            burn_in=10,
            train_rows=20,
            state_interval=10,
            replay_size=200_000,
            replay_ratio=480.0,
            learning_starts=2000,
        ),
        model=ActorQOptions(hidden_sizes=(64,), memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=30_000),
        preset="sac/memory",
    )
