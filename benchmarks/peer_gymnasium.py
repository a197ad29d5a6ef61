"""Gymnasium's SyncVectorEnv under a policy of the same shape as ours; prints one JSON object.

The policy is written as tightly as PyTorch allows without rlpyt: inference mode entered once,
one loop over F.linear, actions by inverse cumulative probabilities. Environments are made without
the passive checker, as ours are.

usage: peer_gymnasium.py sample cartpole [--seconds 15] [--threads 1]
"""

import argparse
import json
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from meter import peak_memory_mb


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sample"])
    parser.add_argument("task", choices=["cartpole"])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)

    def make() -> gym.Env:
        return gym.make("CartPole-v1", disable_env_checker=True)

    envs = gym.vector.SyncVectorEnv([make] * 8)
    sizes = [(64, 4), (64, 64), (2, 64)]
    layers = [(torch.randn(o, i) / i**0.5, torch.zeros(o)) for o, i in sizes]
    observation, _ = envs.reset(seed=0)
    steps, begun, first = 0, 0.0, 0
    with torch.inference_mode():
        while True:
            for _ in range(128):
                x = torch.from_numpy(observation)
                for weight, bias in layers[:-1]:
                    x = torch.tanh_(F.linear(x, weight, bias))
                c = F.linear(x, *layers[-1]).softmax(-1).cumsum(-1)
                action = (c[:, :-1] <= torch.rand(8, 1) * c[:, -1:]).sum(-1)
                observation, _, terminated, truncated, _ = envs.step(action.numpy())
                steps -= np.count_nonzero(terminated | truncated)  # its next step only resets
            steps += 128 * 8
            now = time.perf_counter()
            if not begun and steps >= 4096:
                begun, first = now, steps
            elif begun and now - begun > a.seconds:
                break
    print(
        json.dumps(
            {
                "steps_per_second": round((steps - first) / (now - begun), 1),
                "memory_mb": peak_memory_mb(),
                "threads": a.threads,
            }
        )
    )


if __name__ == "__main__":
    main()
