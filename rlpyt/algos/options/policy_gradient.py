"""Options of policy gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro.conf import arg

from rlpyt.schedules import Schedule


@dataclass(frozen=True)
class PolicyGradientOptions:
    """What all policy gradients have in common."""

    asynchronous_rows: ClassVar[Literal["window"] | None] = None
    """What holds rows of older weights that it can learn from: windows, or none does."""

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 128
    """Rows per environment that are collected before each update, T."""

    gamma: float = 0.99
    """Discount per environment step."""

    lr: Annotated[float, arg(name="learning-rate", aliases=["--lr"])] = 3e-4
    """Learning rate at the start."""

    lr_schedule: Schedule = "constant"
    """How the learning rate changes with environment steps; linear falls to 0 at the end."""

    value_coef: float = 0.5
    """Weight of the value loss, the mean squared error."""

    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""

    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm (over all parameters, Euclidean); 0 does not clip."""

    normalize_advantage: bool = True
    """Subtract the mean of a minibatch's advantages and divide by their standard deviation."""

    normalize_observation: bool = False
    """Observations of floats minus their running mean, by their running standard deviation."""

    normalize_reward: bool = False
    """Rewards by the running standard deviation of the discounted return (returns stay raw)."""

    reward_clip: Literal["none", "sign"] = "none"
    """What the learner reads of a reward: itself, or its sign (Mnih et al., 2015)."""

    state_interval: int | None = None
    """With memory: rows of a training sequence, whose first state was kept; unset: the horizon."""

    optimizer_eps: float = 1e-5
    """Epsilon of Adam or RMSprop."""


@dataclass(frozen=True)
class ClippedOptions(PolicyGradientOptions):
    """What PPO and APPO have in common: epochs of minibatches of a clipped objective."""

    update_epochs: Annotated[int, arg(name="n-epochs", aliases=["--update-epochs"])] = 4
    """Passes over each window."""

    minibatch_size: int = 256
    """Rows of a minibatch; there are horizon * num_envs // minibatch_size minibatches."""

    clip_coef: Annotated[float, arg(name="clip-range", aliases=["--clip-coef"])] = 0.2
    """The ratio of new to old probability is clipped to 1 ± this."""

    clip_schedule: Schedule = "constant"
    """How the clip coefficient changes with environment steps."""

    clip_value: float = 0.0
    """Clip the value's change likewise (PPO2's value loss); 0 does not clip."""

    target_kl: float = 0.0
    """Stop a window's epochs once their mean KL divergence exceeds this; 0 never stops."""

    recompute_advantages: bool = False
    """Compute values and advantages anew before each epoch."""

    def minibatches(self, num_envs: int) -> int:
        """How many minibatches a window of B = num_envs columns is cut into."""
        return max(1, self.horizon * num_envs // self.minibatch_size)


@dataclass(frozen=True)
class PPOOptions(ClippedOptions):
    """Proximal policy optimization (Schulman et al., 2017)."""

    gae_lambda: float = 0.95
    """Generalized advantage estimation: 0 is one-step TD, 1 is Monte Carlo."""


@dataclass(frozen=True)
class APPOOptions(ClippedOptions):
    """PPO from rows of older weights, corrected by V-trace (Petrenko et al., 2020)."""

    asynchronous_rows: ClassVar[Literal["window"] | None] = "window"

    vtrace_lambda: float = 0.95
    """Multiplies V-trace's traces: of rows by the present policy its targets are λ-returns."""

    rho_clip: float = 1.0
    """V-trace's rho-bar: the ratio of new to acting probability is at most this in an error."""

    c_clip: float = 1.0
    """V-trace's c-bar: the ratio is at most this in a trace; no greater than rho_clip."""


@dataclass(frozen=True)
class A2COptions(PolicyGradientOptions):
    """Advantage actor-critic, synchronous (Mnih et al., 2016)."""

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 5
    """Rows per environment that are collected before each update, T."""

    gae_lambda: float = 1.0
    """Generalized advantage estimation: 1 is the n-step return of the paper."""

    lr: Annotated[float, arg(name="learning-rate", aliases=["--lr"])] = 7e-4
    """Learning rate at the start."""

    normalize_advantage: bool = False
    """Subtract the mean of the advantages and divide by their standard deviation."""

    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """RMSprop with epsilon inside the root (as in TensorFlow), or Adam."""


@dataclass(frozen=True)
class IMPALAOptions(PolicyGradientOptions):
    """Actor-critic from rows of older weights, corrected by V-trace (Espeholt et al., 2018)."""

    asynchronous_rows: ClassVar[Literal["window"] | None] = "window"

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 20
    """Rows per environment that are collected before each update, T."""

    lr: Annotated[float, arg(name="learning-rate", aliases=["--lr"])] = 6e-4
    """Learning rate at the start."""

    value_coef: float = 0.25
    """Weight of the value loss, the mean squared error (the paper weighs half of it by 0.5)."""

    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""

    normalize_advantage: bool = False
    """Subtract the mean of the advantages and divide by their standard deviation."""

    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """RMSprop with epsilon beside the root (as in PyTorch), or Adam."""

    vtrace_lambda: float = 1.0
    """Multiplies V-trace's traces: of rows by the present policy its targets are λ-returns."""

    rho_clip: float = 1.0
    """V-trace's rho-bar: the ratio of new to acting probability is at most this in an error."""

    c_clip: float = 1.0
    """V-trace's c-bar: the ratio is at most this in a trace; no greater than rho_clip."""
