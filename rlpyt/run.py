"""The tree of options of a run. This module imports no torch: the command line's help reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tyro.conf import arg

from rlpyt import rules
from rlpyt.algos.options import (
    A2COptions,
    APPOOptions,
    D4PGOptions,
    DDPGOptions,
    DQNOptions,
    IMPALAOptions,
    PPOOptions,
    QLearningOptions,
    QValueOptions,
    R2D1Options,
    SACOptions,
    TD3Options,
)
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.samplers import rules as sampler_rules
from rlpyt.samplers.options import SamplerOptions

Algorithm = (
    PPOOptions
    | A2COptions
    | IMPALAOptions
    | APPOOptions
    | DQNOptions
    | R2D1Options
    | DDPGOptions
    | TD3Options
    | SACOptions
    | D4PGOptions
)
Network = ActorCriticOptions | QNetworkOptions | ActorQOptions
ALGORITHMS: dict[str, type[Algorithm]] = {
    "ppo": PPOOptions,
    "a2c": A2COptions,
    "impala": IMPALAOptions,
    "appo": APPOOptions,
    "dqn": DQNOptions,
    "r2d1": R2D1Options,
    "ddpg": DDPGOptions,
    "td3": TD3Options,
    "sac": SACOptions,
    "d4pg": D4PGOptions,
}


@dataclass(frozen=True)
class LoopOptions:
    """How long a run is, what it writes and when, and what it runs on."""

    env_steps: Annotated[int, arg(name="total-timesteps", aliases=["--env-steps"])] = 100_000
    """Length of the run in environment steps, over all environments (100k, 1e6 and 2M parse)."""

    seed: Annotated[int | None, arg(metavar="INT")] = None
    """Seed of everything random; unset draws one, prints and stores it."""

    runs: str = "runs"
    """Folder in which the run's own folder is made."""

    name: Annotated[str | None, arg(metavar="STR")] = None
    """Name of the run's folder; unset: {env}__{algo}__{seed}__{time}."""

    log_interval: Annotated[int | None, arg(metavar="INT")] = None
    """Environment steps between lines of progress.csv; unset: a hundredth of the run."""

    eval_interval: int = 0
    """Environment steps between evaluations; 0 evaluates at the end only."""

    eval_episodes: int = 20
    """Episodes of an evaluation; 0 never evaluates."""

    eval_stochastic: bool = False
    """Evaluate with sampled actions (Q-learning: with training's mean epsilon and noise; DDPG: with
    noise on actions) instead of the most likely ones."""

    eval_max_steps: int = 27_000
    """An evaluation ends an episode after so many steps, or up to 15 more (30 minutes of Atari)."""

    checkpoint_interval: Annotated[int | None, arg(metavar="INT")] = None
    """Environment steps between checkpoints; unset: a quarter of the run, at most 100k."""

    keep_checkpoints: int = 2
    """Newest checkpoints that are kept, beside the best one."""

    stop_at_return: Annotated[float | None, arg(metavar="FLOAT")] = None
    """End the run once an evaluation's mean return reaches this (needs --eval-interval)."""

    init_from: Annotated[str | None, arg(metavar="RUN")] = None
    """Start from the weights and normalizers of another run's newest checkpoint."""

    device: str = "auto"
    """Where the network lives: cpu, cuda, cuda:1, mps; auto: a GPU for image networks if any."""

    threads: Annotated[int | None, arg(metavar="INT")] = None
    """Threads of PyTorch; unset: 1 for small networks, else the allowed cores."""

    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile an update: 10 to 30 s once, and faster updates after that; auto does so where
    the run's updates gain more than that."""

    precision: Literal["float32", "bf16"] = "float32"
    """bf16 runs the network's forward and backward pass in autocast; the rest stays float32."""

    allocator: Literal["tuned", "default"] = "tuned"
    """tuned: glibc keeps large blocks instead of returning them to the system at every step."""

    @property
    def log_every(self) -> int:
        """The log interval, chosen if it is unset."""
        return self.log_interval or max(1, self.env_steps // 100)

    @property
    def checkpoint_every(self) -> int:
        """The checkpoint interval, chosen if it is unset; 0: at the end only."""
        chosen = min(max(1, self.env_steps // 4), 100_000)
        return chosen if self.checkpoint_interval is None else self.checkpoint_interval

    def __post_init__(self) -> None:
        for name in ("env_steps", "keep_checkpoints", "eval_max_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("log_interval", "eval_interval", "eval_episodes", "checkpoint_interval"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name}={value} must not be negative")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"seed={self.seed} must not be negative; NumPy's seeds are not")
        if self.stop_at_return is not None and not math.isfinite(self.stop_at_return):
            raise UsageError(f"stop_at_return={self.stop_at_return} must be a finite number")
        if self.stop_at_return is not None and not (self.eval_interval and self.eval_episodes):
            raise UsageError(
                f"stop_at_return={self.stop_at_return} needs evaluations during training; "
                "set --eval-interval too, and leave --eval-episodes above 0"
            )


@dataclass(frozen=True)
class Run:
    """A complete run: environments, algorithm, network, loop, sampler."""

    env: EnvOptions
    algo: Algorithm
    # Unset, it becomes the algorithm's own kind before anyone can read it (`__post_init__`).
    model: Network = None  # type: ignore[assignment]  # never None once made, see above
    loop: LoopOptions = field(default_factory=LoopOptions)
    preset: str = "none"  # where the defaults came from

    schedule_steps_from: int | None = None  # the length that schedules were made for, once resumed

    sampler: SamplerOptions = field(default_factory=SamplerOptions)

    @property
    def schedule_steps(self) -> int:
        return self.schedule_steps_from or self.loop.env_steps

    @property
    def env_name(self) -> str:
        return self.env.name

    @property
    def algo_name(self) -> str:
        return next(name for name, kind in ALGORITHMS.items() if type(self.algo) is kind)

    def __post_init__(self) -> None:
        kind = network_of(self.algo)
        if self.model is None:
            object.__setattr__(self, "model", kind())
        elif type(self.model) is not kind:
            raise UsageError(
                f"model={type(self.model).__name__} is not what {self.algo_name} has; give "
                f"{kind.__name__}"
            )
        rules.check(self.algo, self.model, self.env.num_envs, self.loop.env_steps)
        sampler_rules.check(self.sampler, self.env, self.algo)

    def without_effect(self) -> dict[str, str]:
        """Options that change nothing beside the others, and what would give them an effect."""
        idle = rules.without_effect(self.algo, self.model)
        if not self.loop.eval_episodes:  # what others say holds for evaluations after the run, too
            names = ("eval_interval", "eval_stochastic")
            asked = [name for name in names if getattr(self.loop, name)]
            idle |= dict.fromkeys(asked, "leave --eval-episodes above 0")
        return idle | sampler_rules.without_effect(self.sampler, self.env)


def network_of(algo: Algorithm) -> type[Network]:
    """The options that the network of an algorithm has."""
    if isinstance(algo, QValueOptions):
        return ActorQOptions
    return QNetworkOptions if isinstance(algo, QLearningOptions) else ActorCriticOptions
