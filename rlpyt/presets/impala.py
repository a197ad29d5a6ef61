"""IMPALA's presets. Every number has its source; "ours" is one that we chose or measured.

The paper is Espeholt et al. (2018) with its table of hyperparameters for Atari (appendix G). Its
losses are sums over the 32 x 20 rows of a batch, ours are means over live rows: what weighs them
against each other and the learning rate are the same for both, the bound of the gradient's norm
and RMSprop's epsilon are divided by 640. Half of the squared value error, weighed by the paper's
0.5, is our value_coef of 0.25.
"""

from __future__ import annotations

from typing import Any

from rlpyt.algos.options import IMPALAOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run

_PAPER_ROWS = 32 * 20  # trajectories of a batch, and rows of each


def default(env: Any) -> Run:
    """Any environment: the paper's windows and weights, and Adam."""
    return Run(
        env=EnvOptions(env, num_envs=32),  # the paper's batch of 32 trajectories
        # Horizon, entropy_coef, lambda and gamma: the paper. Adam, whose steps do not depend on the
        # scale of rewards, and its lr: ours.
        algo=IMPALAOptions(
            horizon=20,
            lr=1e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            optimizer="adam",
        ),
        loop=LoopOptions(env_steps=1_000_000),  # ours
        preset="impala/default",
    )


def classic(env: Any) -> Run:
    """CartPole: the paper's windows of 20 rows and lambda, from 8 environments, with Adam."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Horizon, lambda and gamma: the paper. Adam with lr 3e-3, no entropy bonus, the weight of
        # the value and the 200k steps: `a2c.classic`. Seeds 0 to 14 evaluate to 500; with windows
        # of 16 rows and lambda 0.95 as there, one in ten stayed at 217.
        algo=IMPALAOptions(
            horizon=20,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.0,
            value_coef=0.5,
            optimizer="adam",
        ),
        model=ActorCriticOptions(hidden_sizes=(64, 64), activation="tanh", share_trunk=False),
        loop=LoopOptions(env_steps=200_000),
        preset="impala/classic",
    )


def atari(env: Any) -> Run:
    """Atari: the paper's, with its deep network (--encoder nature is several times faster)."""
    return Run(
        env=EnvOptions(env, num_envs=32, frame_stack=4),  # the batch; appendix G
        # Appendix G, see above. RMSprop in PyTorch's form, epsilon beside the root, with the same
        # 0.01 and 40 for sums: TorchBeast (Küttler et al., 2019), which has the paper's results.
        # Rewards by sign: of a game's whole points the paper's clipping to [-1, 1] is the same.
        algo=IMPALAOptions(
            horizon=20,
            lr=6e-4,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            max_grad_norm=40 / _PAPER_ROWS,
            optimizer="rmsprop",
            optimizer_eps=0.01 / _PAPER_ROWS,
            reward_clip="sign",
        ),
        model=ActorCriticOptions(encoder="residual", share_trunk=True),
        loop=LoopOptions(env_steps=50_000_000),  # 200M frames
        preset="impala/atari",
    )


def minatar(env: Any) -> Run:
    """MinAtar: `ppo.minatar`'s environments and network, one update on each short window."""
    return Run(
        # lambda: the actor-critic of Young and Tian (2019), as in `a2c.minatar`; rewards are raw
        # there, and small. entropy_coef, value_coef: the paper. The rest: ours.
        env=EnvOptions(env, num_envs=16),
        algo=IMPALAOptions(
            horizon=20,
            lr=1e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=0.8,
            entropy_coef=0.01,
            value_coef=0.25,
            optimizer="adam",
        ),
        model=ActorCriticOptions(encoder="minatar", share_trunk=True),
        loop=LoopOptions(env_steps=5_000_000),  # Young and Tian (2019)
        preset="impala/minatar",
    )


def memory(env: Any) -> Run:
    """Memory tasks: the classic preset with an LSTM (--memory gru, or none for its blind twin)."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        algo=IMPALAOptions(  # as `classic`
            horizon=20,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.0,
            value_coef=0.5,
            optimizer="adam",
        ),
        model=ActorCriticOptions(share_trunk=False, memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=200_000),
        preset="impala/memory",
    )
