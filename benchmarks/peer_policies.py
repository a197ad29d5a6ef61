"""Environments, and policies of the same shape as ours, for the peers that bring none of their own.

The policies are written as tightly as PyTorch allows without rlpyt: one list of weights, the scale
of the pixels in the first of them, actions by inverse cumulative probabilities. They compute no
value and keep nothing, which ours does: a peer is given that much.
"""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

TASKS = ("cartpole", "pong")


def cartpole() -> gym.Env:
    """As Gymnasium makes it, without its passive checker: ours are made without, too."""
    return gym.make("CartPole-v1", disable_env_checker=True)


def pong() -> gym.Env:
    """84 x 84 x 4 grey frames, every fourth one, up to 30 idle ones at the start."""
    import ale_py

    gym.register_envs(ale_py)
    torch.set_num_threads(1)  # of the process that steps it
    env = gym.make(
        "ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, disable_env_checker=True
    )
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30)
    return gym.wrappers.FrameStackObservation(env, 4)


def factory(task: str) -> Callable[[], gym.Env]:
    return {"cartpole": cartpole, "pong": pong}[task]


def policy(task: str) -> Callable[[np.ndarray], np.ndarray]:
    """Observations [B, ...] to actions [B]."""
    logits = _mlp() if task == "cartpole" else _nature()

    @torch.inference_mode()
    def act(observation: np.ndarray) -> np.ndarray:
        cumulative = logits(torch.from_numpy(observation)).softmax(-1).cumsum(-1)
        drawn = torch.rand(len(observation), 1) * cumulative[:, -1:]
        return (cumulative[:, :-1] <= drawn).sum(-1).numpy()

    return act


def _mlp() -> Callable[[Tensor], Tensor]:
    sizes = [(64, 4), (64, 64), (2, 64)]
    layers = [(torch.randn(o, i) / i**0.5, torch.zeros(o)) for o, i in sizes]

    def logits(x: Tensor) -> Tensor:
        for weight, bias in layers[:-1]:
            x = torch.tanh_(F.linear(x, weight, bias))
        return F.linear(x, *layers[-1])

    return logits


def _nature() -> Callable[[Tensor], Tensor]:
    """The network of Mnih et al. (2015)."""
    convolutions = [(32, 4, 8, 4), (64, 32, 4, 2), (64, 64, 3, 1)]
    kernels = [
        (torch.randn(o, i, k, k) / (i * k * k) ** 0.5, torch.zeros(o), s)
        for o, i, k, s in convolutions
    ]
    kernels[0][0].div_(255)
    hidden, out = (torch.randn(512, 3136) / 56, torch.zeros(512)), torch.randn(6, 512) / 512**0.5

    def logits(x: Tensor) -> Tensor:
        x = x.float()
        for weight, bias, stride in kernels:
            x = torch.relu_(F.conv2d(x, weight, bias, stride))
        return F.linear(torch.relu_(F.linear(x.flatten(1), *hidden)), out)

    return logits
