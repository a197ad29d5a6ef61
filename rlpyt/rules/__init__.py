"""What the options of a run must satisfy, one by one and together. Imports no torch."""

from __future__ import annotations

import math
from typing import Any

from rlpyt.algos.options import (
    APPOOptions,
    ClippedOptions,
    IMPALAOptions,
    PolicyGradientOptions,
    QLearningOptions,
    QValueOptions,
    R2D1Options,
    ReplayOptions,
)
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorQOptions, ModelOptions, QNetworkOptions
from rlpyt.rules import critics

_AT_LEAST_ONE = (
    *("horizon", "state_interval", "minibatch_size", "update_epochs", "batch_size", "n_step"),
    *("replay_size", "target_update_updates", "num_atoms", "num_quantiles", "num_fractions"),
    *("greedy_fractions", "train_rows", "critics", "target_critics", "policy_delay"),
)
_NOT_NEGATIVE = (
    *("lr", "value_coef", "max_grad_norm", "optimizer_eps", "clip_coef", "clip_value"),
    *("target_kl", "replay_ratio", "learning_starts", "huber_delta", "value_rescale"),
    *("epsilon_steps", "burn_in", "munchausen_alpha", "noisy_sigma", "actor_lr", "random_steps"),
    *("exploration_std", "target_noise", "target_noise_clip", "temperature", "temperature_lr"),
    *("drop_quantiles", "c_clip", "batch_norm_warm_up"),
)
_MAY_BE_INFINITE = (
    *("clip_coef", "clip_value", "max_grad_norm", "huber_delta", "target_kl", "target_noise_clip"),
    *("rho_clip", "c_clip"),
)
_FRACTIONS = (
    *("gamma", "gae_lambda", "priority_beta", "priority_beta_end", "priority_eta", "target_tau"),
    *("epsilon_start", "epsilon_end", "epsilon_end_min", "eval_epsilon", "priority_alpha"),
    *("ou_theta", "vtrace_lambda", "entropy_fraction"),
)

OF_MEMORY = frozenset({"state_interval", "zero_state", "burn_in"})
"""Options of sequences, which have an effect where the network has a memory."""


def check(algo: Any, model: ModelOptions, num_envs: int, env_steps: int) -> None:
    """Refuse options that cannot be, alone or together.

    Args:
        algo, model: the options of a run.
        num_envs: B.
        env_steps: length of the run.
    """
    for name in _AT_LEAST_ONE:
        value = getattr(algo, name, None)
        if value is not None and value < 1:
            raise UsageError(f"{name}={value} must be at least 1")
    for name in _FRACTIONS:
        if not 0 <= (value := getattr(algo, name, 0)) <= 1:
            raise UsageError(f"{name}={value} must lie between 0 and 1")
    options = {**vars(algo), **vars(model)}
    for name, value in options.items():
        infinite = isinstance(value, float) and not math.isfinite(value)
        if infinite and not (name in _MAY_BE_INFINITE and value > 0):
            raise UsageError(f"{name}={value} must be a finite number")
    for name in ("adam_beta1", "critic_dropout"):
        if not 0 <= (value := options.get(name, 0)) < 1:
            raise UsageError(f"{name}={value} must be at least 0 and less than 1")
    for name in _NOT_NEGATIVE:
        if (value := options.get(name)) is not None and not value >= 0:
            raise UsageError(f"{name}={value} must not be negative")
    if not algo.optimizer_eps > 0:
        raise UsageError("optimizer_eps=0 divides 0 by 0 where no gradient was seen; choose more")
    for name in ("hidden_sizes", "head_sizes", "critic_sizes", "encoder_sizes"):
        if min(sizes := getattr(model, name, None) or (1,)) < 1:
            raise UsageError(f"{name}={sizes} must be at least 1")
    if model.memory_size < 1:
        raise UsageError(f"memory_size={model.memory_size} must be at least 1")
    if isinstance(algo, PolicyGradientOptions):
        _check_windows(algo, model, num_envs)
    if isinstance(algo, ReplayOptions):
        _check_replay(algo, num_envs, env_steps)
    if isinstance(algo, QLearningOptions):
        _check_values(algo, model)
        _check_exploration(algo, num_envs)
    if isinstance(algo, QValueOptions):
        critics.check_critics(algo, model)


def without_effect(algo: Any, model: ModelOptions) -> dict[str, str]:
    """Options that change nothing beside the others, and what would give them an effect."""
    idle: dict[str, str] = {}
    recurrent = model.memory != "none"
    if not recurrent:
        idle["memory_size"] = "add --memory lstm or gru"
        if isinstance(algo, PolicyGradientOptions):
            idle["state_interval"] = "add --memory lstm or gru"
    if isinstance(algo, ReplayOptions) and not algo.prioritized:
        for name in ("alpha", "beta", "beta_end", "entry", "eta", "unique"):
            idle[f"priority_{name}"] = "add --prioritized"
    if isinstance(algo, QLearningOptions):
        own = {
            "categorical": ("num_atoms", "v_min", "v_max"),
            "quantile": ("num_quantiles",),
            "implicit": ("num_fractions", "greedy_fractions"),
            "expected": ("loss",),
        }
        for kind, names in own.items():
            if algo.values != kind:
                idle |= dict.fromkeys(names, f"add --values {kind}")
        if algo.values == "expected" and algo.loss == "squared":
            idle["huber_delta"] = "add --loss huber"
        if algo.values == "categorical":
            idle["huber_delta"] = "add --values expected, quantile or implicit"
        if not algo.munchausen:
            for name in ("alpha", "temperature", "floor"):
                idle[f"munchausen_{name}"] = "add --munchausen"
        if algo.epsilon_ladder != "log":
            idle["epsilon_end_min"] = "add --epsilon-ladder log"
        if algo.epsilon_ladder == "apex":
            idle["epsilon_end"] = "add --epsilon-ladder none or log"
        if algo.munchausen:
            idle["double"] = "leave out --munchausen"
    if isinstance(algo, R2D1Options | QValueOptions) and not recurrent:
        idle |= dict.fromkeys(("zero_state", "burn_in"), "add --memory lstm or gru")
    if isinstance(algo, ReplayOptions) and algo.optimizer != "adam":
        idle["adam_beta1"] = "add --optimizer adam"
    if isinstance(algo, QValueOptions):
        idle |= critics.without_effect(algo)
    if isinstance(model, ActorQOptions):
        if model.batch_norm:
            why = "with --batch-norm there are no target networks"
            idle |= dict.fromkeys(("target_tau", "target_update_updates"), why)
        else:
            idle["batch_norm_warm_up"] = "add --batch-norm"
    if isinstance(model, QNetworkOptions) and not model.noisy:
        idle["noisy_sigma"] = "add --noisy"
    return idle


def _check_windows(algo: PolicyGradientOptions, model: ModelOptions, num_envs: int) -> None:
    interval, rows = algo.state_interval or algo.horizon, algo.horizon * num_envs
    if algo.horizon % interval:
        raise UsageError(
            f"state_interval={interval} must divide horizon={algo.horizon}; "
            "training sequences fill a window without a rest"
        )
    if isinstance(algo, IMPALAOptions | APPOOptions):
        _check_clips(algo)
    if isinstance(algo, ClippedOptions):
        minibatches = algo.minibatches(num_envs)
        chunks = rows // interval if model.memory != "none" else rows
        if minibatches > chunks:
            raise UsageError(
                f"minibatch_size={algo.minibatch_size} makes {minibatches} minibatches of "
                f"{chunks} sequences ({num_envs} environments x "
                f"{algo.horizon // interval} of {interval} rows); with memory whole sequences "
                f"are kept together: choose minibatch_size >= {interval}, more num_envs, or a "
                "shorter --state-interval"
            )


def _check_clips(algo: IMPALAOptions | APPOOptions) -> None:
    if not algo.rho_clip > 0:
        raise UsageError(f"rho_clip={algo.rho_clip} would learn nothing; the paper has 1")
    if algo.c_clip > algo.rho_clip:
        raise UsageError(
            f"c_clip={algo.c_clip} is more than rho_clip={algo.rho_clip}: V-trace is shown to "
            "converge where it is not (Espeholt et al., 2018); lower --c-clip, or raise --rho-clip"
        )


def _check_replay(algo: ReplayOptions, num_envs: int, env_steps: int) -> None:
    needed = (algo.item_length + algo.start_interval + algo.horizon) * num_envs
    if algo.replay_size < needed:
        raise UsageError(
            f"replay_size={algo.replay_size} is {algo.replay_size // num_envs} rows for each of "
            f"{num_envs} environments, and an item takes {algo.item_length}, a window "
            f"{algo.horizon}; choose at least {needed}, or a shorter --horizon"
        )
    if algo.prioritized and algo.priority_unique:
        _check_unique(algo, num_envs)
    if not algo.replay_ratio > 0:
        raise UsageError(f"replay_ratio={algo.replay_ratio} would never learn; choose more than 0")
    if algo.learning_starts >= env_steps:
        raise UsageError(
            f"learning_starts={algo.learning_starts} is not before the run's end at "
            f"env_steps={env_steps}: nothing would be learned; start earlier or train longer"
        )
    if not algo.target_tau > 0:
        raise UsageError("target_tau=0 would never move the target network; 1 copies it")


def _check_unique(algo: ReplayOptions, num_envs: int) -> None:
    """Refuse updates of more items than there always are: every other row may end an episode."""
    rows = algo.replay_size // num_envs - algo.item_length
    items = rows // algo.start_interval * num_envs
    if 2 * algo.batch_size > items:
        raise UsageError(
            f"priority_unique and batch_size={algo.batch_size}: a replay of "
            f"replay_size={algo.replay_size} holds {items} items, of which up to half may begin "
            "at an episode's end; choose a larger --replay-size, or a smaller --batch-size"
        )


def _check_values(algo: QLearningOptions, model: ModelOptions) -> None:
    critics.check_returns(algo)
    if algo.values == "categorical" and algo.value_rescale:
        raise UsageError(
            f"value_rescale={algo.value_rescale} and values=categorical: atoms lie on a fixed "
            "support, which is not rescaled; choose --value-rescale 0 or other values"
        )
    if algo.values == "expected" and algo.loss == "huber" and not algo.huber_delta > 0:
        raise UsageError(
            "huber_delta=0 makes the loss of expected values 0; choose more than 0, or "
            "--loss squared"
        )
    if algo.munchausen and (algo.values == "categorical" or algo.n_step > 1):
        raise UsageError(
            f"munchausen with values={algo.values} and n_step={algo.n_step}: its soft target is "
            "one step and of values that can be averaged over actions; choose --n-step 1 and "
            "--values expected, quantile or implicit"
        )
    if algo.munchausen and algo.value_rescale:
        raise UsageError(
            f"munchausen with value_rescale={algo.value_rescale}: its log-policy is of values as "
            "they are; choose --value-rescale 0"
        )
    if algo.munchausen and not (algo.munchausen_temperature > 0 >= algo.munchausen_floor):
        raise UsageError(
            f"munchausen_temperature={algo.munchausen_temperature} must be above 0, and "
            f"munchausen_floor={algo.munchausen_floor} at most 0"
        )
    td = algo.prioritized and algo.priority_entry == "td"
    if td and (algo.values != "expected" or algo.munchausen):
        raise UsageError(
            f"priority_entry=td with values={algo.values} and munchausen={algo.munchausen}: what "
            "acting keeps gives the error of expected values alone; choose --priority-entry max"
        )
    if not isinstance(algo, R2D1Options) and model.memory != "none":
        raise UsageError(
            f"memory={model.memory} and dqn: its items are single transitions, in which a state "
            "cannot be learned; choose r2d1, which learns from sequences"
        )


def _check_exploration(algo: QLearningOptions, num_envs: int) -> None:
    if algo.epsilon_ladder == "log" and not 0 < algo.epsilon_end_min <= algo.epsilon_end:
        raise UsageError(
            f"epsilon_ladder=log goes from epsilon_end_min={algo.epsilon_end_min} to "
            f"epsilon_end={algo.epsilon_end}; choose 0 < epsilon_end_min <= epsilon_end"
        )
    if algo.epsilon_ladder != "none" and num_envs == 1:
        raise UsageError(
            f"epsilon_ladder={algo.epsilon_ladder} gives every environment an epsilon of its own, "
            "and there is one; choose --epsilon-ladder none, or more environments"
        )
