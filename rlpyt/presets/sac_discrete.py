"""SAC's presets of one Discrete choice. Every number has its source; "ours" is one that we chose.

How published numbers are written is said in `ddpg.py`. Where Box and Discrete tasks share a family,
that of a Discrete choice is named `discrete-...`; the environment's id says which it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.algos.options import SACOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorQOptions
from rlpyt.run import LoopOptions, Run


def classic(env: Any) -> Run:
    """CartPole: one Discrete choice, little entropy."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Ours. With the paper's 0.98 of the greatest entropy two actions are all but equally
        # likely, whatever their values. A temperature that begins at 1 makes values of entropy, up
        # to log(2) / (1 - gamma) = 69 of them, which then have to be unlearned.
        algo=SACOptions(
            horizon=8,
            gamma=0.99,
            lr=3e-4,
            batch_size=64,
            replay_size=100_000,
            replay_ratio=32.0,
            learning_starts=1000,
            n_step=5,
            target_tau=0.01,
            initial_temperature=0.1,
            entropy_fraction=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(256, 256)),
        loop=LoopOptions(env_steps=50_000),
        preset="sac/classic",
    )


def acrobot(env: Any) -> Run:
    """Acrobot: CartPole's numbers, twice as long."""
    # Ours, and of Acrobot itself not measured.
    return replace(classic(env), loop=LoopOptions(env_steps=100_000), preset="sac/acrobot")


def discrete_mountain_car(env: Any) -> Run:
    """MountainCar with three choices: CartPole's numbers."""
    # Ours, and of MountainCar itself not measured; as long as dqn's.
    loop = LoopOptions(env_steps=120_000)
    return replace(classic(env), loop=loop, preset="sac/discrete-mountain-car")


def discrete_lunar_lander(env: Any) -> Run:
    """LunarLander with four choices: CartPole's numbers and a longer replay."""
    run = classic(env)
    # Ours, and of LunarLander itself not measured; as long as dqn's.
    algo = replace(run.algo, replay_size=300_000, learning_starts=10_000)
    loop = LoopOptions(env_steps=300_000)
    return replace(run, algo=algo, loop=loop, preset="sac/discrete-lunar-lander")


def discrete_memory(env: Any) -> Run:
    """Memory tasks of one Discrete choice: an LSTM on short sequences, little entropy."""
    return Run(
        # Sequences as in `sac.memory`; entropy as in `classic`. Ours.
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
            initial_temperature=0.1,
            entropy_fraction=0.1,
        ),
        model=ActorQOptions(hidden_sizes=(64,), memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=30_000),
        preset="sac/discrete-memory",
    )


def minatar(env: Any) -> Run:
    """MinAtar: Atari's updates, Young and Tian's network, less entropy."""
    return Run(
        env=EnvOptions(env, num_envs=4),
        # An update of 64 every 4 steps: `atari`. Replay, random steps and a target copied every
        # 1000 steps: Young and Tian (2019), as in dqn's. The entropy is about that of their
        # epsilon of 0.1 over 6 actions: ours. None of it was measured.
        algo=SACOptions(
            horizon=1,
            gamma=0.99,
            lr=3e-4,
            batch_size=64,
            replay_size=100_000,
            replay_ratio=16.0,
            learning_starts=5000,
            target_update_updates=250,
            target_tau=1.0,
            initial_temperature=0.1,
            entropy_fraction=0.25,
        ),
        # The encoder ends in 128 units. Actor and critics have one each; both critics share theirs.
        model=ActorQOptions(encoder="minatar", hidden_sizes=(), share_trunk=False),
        loop=LoopOptions(env_steps=5_000_000),
        preset="sac/minatar",
    )


def atari(env: Any) -> Run:
    """Atari: after Christodoulou (2019), from others' notes: see the sources of each number."""
    return Run(
        env=EnvOptions(env, num_envs=1, protocol="mnih2015", frame_stack=4),
        # Table 2: batches of 64, one update every 4 steps, 20k random steps, 0.98 of the greatest
        # entropy, a target network that is copied every 8000 (steps, as we read it). Quoted from
        # memory and from others' notes, for want of the paper.
        algo=SACOptions(
            horizon=4,
            gamma=0.99,
            lr=3e-4,
            batch_size=64,
            replay_size=1_000_000,
            replay_ratio=16.0,
            learning_starts=20_000,
            target_update_updates=2000,
            target_tau=1.0,
            reward_clip="sign",
        ),
        # The encoder ends in 512 units. Actor and critics have one each; both critics share theirs.
        model=ActorQOptions(encoder="nature", hidden_sizes=(), share_trunk=False),
        loop=LoopOptions(env_steps=100_000),
        preset="sac/atari",
    )
