"""Tianshou's collector on environments in processes; prints one JSON object.

usage: peer_tianshou.py sample cartpole|pong [--seconds 15] [--num-envs 8] [--threads 1]
                        [--vector subproc|shmem|dummy]
"""

import argparse
from typing import Any

import torch
from meter import say, timed
from peer_policies import TASKS, factory
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from tianshou.env.atari.atari_network import DQNet, ScaledObsInputActionReprNet
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor

VECTORS = {"subproc": SubprocVectorEnv, "shmem": ShmemVectorEnv, "dummy": DummyVectorEnv}
ROWS = 32  # collected at a time, per environment


def network(task: str, actions: int) -> Any:
    if task == "cartpole":
        return Net(state_shape=(4,), hidden_sizes=[64, 64], activation=torch.nn.Tanh)
    images = {"c": 4, "h": 84, "w": 84, "action_shape": actions}
    return ScaledObsInputActionReprNet(
        DQNet(**images, features_only=True, output_dim_added_layer=512)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sample"])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vector", choices=list(VECTORS), default="shmem")
    a = parser.parse_args()
    make = factory(a.task)
    one = make()
    space: Any = one.action_space
    torch.set_num_threads(a.threads)
    actor = DiscreteActor(
        preprocess_net=network(a.task, space.n), action_shape=space.n, softmax_output=False
    )
    policy = DiscreteActorPolicy(actor=actor, action_space=space)
    envs = VECTORS[a.vector]([make] * a.num_envs)
    torch.set_num_threads(a.threads)  # making an environment here sets it, too
    frames = {"save_only_last_obs": True, "stack_num": 4} if a.task == "pong" else {}
    kept = VectorReplayBuffer(2 * ROWS * a.num_envs, a.num_envs, ignore_obs_next=True, **frames)
    collector = Collector(policy, envs, kept)
    collector.reset()

    def step() -> int:
        return collector.collect(n_step=ROWS * a.num_envs).n_collected_steps

    say(*timed(step, a.seconds), threads=a.threads, vector=a.vector)
    envs.close()


if __name__ == "__main__":
    main()
