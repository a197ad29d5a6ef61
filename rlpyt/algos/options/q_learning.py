"""Options of Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlpyt.algos.options.replay import ReplayOptions


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
