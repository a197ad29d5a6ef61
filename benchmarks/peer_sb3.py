"""One measurement of Stable-Baselines3 (and sb3-contrib); prints one JSON object.

usage: peer_sb3.py train|sample TASK [--seconds 15] [--num-envs 8] [--threads 1]
                   [--vector dummy|subproc]
       peer_sb3.py whole cartpole        a 100k-step run and nothing else, timed from outside
       where TASK is cartpole, pong, recurrent (PPO), dqn-cartpole, dqn-cartpole-zoo, dqn-pong, or
       {ddpg,td3,sac}-halfcheetah
"""

import argparse
import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from meter import peak_memory_mb, timed, tree_memory_mb
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack


class Positions(gym.ObservationWrapper):
    """CartPole without velocities."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[[0, 2]]


class Timed(BaseCallback):
    """Times after `warm_up` steps; ends training at the first window after `seconds`."""

    def __init__(self, seconds: float, warm_up: int) -> None:
        super().__init__()
        self.seconds, self.warm_up = seconds, warm_up
        self.begun, self.first, self.ended = 0.0, 0, False
        self.result = (0, 1.0)

    def _on_rollout_start(self) -> None:
        now, steps = time.perf_counter(), self.model.num_timesteps
        if not self.begun:
            if steps >= self.warm_up:
                self.begun, self.first = now, steps
        elif now - self.begun > self.seconds:
            self.result, self.ended = (steps - self.first, now - self.begun), True

    def _on_step(self) -> bool:
        return not self.ended


# Steps before learning; random until then.
STARTS = {"dqn-cartpole": 5_000, "dqn-cartpole-zoo": 5_000, "dqn-pong": 100_000}

CRITICS = {"ddpg-halfcheetah": DDPG, "td3-halfcheetah": TD3, "sac-halfcheetah": SAC}


def pong() -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    torch.set_num_threads(1)  # of the process that steps it
    env = gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    return gym.wrappers.AtariPreprocessing(env, noop_max=30, grayscale_newaxis=True)


def cartpole() -> gym.Env:
    return gym.make("CartPole-v1")


def vector(task: str, num_envs: int, kind: str) -> VecEnv:
    """Environments side by side; fork, which takes far less memory than each one's own torch."""
    makes = [pong if task == "pong" else cartpole] * num_envs
    envs = DummyVecEnv(makes) if kind == "dummy" else SubprocVecEnv(makes, start_method="fork")
    return VecFrameStack(envs, 4) if task == "pong" else envs


def model(task: str, num_envs: int, kind: str = "dummy") -> Any:
    if task in STARTS:
        return dqn(task, num_envs)
    if task in CRITICS:
        return CRITICS[task](
            "MlpPolicy",
            gym.make("HalfCheetah-v5"),
            batch_size=256,
            policy_kwargs={"net_arch": [256, 256]},
            learning_starts=1000,
            train_freq=1,
            gradient_steps=1,
            device="cpu",
        )
    common = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "device": "cpu"}
    if task == "pong":
        envs = vector(task, num_envs, kind)
        return PPO("CnnPolicy", envs, learning_rate=2.5e-4, clip_range=0.1, **common)
    if task == "recurrent":
        from sb3_contrib import RecurrentPPO

        envs = DummyVecEnv([lambda: Positions(cartpole())] * num_envs)
        policy = {"net_arch": [64, 64], "lstm_hidden_size": 64}
        return RecurrentPPO("MlpLstmPolicy", envs, policy_kwargs=policy, **common)
    policy = {"net_arch": [64, 64]}
    return PPO("MlpPolicy", vector(task, num_envs, kind), policy_kwargs=policy, **common)


def dqn(task: str, num_envs: int) -> Any:
    """An update of 32 every 4 steps, 100k rows, target every 10k steps; its defaults elsewhere."""
    common = {
        "learning_rate": 1e-4,
        "buffer_size": 100_000,
        "learning_starts": STARTS[task],
        "batch_size": 32,
        "train_freq": max(1, 4 // num_envs),
        "gradient_steps": 1,
        "target_update_interval": 10_000,
        "exploration_initial_eps": 0.05,
        "exploration_final_eps": 0.05,
        "device": "cpu",
    }
    if task == "dqn-cartpole-zoo":  # RL Baselines3 Zoo's settings for CartPole
        zoo = {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "train_freq": 256 // num_envs,
            "gradient_steps": 128,
            "target_update_interval": 10,
            "policy_kwargs": {"net_arch": [256, 256]},
        }
        return DQN("MlpPolicy", DummyVecEnv([cartpole] * num_envs), **{**common, **zoo})
    if task == "dqn-pong":
        return DQN("CnnPolicy", VecFrameStack(DummyVecEnv([pong] * num_envs), 4), **common)
    policy = {"net_arch": [64, 64]}
    return DQN("MlpPolicy", DummyVecEnv([cartpole] * num_envs), policy_kwargs=policy, **common)


def sampling(learner: Any, num_envs: int, seconds: float) -> tuple[int, float]:
    policy, envs = learner.policy, learner.get_env()
    observation = envs.reset()

    def step() -> int:
        nonlocal observation
        for _ in range(16):
            with torch.no_grad():
                action, _, _ = policy(policy.obs_to_tensor(observation)[0])
            observation, _, _, _ = envs.step(action.numpy())
        return 16 * num_envs

    return timed(step, seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "sample", "whole"])
    parser.add_argument("task", choices=["cartpole", "pong", "recurrent", *STARTS, *CRITICS])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--starts", type=int, help="env steps before learning, DQN's")
    parser.add_argument("--vector", choices=["dummy", "subproc"], default="dummy")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    if a.starts:
        STARTS[a.task] = a.starts
    learner = model(a.task, a.num_envs, a.vector)
    torch.set_num_threads(a.threads)  # making an environment here sets it, too
    if a.what == "whole":
        learner.learn(100_000)
        return
    if a.what == "sample":
        steps, seconds = sampling(learner, a.num_envs, a.seconds)
    else:
        starts = 1100 if a.task in CRITICS else STARTS.get(a.task)
        timed = Timed(a.seconds, starts + 200 if starts else 2 * 128 * a.num_envs)
        learner.learn(10**9, callback=timed)
        steps, seconds = timed.result
    print(
        json.dumps(
            {
                "steps_per_second": round(steps / seconds, 1),
                "memory_mb": tree_memory_mb() if a.what == "sample" else peak_memory_mb(),
                "threads": a.threads,
            }
        )
    )


if __name__ == "__main__":
    main()
