"""TorchRL's collectors, a policy acting in them; prints one JSON object.

usage: peer_torchrl.py sample cartpole|pong [--seconds 15] [--num-envs 8] [--threads 1]
                       [--vector parallel|multi|serial]

parallel: one collector, each environment in a process; multi: two processes, each of which collects
from half of the environments, and waits for the other at the end of a batch.
"""

import argparse
import os
import sys
import warnings
from functools import partial
from typing import Any

import torch
from meter import say, timed
from peer_policies import TASKS, factory
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector, MultiSyncCollector
from torchrl.envs import GymWrapper, ParallelEnv, SerialEnv
from torchrl.modules import MLP, ConvNet, ProbabilisticActor

ROWS = 64  # collected at a time, per environment
warnings.filterwarnings("ignore")


class Pixels(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def network(task: str, actions: int) -> nn.Module:
    if task == "cartpole":
        return MLP(4, actions, num_cells=[64, 64], activation_class=nn.Tanh)
    body = ConvNet(
        4,
        num_cells=[32, 64, 64],
        kernel_sizes=[8, 4, 3],
        strides=[4, 2, 1],
        activation_class=nn.ReLU,
    )
    return nn.Sequential(
        Pixels(), body, MLP(3136, actions, num_cells=[512], activation_class=nn.ReLU)
    )


def make(task: str) -> GymWrapper:
    return GymWrapper(factory(task)(), categorical_action_encoding=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sample"])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vector", choices=["parallel", "multi", "serial"], default="multi")
    a = parser.parse_args()
    one = make(a.task)
    torch.set_num_threads(a.threads)
    actions = 2 if a.task == "cartpole" else 6
    module = TensorDictModule(
        network(a.task, actions), in_keys=["observation"], out_keys=["logits"]
    )
    policy = ProbabilisticActor(
        module,
        in_keys=["logits"],
        spec=one.action_spec,
        distribution_class=torch.distributions.Categorical,
    )
    batches: dict[str, Any] = {"frames_per_batch": a.num_envs * ROWS, "total_frames": -1}
    new = partial(make, a.task)
    if a.vector == "multi":
        halves = [partial(SerialEnv, a.num_envs // 2, new)] * 2
        collector: Any = MultiSyncCollector(halves, policy, num_threads=1, **batches)
    else:
        kind = ParallelEnv if a.vector == "parallel" else SerialEnv
        start = {"num_threads": a.threads, "mp_start_method": "fork"}
        extra: dict[str, Any] = start if a.vector == "parallel" else {}
        collector = Collector(kind(a.num_envs, new, **extra), policy, **batches)
    torch.set_num_threads(a.threads)  # making an environment here sets it, too
    rows = iter(collector)
    say(*timed(lambda: next(rows).numel(), a.seconds), threads=a.threads, vector=a.vector)
    sys.stdout.flush()
    collector.shutdown()
    os._exit(0)  # leaving may hang in the end of its weights' synchronization


if __name__ == "__main__":
    main()
