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
    """Any environment: the paper's windows and weights; Adam, scaled rewards."""
    return Run(
        env=EnvOptions(env, num_envs=32),  # the paper's batch of 32 trajectories
        # Horizon, lambda, gamma, entropy_coef and value_coef: the paper. The rest: ours, so that
        # steps depend on the scale of rewards no more than under PPO.
        algo=IMPALAOptions(
            horizon=20,
            lr=1e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            normalize_reward=True,
            optimizer="adam",
        ),
        loop=LoopOptions(env_steps=1_000_000),  # ours
        preset="impala/default",
    )


def classic(env: Any) -> Run:
    """CartPole: the paper's windows, lambda and weights; Adam, scaled rewards."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Horizon, lambda, gamma, entropy_coef and value_coef: the paper. The rest: ours, for 200k
        # steps. Seeds 0 to 9 all evaluate to 500, and 0 to 4 with rows four windows old. With raw
        # rewards one seed in four had forgotten by the end (values grow to 100, and their errors
        # with them); without the entropy bonus old rows made one policy deterministic too early.
        algo=IMPALAOptions(
            horizon=20,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            normalize_reward=True,
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
    """MinAtar: short windows of few environments, so that there are many updates."""
    return Run(
        # lambda: the actor-critic of Young and Tian (2019), as in `a2c.minatar`; rewards are raw
        # there, and small. entropy_coef, value_coef: the paper. The rest: ours, for Breakout: after
        # 2M steps seeds 0 and 1 reach 17 and 10; windows of 16 x 20 rows with lr 3e-3 reached 6.
        env=EnvOptions(env, num_envs=8),
        algo=IMPALAOptions(
            horizon=10,
            lr=2e-3,
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
        algo=IMPALAOptions(  # as `classic`; observations normalized as in `ppo.memory`
            horizon=20,
            lr=3e-3,
            lr_schedule="linear",
            gamma=0.99,
            vtrace_lambda=1.0,
            entropy_coef=0.01,
            value_coef=0.25,
            normalize_observation=True,
            normalize_reward=True,
            optimizer="adam",
        ),
        model=ActorCriticOptions(share_trunk=False, memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=200_000),
        preset="impala/memory",
    )
