"""Options of everything that learns from a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro.conf import arg

from rlpyt.schedules import Schedule


@dataclass(frozen=True)
class ReplayOptions:
    """What the algorithms that learn from a replay have in common."""

    asynchronous_rows: ClassVar[Literal["replay"]] = "replay"
    """What holds rows of older weights that it can learn from."""

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

    adam_beta1: float = 0.9
    """What is left in a step of Adam's running mean of gradients."""

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

    priority_unique: bool = False
    """No item is twice in an update: each is drawn from those that are left."""

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
