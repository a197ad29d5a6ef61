"""Gymnasium's vector environments under a tight policy of our shape; prints one JSON object.

usage: peer_gymnasium.py sample cartpole|pong [--seconds 15] [--num-envs 8] [--threads 1]
                         [--vector sync|async]
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from meter import say, timed
from peer_policies import TASKS, factory, policy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sample"])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vector", choices=["sync", "async"], default="sync")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    kind = gym.vector.SyncVectorEnv if a.vector == "sync" else gym.vector.AsyncVectorEnv
    envs = kind([factory(a.task)] * a.num_envs, copy=False)
    torch.set_num_threads(a.threads)  # making one sets it here, too
    act = policy(a.task)
    observation, _ = envs.reset(seed=0)

    def step() -> int:
        nonlocal observation
        steps = 0
        for _ in range(16):
            observation, _, terminated, truncated, _ = envs.step(act(observation))
            # The step after an episode's end only resets.
            steps += a.num_envs - int(np.count_nonzero(terminated | truncated))
        return steps

    say(*timed(step, a.seconds), threads=a.threads, vector=a.vector)
    envs.close()


if __name__ == "__main__":
    main()
