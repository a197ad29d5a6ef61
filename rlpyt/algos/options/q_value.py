"""Options of Q-value policy gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from rlpyt.algos.options.replay import ReplayOptions


@dataclass(frozen=True)
class QValueOptions(ReplayOptions):
    """What DDPG, TD3, D4PG and SAC have in common: critics of the actions of a learned actor.

    With a memory the preset sets `burn_in`, `train_rows` and `state_interval`: items are sequences.
    """

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 1
    """Rows per environment that are collected between looks at the replay, T."""

    lr: Annotated[float, arg(name="learning-rate", aliases=["--lr"])] = 3e-4
    """Learning rate of the critics at the start."""

    actor_lr: float | None = None
    """Learning rate of the actor at the start; unset: that of the critics."""

    max_grad_norm: float = 0.0
    """Gradients of critics, and of the actor, are scaled down to this norm; 0 does not clip."""

    batch_size: int = 256
    """Items of an update: transitions, or with a memory sequences."""

    replay_size: Annotated[int, arg(name="buffer-size", aliases=["--replay-size"])] = 1_000_000
    """Rows that the replay holds, over all environments."""

    replay_ratio: float = 256.0
    """Rows trained per environment step (burn-in counts); 256: an update of 256 transitions."""

    learning_starts: int = 10_000
    """Environment steps before the first update."""

    random_steps: int | None = None
    """Actions are uniform in their bounds before so many environment steps; unset: until learning
    starts."""

    target_update_updates: int = 1
    """Updates of the critics between those of the target networks."""

    target_tau: float = 0.005
    """How far target networks move to the trained ones; 1 copies them."""

    critics: int = 2
    """Critics, each with initial weights of its own; targets take the least of them."""

    policy_delay: int = 1
    """Updates of the critics between those of the actor."""

    values: Literal["expected", "categorical", "quantile"] = "expected"
    """What critics learn of returns: their mean, atoms (Bellemare et al., 2017), or quantiles
    (Dabney et al., 2018a)."""

    critic_loss: Literal["squared", "huber"] = "squared"
    """Of expected values: half the square, or linear beyond huber_delta."""

    huber_delta: float = 1.0
    """Where the Huber loss (also that of quantiles, kappa) becomes linear."""

    num_atoms: int = 51
    """Atoms of categorical values."""

    v_min: float = -10.0
    """The lowest atom."""

    v_max: float = 10.0
    """The highest atom."""

    num_quantiles: int = 25
    """Quantiles of quantile values, of each critic."""

    reward_scale: float = 1.0
    """Learners read rewards times this."""

    burn_in: int = 0
    """Rows that only bring the memory's state up to date, before those that are trained."""

    train_rows: int = 1
    """Rows of an item that are trained; 1 without a memory."""

    state_interval: int = 1
    """Items begin at every such row, where a memory's state of acting was kept."""

    zero_state: bool = False
    """Begin sequences with a state of zeros instead of the one that was kept."""

    priority_eta: float = 0.9
    """A sequence's priority is this times its greatest error, and the rest times the mean."""

    @property
    def warm_up(self) -> int:
        """Environment steps before which actions are uniform."""
        return self.learning_starts if self.random_steps is None else self.random_steps

    @property
    def rows_per_update(self) -> int:
        return self.batch_size * (self.burn_in + self.train_rows)

    @property
    def item_length(self) -> int:
        return self.burn_in + self.train_rows + self.n_step

    @property
    def trained(self) -> range:
        return range(self.burn_in, self.burn_in + self.train_rows)

    @property
    def start_interval(self) -> int:
        return self.state_interval


@dataclass(frozen=True)
class DDPGOptions(QValueOptions):
    """Deep deterministic policy gradient (Lillicrap et al., 2016)."""

    critics: int = 1
    """Critics, each with initial weights of its own; targets take the least of them."""

    exploration: Literal["gaussian", "ou"] = "gaussian"
    """Noise added to actions: independent from row to row, or an Ornstein-Uhlenbeck process of
    each environment, which an episode begins at 0."""

    exploration_std: float = 0.1
    """Standard deviation of the noise that a row adds; 1 is half of what an action's bounds span.
    The process settles at this over sqrt(1 - (1 - ou_theta)^2)."""

    ou_theta: float = 0.15
    """What an Ornstein-Uhlenbeck process loses of itself in a row."""


@dataclass(frozen=True)
class TD3Options(DDPGOptions):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

    critics: int = 2
    """Critics, each with initial weights of its own; targets take the least of them."""

    policy_delay: int = 2
    """Updates of the critics between those of the actor."""

    target_update_updates: int = 2
    """Updates of the critics between those of the target networks."""

    target_noise: float = 0.2
    """Standard deviation of the noise on the target's actions; 1 is half of what their bounds
    span."""

    target_noise_clip: float = 0.5
    """That noise is clipped to ± this."""


@dataclass(frozen=True)
class D4PGOptions(DDPGOptions):
    """Distributional DDPG (Barth-Maron et al., 2018), on one machine."""

    values: Literal["expected", "categorical", "quantile"] = "categorical"
    """What critics learn of returns: their mean, atoms (Bellemare et al., 2017), or quantiles
    (Dabney et al., 2018a)."""

    n_step: int = 5
    """Rewards that are summed before the bootstrap."""


@dataclass(frozen=True)
class SACOptions(QValueOptions):
    """Soft actor-critic (Haarnoja et al., 2018), up to REDQ, TQC, DroQ and CrossQ.

    Of one Discrete choice it is that of Christodoulou (2019).

    With more critics it is REDQ (Chen et al., 2021), with quantiles TQC (Kuznetsov et al., 2020),
    with dropout DroQ (Hiraoka et al., 2022), with batch normalization CrossQ (Bhatt et al., 2024).
    """

    temperature: float | None = None
    """Weight of the entropy beside returns, alpha; unset: learned."""

    initial_temperature: float = 1.0
    """A learned temperature at the start."""

    temperature_lr: float | None = None
    """Learning rate of the temperature; unset: that of the critics."""

    target_entropy: float | None = None
    """What a learned temperature moves the policy's entropy to, in units in which actions lie in
    [-1, 1]; unset: minus the number of their dimensions, or what entropy_fraction says."""

    entropy_fraction: float = 0.98
    """Of one Discrete choice the target entropy is, if unset, this part of the greatest, log n, n
    the actions that are allowed (Christodoulou, 2019)."""

    target_critics: int = 2
    """Critics of which targets take the least: all, or as many drawn for each update (REDQ)."""

    drop_quantiles: int = 0
    """With quantiles: targets are the quantiles of all critics, without this many times `critics`
    of the greatest (TQC)."""

    actor_judge: Literal["least", "mean"] | None = None
    """What of the critics' values the actor climbs; unset: the mean with REDQ and TQC, otherwise
    the least."""
