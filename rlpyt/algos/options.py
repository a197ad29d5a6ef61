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
