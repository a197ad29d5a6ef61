"""One measurement of rlpyt, in a process of its own; prints one JSON object.

usage: ours.py train|sample TASK [--seconds 15] [--num-envs 8] [--precision bf16] [--compile on]
       where TASK is cartpole, pong, recurrent (PPO), dqn-cartpole, dqn-cartpole-zoo,
       dqn-pong, or {ddpg,td3,sac}-halfcheetah
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

from meter import peak_memory_mb

from rlpyt.algos.options import (
    DDPGOptions,
    DQNOptions,
    PPOOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.logging.episodes import Episodes
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.samplers.options import SamplerOptions

ENVS = {
    "cartpole": "CartPole-v1",
    "pong": "PongNoFrameskip-v4",
    "recurrent": "rlpyt/CartPolePositions-v0",
    "dqn-cartpole": "CartPole-v1",
    "dqn-cartpole-zoo": "CartPole-v1",
    "dqn-pong": "PongNoFrameskip-v4",
    "ddpg-halfcheetah": "HalfCheetah-v5",
    "td3-halfcheetah": "HalfCheetah-v5",
    "sac-halfcheetah": "HalfCheetah-v5",
}
CRITICS = {  # algorithms that learn from critics, by task
    "ddpg-halfcheetah": DDPGOptions,
    "td3-halfcheetah": TD3Options,
    "sac-halfcheetah": SACOptions,
}
# Steps before learning; as the peer's.
STARTS = {"dqn-cartpole": 5_000, "dqn-cartpole-zoo": 5_000, "dqn-pong": 100_000}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "sample"])
    parser.add_argument("task", choices=list(ENVS))
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", default="auto", help="auto: as in a run of many steps")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--starts", type=int, help="env steps before learning, DQN's")
    parser.add_argument("--asynchronous", action="store_true", help="collect in a second process")
    parser.add_argument("--sequence", type=int, default=16, help="rows; the preset's for memory")
    a = parser.parse_args()
    loop = LoopOptions(
        seed=0, env_steps=10**9, precision=a.precision, compile=a.compile, threads=a.threads
    )
    env = EnvOptions(ENVS[a.task], num_envs=a.num_envs)
    if a.task in STARTS:
        make = zoo if a.task == "dqn-cartpole-zoo" else dqn
        starts = a.starts or STARTS[a.task]
        run, warm_up = make(env, starts, loop), starts + 200
    elif a.task in CRITICS:
        run, warm_up = critics(env, CRITICS[a.task], loop), 1300
    else:
        run = ppo(env, a.sequence if a.task == "recurrent" else None, loop)
        warm_up = 2 * run.algo.horizon * a.num_envs
    run = replace(run, sampler=SamplerOptions(asynchronous=a.asynchronous))
    parts = build(run)
    steps, seconds = measure(parts, warm_up, a.what == "train", a.seconds)
    print(
        json.dumps(
            {
                "steps_per_second": round(steps / seconds, 1),
                "memory_mb": peak_memory_mb(),
                "threads": parts.resolved.threads,
                "compiled": parts.resolved.compile,
            }
        )
    )


def ppo(env: EnvOptions, sequence: int | None, loop: LoopOptions) -> Run:
    """128 rows of each environment, 4 epochs of minibatches of 256."""
    return Run(
        env,
        PPOOptions(horizon=128, minibatch_size=256, update_epochs=4, state_interval=sequence),
        ActorCriticOptions(memory="lstm" if sequence else "none"),
        loop,
    )


def dqn(env: EnvOptions, starts: int, loop: LoopOptions) -> Run:
    """Stable-Baselines3's settings: an update of 32 every 4 steps, 100k rows, target every 10k."""
    return Run(
        env,
        DQNOptions(
            horizon=max(1, 4 // env.num_envs),
            batch_size=32,
            replay_ratio=8.0,
            replay_size=100_000,
            learning_starts=starts,
            target_update_updates=2500,
            double=False,
            epsilon_start=0.05,  # the most that an agent has while it learns: nearly all is acting
            epsilon_end=0.05,
        ),
        QNetworkOptions(hidden_sizes=(64, 64)),
        loop,
    )


def zoo(env: EnvOptions, starts: int, loop: LoopOptions) -> Run:
    """RL Baselines3 Zoo's settings for CartPole: 128 updates of 64 every 256 steps."""
    run = dqn(env, starts, loop)
    algo = replace(
        run.algo,
        horizon=256 // env.num_envs,
        lr=2.3e-3,
        batch_size=64,
        replay_ratio=32.0,
        target_update_updates=128,
    )
    return replace(run, algo=algo, model=QNetworkOptions(hidden_sizes=(256, 256)))


def critics(env: EnvOptions, options: Any, loop: LoopOptions) -> Run:
    """An update of 256 every step, two hidden layers of 256, 1000 random steps before."""
    algo = options(
        horizon=1,
        batch_size=256,
        replay_size=1_000_000,
        replay_ratio=256.0,
        learning_starts=1000,
    )
    return Run(env, algo, ActorQOptions(hidden_sizes=(256, 256)), loop)


def measure(parts: Parts, warm_up: int, learn: bool, seconds: float) -> tuple[int, float]:
    """Environment steps and seconds after so many steps of warming up."""
    sampler = parts.sampler
    episodes = Episodes(sampler.window.num_envs)
    sampler.reset()

    def window() -> None:
        before = episodes.env_steps
        rows = sampler.collect(env_steps=before)
        episodes.count(rows.rows, infos=sampler.infos)
        if learn:
            parts.algorithm.update(rows, before)

    while episodes.env_steps < warm_up:
        window()
    begun, first = time.perf_counter(), episodes.env_steps
    while time.perf_counter() - begun < seconds:
        window()
    return episodes.env_steps - first, time.perf_counter() - begun


if __name__ == "__main__":
    main()
