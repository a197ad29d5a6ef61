"""Options of the algorithms. This module imports no torch: the command line's help reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from rlpyt.schedules import Schedule


@dataclass(frozen=True)
class PolicyGradientOptions:
    """What A2C and PPO have in common."""

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 128
    """Rows per environment that are collected before each update, T."""

    gamma: float = 0.99
    """Discount per environment step."""

    gae_lambda: float = 0.95
    """Generalized advantage estimation: 0 is one-step TD, 1 is Monte Carlo."""

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
class PPOOptions(PolicyGradientOptions):
    """Proximal policy optimization (Schulman et al., 2017)."""

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
class ReplayOptions:
    """What the algorithms that learn from a replay have in common."""

    horizon: Annotated[int, arg(name="num-steps", aliases=["--horizon"])] = 4
    """Rows per environment that are collected between looks at the replay, T."""

    gamma: float = 0.99
    """Discount per environment step."""

    lr: Annotated[float, arg(name="learning-rate", aliases=["--lr"])] = 1e-4
    """Learning rate at the start."""

    lr_schedule: Schedule = "constant"
    """How the learning rate changes with environment steps; linear falls to 0 at the end."""

    max_grad_norm: float = 10.0
    """Gradients are scaled down to this norm (over all parameters, Euclidean); 0 does not clip."""

    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Adam, or RMSprop centred and with decay 0.95 (Mnih et al., 2015)."""

    optimizer_eps: float = 1e-8
    """Epsilon of Adam; RMSprop's lies in the root (Mnih et al., 2015: 0.01, beside the square of
    a gradient summed over the batch; ours is a mean)."""

    batch_size: int = 32
    """Items of an update: transitions, or sequences of a recurrent algorithm."""

    replay_size: Annotated[int, arg(name="buffer-size", aliases=["--replay-size"])] = 100_000
    """Rows that the replay holds, over all environments."""

    replay_ratio: float = 8.0
    """Rows trained per environment step (burn-in counts); 8: 32 transitions every 4 steps."""

    learning_starts: int = 1000
    """Environment steps before the first update."""

    save_replay: bool = True
    """Checkpoints hold the replay; without it a resumed run fills a new one first."""

    replay_memory: Literal["host", "pinned", "device"] = "host"
    """Where updates read the replay: in host memory; there, by way of page-locked memory; or in a
    copy of all of it on the device, to which each row goes once."""

    n_step: int = 1
    """Rewards that are summed before the bootstrap."""

    reward_clip: Literal["none", "sign"] = "none"
    """What the learner reads of a reward: itself, or its sign (Mnih et al., 2015)."""

    normalize_observation: bool = False
    """Observations of floats minus their running mean, by their running standard deviation."""

    prioritized: bool = False
    """Draw items in proportion to their last error (Schaul et al., 2016)."""

    priority_alpha: float = 0.6
    """Exponent of the priorities; 0 draws uniformly."""

    priority_beta: float = 0.4
    """Exponent of the importance weights at the start; 1 corrects the bias in full."""

    priority_beta_end: float = 1.0
    """The same at the end of the run; linear in environment steps."""

    priority_entry: Literal["max", "td"] = "max"
    """Priority of new items: the greatest so far, or their error under the values of acting."""

    target_update_updates: int = 2500
    """Updates between those of the target network."""

    target_tau: float = 1.0
    """How far the target network moves to the trained one; 1 copies it."""

    @property
    def rows_per_update(self) -> int:
        """Rows that one update trains on, as the replay ratio counts them."""
        return self.batch_size

    def learning_begins(self, num_envs: int) -> int:
        """Environment steps after which rows are counted for the replay ratio, if no episode ends.

        That is `learning_starts`, or the beginning of the window with which the first item is
        whole.
        """
        windows = -(-self.item_length // self.horizon) - 1  # before that one
        return max(self.learning_starts, windows * self.horizon * num_envs)

    def updates(self, num_envs: int, env_steps: int) -> int:
        """How many a whole run makes in which no episode ends; others have some rows more."""
        taken = -(-env_steps // num_envs) * num_envs
        counted = taken - self.learning_begins(num_envs)
        return max(0, int(self.replay_ratio * counted // self.rows_per_update))

    @property
    def item_length(self) -> int:
        """Rows of an item of the replay, the bootstrap's included."""
        return self.n_step + 1

    @property
    def trained(self) -> range:
        """Which rows of an item are trained."""
        return range(1)

    @property
    def start_interval(self) -> int:
        """Items begin at every such row."""
        return 1


@dataclass(frozen=True)
class QLearningOptions(ReplayOptions):
    """What DQN and R2D1 have in common; every variant is an option of its own."""

    double: bool = True
    """The trained network chooses the next action, the target network values it (van Hasselt et
    al., 2016)."""

    values: Literal["expected", "categorical", "quantile", "implicit"] = "expected"
    """What is learned of returns: their mean, atoms (C51, Bellemare et al., 2017), quantiles
    (QR-DQN, Dabney et al., 2018a) or any quantile (IQN, Dabney et al., 2018b)."""

    loss: Literal["huber", "squared"] = "huber"
    """Of expected values: half the square, or linear beyond huber_delta."""

    huber_delta: float = 1.0
    """Where the Huber loss (also that of quantiles, kappa) becomes linear."""

    num_atoms: int = 51
    """Atoms of categorical values."""

    v_min: float = -10.0
    """The lowest atom."""

    v_max: float = 10.0
    """The highest atom."""

    num_quantiles: int = 200
    """Quantiles of quantile values."""

    num_fractions: int = 64
    """Implicit quantiles drawn for predictions, and as many for targets (N and N')."""

    greedy_fractions: int = 32
    """Implicit quantiles, evenly spaced, whose mean chooses an action (K)."""

    value_rescale: float = 0.0
    """Learn h(x) = sign(x) (sqrt(|x| + 1) - 1) + this * x of returns x (Pohlen et al., 2018);
    0: x."""

    munchausen: bool = False
    """Add the scaled log-policy to rewards, with soft targets (Vieillard et al., 2020)."""

    munchausen_alpha: float = 0.9
    """Weight of the log-policy."""

    munchausen_temperature: float = 0.03
    """Temperature of the policy, softmax(q / temperature)."""

    munchausen_floor: float = -1.0
    """Temperature times the log-policy is no less than this, before it is weighted."""

    epsilon_start: float = 1.0
    """Probability of a random action until learning starts."""

    epsilon_end: float = 0.05
    """Probability of a random action in the end."""

    epsilon_steps: int = 10_000
    """Environment steps, from the start of learning, over which epsilon falls; linear."""

    epsilon_ladder: Literal["none", "apex", "log"] = "none"
    """An own final epsilon for each environment: 0.4^(1 + 7 i / (B - 1)) (Horgan et al., 2018), or
    evenly spaced in their logarithms from epsilon_end_min to epsilon_end."""

    epsilon_end_min: float = 0.0005
    """The least final epsilon of the log ladder."""

    eval_epsilon: float = 0.0
    """Probability of a random action in evaluations."""


@dataclass(frozen=True)
class DQNOptions(QLearningOptions):
    """Deep Q-learning (Mnih et al., 2015) and its variants, up to Rainbow and IQN."""


@dataclass(frozen=True)
class R2D1Options(QLearningOptions):
    """Recurrent Q-learning from sequences (R2D2, Kapturowski et al., 2019, on one machine)."""

    batch_size: int = 32
    """Sequences of an update."""

    n_step: int = 5
    """Rewards that are summed before the bootstrap."""

    burn_in: int = 40
    """Rows that only bring the state up to date, before those that are trained."""

    train_rows: int = 80
    """Rows of a sequence that are trained."""

    state_interval: int = 40
    """Sequences begin at every such row, where the state of acting was kept."""

    zero_state: bool = False
    """Begin sequences with a state of zeros instead of the one that was kept."""

    priority_eta: float = 0.9
    """A sequence's priority is this times its greatest error, and the rest times the mean."""

    value_rescale: float = 1e-3
    """Learn h(x) = sign(x) (sqrt(|x| + 1) - 1) + this * x of returns x (Pohlen et al., 2018);
    0: x."""

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
    """Soft actor-critic (Haarnoja et al., 2018), up to REDQ and TQC.

    With more critics it is REDQ (Chen et al., 2021), with quantiles TQC (Kuznetsov et al., 2020).
    """

    temperature: float | None = None
    """Weight of the entropy beside returns, alpha; unset: learned."""

    initial_temperature: float = 1.0
    """A learned temperature at the start."""

    temperature_lr: float | None = None
    """Learning rate of the temperature; unset: that of the critics."""

    target_entropy: float | None = None
    """What a learned temperature moves the policy's entropy to, in units in which actions lie in
    [-1, 1]; unset: minus the number of their dimensions."""

    target_critics: int = 2
    """Critics of which targets take the least: all, or as many drawn for each update (REDQ)."""

    drop_quantiles: int = 0
    """With quantiles: targets are the quantiles of all critics, without this many times `critics`
    of the greatest (TQC)."""
