"""PPO's presets. Every number has its source; "ours" is one that we chose or measured.

The zoo is RL Baselines3 Zoo's `hyperparams/ppo.yml`; its value loss is the mean squared error, as
here. What a preset does not name is the default of `PPOOptions`, which are PPO's in
Stable-Baselines3 but for lr, epochs and minibatches: Adam's epsilon 1e-5, value_coef 0.5,
max_grad_norm 0.5, advantages normalized by minibatch.
"""

from __future__ import annotations

from typing import Any

from rlpyt.algos.options import PPOOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run


def default(env: Any) -> Run:
    """Any environment: moderate settings that learn most things slowly rather than few fast."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Schulman et al. (2017), table 5 (Atari) for epochs and minibatches, table 3 (MuJoCo) for
        # lr, gamma, lambda and clip; the linear lr is that of their code. 500k steps: ours.
        algo=PPOOptions(
            horizon=128,
            lr=3e-4,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.2,
            entropy_coef=0.0,
        ),
        loop=LoopOptions(env_steps=500_000),
        preset="ppo/default",
    )


def classic(env: Any) -> Run:
    """CartPole: 8 x 128 rows in 4 epochs of 4 minibatches; lr and clip fall to 0."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Rows, epochs, minibatches: Schulman et al. (2017), table 5. Both schedules: the zoo, whose
        # lr 1e-3 over 8 x 32 rows and 20 epochs becomes 2.5e-3 over windows four times as long
        # (ours). Seeds 0 to 19 all evaluate to 500; with a constant clip seed 2 stopped at 394.
        algo=PPOOptions(
            horizon=128,
            lr=2.5e-3,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.2,
            clip_schedule="linear",
            entropy_coef=0.0,
        ),
        model=ActorCriticOptions(hidden_sizes=(64, 64), activation="tanh", share_trunk=False),
        loop=LoopOptions(env_steps=100_000),
        preset="ppo/classic",
    )


def acrobot(env: Any) -> Run:
    """Acrobot: the zoo's, normalized."""
    return Run(
        env=EnvOptions(env, num_envs=16),  # zoo
        algo=PPOOptions(  # zoo; lr and minibatch_size are SB3's defaults
            horizon=256,
            lr=3e-4,
            update_epochs=4,
            minibatch_size=64,
            gamma=0.99,
            gae_lambda=0.94,
            normalize_observation=True,
            normalize_reward=True,
        ),
        loop=LoopOptions(env_steps=1_000_000),  # zoo
        preset="ppo/acrobot",
    )


def mountain_car(env: Any) -> Run:
    """MountainCar, discrete or continuous: the zoo's for the discrete one, normalized."""
    return Run(
        env=EnvOptions(env, num_envs=16),  # zoo
        algo=PPOOptions(  # zoo; lr and minibatch_size are SB3's defaults
            horizon=16,
            lr=3e-4,
            update_epochs=4,
            minibatch_size=64,
            gamma=0.99,
            gae_lambda=0.98,
            normalize_observation=True,
            normalize_reward=True,
        ),
        loop=LoopOptions(env_steps=1_000_000),  # zoo
        preset="ppo/mountain-car",
    )


def lunar_lander(env: Any) -> Run:
    """LunarLander, discrete or continuous: the zoo's."""
    return Run(
        env=EnvOptions(env, num_envs=16),  # zoo
        algo=PPOOptions(  # zoo; lr and minibatch_size are SB3's defaults
            horizon=1024,
            lr=3e-4,
            update_epochs=4,
            minibatch_size=64,
            gamma=0.999,
            gae_lambda=0.98,
            entropy_coef=0.01,
        ),
        loop=LoopOptions(env_steps=1_000_000),  # zoo
        preset="ppo/lunar-lander",
    )


def pendulum(env: Any) -> Run:
    """Pendulum: the zoo's without state-dependent exploration."""
    return Run(
        env=EnvOptions(env, num_envs=4),  # zoo
        # Zoo, but for use_sde, which is not here; minibatch_size is SB3's default.
        algo=PPOOptions(
            horizon=1024,
            lr=1e-3,
            update_epochs=10,
            minibatch_size=64,
            gamma=0.9,
            gae_lambda=0.95,
            clip_coef=0.2,
        ),
        loop=LoopOptions(env_steps=100_000),  # zoo
        preset="ppo/pendulum",
    )


def atari(env: Any) -> Run:
    """Atari: the paper's, as in OpenAI Baselines, CleanRL and the zoo."""
    return Run(
        env=EnvOptions(env, num_envs=8, frame_stack=4),  # table 5; Mnih et al. (2015)
        # Schulman et al. (2017), table 5, with the four epochs of Baselines, CleanRL and the zoo
        # (the paper has 3). Rewards by sign: Mnih et al. (2015). value_coef: the zoo's.
        algo=PPOOptions(
            horizon=128,
            lr=2.5e-4,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.1,
            clip_schedule="linear",
            entropy_coef=0.01,
            value_coef=0.5,
            max_grad_norm=0.5,
            reward_clip="sign",
        ),
        model=ActorCriticOptions(encoder="nature", share_trunk=True),
        loop=LoopOptions(env_steps=10_000_000),  # zoo: 40M frames
        preset="ppo/atari",
    )


def mujoco(env: Any) -> Run:
    """MuJoCo: Tianshou's settings, which score highest of the published ones at 1M steps."""
    return Run(
        env=EnvOptions(env, num_envs=8),  # 8 to 128 make no difference, their README says
        # Tianshou's examples/mujoco: mujoco_ppo.py and the hints of its README (no value clip, no
        # advantage normalization, advantages anew in each epoch). It divides returns by their
        # running deviation, we divide the rewards by it: the same up to how fast it changes.
        algo=PPOOptions(
            horizon=256,  # 2048 steps over 8 environments
            lr=3e-4,
            lr_schedule="linear",
            update_epochs=10,
            minibatch_size=64,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.2,
            clip_value=0.0,
            value_coef=0.25,
            entropy_coef=0.0,
            max_grad_norm=0.5,
            normalize_advantage=False,
            normalize_observation=True,
            normalize_reward=True,
            recompute_advantages=True,
        ),
        model=ActorCriticOptions(
            hidden_sizes=(64, 64), activation="tanh", share_trunk=False, log_std_init=-0.5
        ),
        loop=LoopOptions(env_steps=1_000_000),  # the budget that most published tables share
        preset="ppo/mujoco",
    )


def minatar(env: Any) -> Run:
    """MinAtar: ours for 2M to 5M steps on a processor, after pgx and PureJaxRL."""
    return Run(
        # gamma, lambda, clip, max_grad_norm: pgx's examples/minatar-ppo/train.py, whose
        # value_coef 0.5 weighs half the squared error. The rest is ours, for Breakout: pgx has
        # 4096 environments, 3 epochs and lr 3e-4 over 20M steps, PureJaxRL 64 x 128 rows and 5e-3
        # over 10M. 64 x 64 rows in minibatches of 512 with entropy_coef 0.01 stayed at 7 and 11
        # after 2M steps (seeds 0, 1); these reach 17 and 14.
        env=EnvOptions(env, num_envs=16),
        algo=PPOOptions(
            horizon=128,
            lr=1e-3,
            lr_schedule="linear",
            update_epochs=4,
            minibatch_size=256,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.2,
            entropy_coef=0.02,
            value_coef=0.25,
            max_grad_norm=0.5,
        ),
        model=ActorCriticOptions(encoder="minatar", share_trunk=True),
        loop=LoopOptions(env_steps=5_000_000),  # Young and Tian (2019)
        preset="ppo/minatar",
    )


def memory(env: Any) -> Run:
    """Memory tasks: an LSTM on short sequences (--memory gru, or none for its blind twin)."""
    return Run(
        env=EnvOptions(env, num_envs=8),
        # Ours, for position-only CartPole at 100k: seeds 0, 1, 2 evaluate to 500 with an LSTM. Of
        # windows of 128 rows, trained on whole, two seeds in five evaluated below 450: there are
        # four times fewer sequences to shuffle. Width and separate memories: sb3-contrib's
        # RecurrentPPO.
        algo=PPOOptions(
            horizon=64,
            state_interval=16,
            lr=2e-3,
            lr_schedule="linear",
            update_epochs=6,
            minibatch_size=256,
            gamma=0.99,
            gae_lambda=0.95,
            clip_coef=0.2,
            clip_schedule="linear",
            entropy_coef=0.0,
            normalize_observation=True,
            normalize_reward=True,
        ),
        model=ActorCriticOptions(share_trunk=False, memory="lstm", memory_size=64),
        loop=LoopOptions(env_steps=100_000),
        preset="ppo/memory",
    )
