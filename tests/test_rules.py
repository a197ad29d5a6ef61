"""Options that cannot be, alone or together, are refused before anything is made."""

from typing import Any

import pytest

from rlpyt import DQN, PPO, R2D1, SAC, TD3
from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    DQNOptions,
    R2D1Options,
    SACOptions,
    TD3Options,
)
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorQOptions, QNetworkOptions
from rlpyt.run import LoopOptions, Run


def run(algo: Any, num_envs: int = 4, **model: Any) -> Run:
    return Run(EnvOptions("CartPole-v1", num_envs=num_envs), algo, QNetworkOptions(**model))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"huber_delta": 0.0}, "huber_delta=0"),
        ({"replay_ratio": float("inf")}, "replay_ratio=inf"),
        ({"lr": float("inf")}, "lr=inf"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"optimizer_eps": 0.0}, "optimizer_eps=0"),
        ({"priority_alpha": 12.0}, "priority_alpha=12.0 must lie between"),
        ({"values": "categorical", "v_max": float("inf")}, "v_max=inf"),
        ({"values": "categorical", "v_min": 3.0, "v_max": 3.0}, "v_min < v_max"),
        (
            {"values": "categorical", "v_min": 1e8, "v_max": 1e8 + 1},
            "single precision does not tell",
        ),
        ({"values": "categorical", "value_rescale": 1e-3}, "value_rescale=0.001"),
        ({"munchausen": True, "munchausen_floor": 0.5}, "munchausen_floor=0.5"),
        ({"munchausen": True, "n_step": 3}, "--n-step 1"),
        ({"prioritized": True, "priority_entry": "td", "values": "quantile"}, "priority_entry=td"),
        (
            {"values": "quantile", "huber_delta": float("inf")},
            "huber_delta=inf and values=quantile",
        ),
        ({"values": "implicit", "huber_delta": float("inf")}, "a finite --huber-delta"),
        ({"replay_size": 8}, "choose at least"),
        ({"replay_size": 2000, "horizon": 512}, "a window 512; choose at least 2060, or a shorter"),
        (
            {"prioritized": True, "priority_unique": True, "replay_size": 71},
            "replay_size=71 holds 60 items",
        ),
        (
            {"prioritized": True, "priority_unique": True, "batch_size": 64, "replay_size": 132},
            "batch_size=64: .* holds 124 items",
        ),
        ({"learning_starts": 100_000}, "nothing would be learned"),
        ({"replay_ratio": 0.0}, "would never learn"),
        ({"target_tau": 0.0}, "would never move"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        run(DQNOptions(**options))


@pytest.mark.parametrize(
    ("algo", "named"),
    [
        (lambda: SACOptions(critics=0), "critics=0 must be at least 1"),
        (lambda: SACOptions(target_critics=0), "target_critics=0 must be at least 1"),
        (lambda: SACOptions(target_critics=5, critics=4), "target_critics=5 of critics=4"),
        (lambda: TD3Options(policy_delay=0), "policy_delay=0 must be at least 1"),
        (lambda: SACOptions(temperature=-0.1), "temperature=-0.1 must not be negative"),
        (lambda: SACOptions(initial_temperature=0.0), "initial_temperature=0.0 must be more"),
        (lambda: SACOptions(target_entropy=float("nan")), "target_entropy=nan must be a finite"),
        (lambda: SACOptions(actor_lr=-1.0), "actor_lr=-1.0 must not be negative"),
        (lambda: DDPGOptions(exploration_std=-1.0), "exploration_std=-1.0 must not be negative"),
        (lambda: DDPGOptions(exploration="ou", ou_theta=1.5), "ou_theta=1.5 must lie between"),
        (lambda: TD3Options(target_noise=float("inf")), "target_noise=inf must be a finite"),
        (lambda: DDPGOptions(reward_scale=0.0), "reward_scale=0.0 must be more than 0"),
        (lambda: D4PGOptions(v_min=3.0, v_max=3.0), "v_min < v_max"),
        (lambda: DDPGOptions(critic_loss="huber", huber_delta=0.0), "--critic-loss squared"),
        (
            lambda: D4PGOptions(values="quantile", huber_delta=float("inf")),
            "huber_delta=inf and values=quantile",
        ),
        (
            lambda: SACOptions(values="quantile", num_quantiles=5, drop_quantiles=5),
            "drop_quantiles=5 of num_quantiles=5 leaves no quantile",
        ),
        (
            lambda: DDPGOptions(prioritized=True, priority_entry="td"),
            "priority_entry=td is of Q-learning",
        ),
    ],
)
def test_actors_and_critics_that_cannot_be_are_refused_by_name(algo: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Run(EnvOptions("Pendulum-v1"), algo())


@pytest.mark.parametrize(
    ("algo", "model", "named"),
    [
        (SACOptions(), {"critic_dropout": 1.0}, "critic_dropout=1.0 must be at least 0 and less"),
        (SACOptions(), {"critic_dropout": -0.1}, "critic_dropout=-0.1 must be at least 0"),
        (SACOptions(adam_beta1=1.0), {}, "adam_beta1=1.0 must be at least 0 and less than 1"),
        (
            SACOptions(),
            {"critic_dropout": 0.1, "critic_sizes": ()},
            "critic_dropout=0.1 and critics",
        ),
        (TD3Options(), {"critic_dropout": 0.1, "hidden_sizes": ()}, "--critic-dropout 0"),
        (TD3Options(), {"critic_layer_norm": True, "critic_sizes": ()}, "critic_layer_norm and cr"),
        (SACOptions(), {"batch_norm_warm_up": -1}, "batch_norm_warm_up=-1 must not be negative"),
        (TD3Options(), {"batch_norm": True}, "batch_norm is of sac"),
        (TD3Options(), {"value_network": True}, "value_network is of sac"),
        (SACOptions(), {"value_network": True, "critic_dropout": 0.1}, "--critic-dropout 0, or"),
        (SACOptions(), {"value_network": True, "batch_norm": True}, "value_network and batch_norm"),
        (SACOptions(values="quantile"), {"value_network": True}, "choose --values expected"),
        (SACOptions(critics=4), {"value_network": True}, "choose --target-critics 4"),
        (
            SACOptions(train_rows=20),
            {"batch_norm": True, "memory": "lstm"},
            "batch_norm and memory=lstm: .*choose --memory none",
        ),
    ],
)
def test_networks_of_actors_and_critics_that_cannot_be_are_refused_by_name(
    algo: Any, model: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        Run(EnvOptions("Pendulum-v1"), algo, ActorQOptions(**model))


@pytest.mark.parametrize("algo", [DDPGOptions, TD3Options, SACOptions, D4PGOptions])
def test_of_single_transitions_an_actors_memory_learns_nothing(algo: Any) -> None:
    with pytest.raises(UsageError, match="--burn-in 10 --train-rows 20 .*or --preset memory"):
        Run(EnvOptions("Pendulum-v1"), algo(), ActorQOptions(memory="lstm"))
    Run(EnvOptions("Pendulum-v1"), algo(train_rows=20), ActorQOptions(memory="lstm"))


def test_options_of_actors_and_critics_without_effect_are_refused() -> None:
    for kind, given in (
        (SAC, {"temperature": 0.1, "target_entropy": -1.0}),
        (SAC, {"drop_quantiles": 2}),
        (SAC, {"critics": 1, "actor_judge": "mean"}),
        (SAC, {"values": "quantile", "target_critics": 1}),
        (TD3, {"ou_theta": 0.3}),
        (TD3, {"state_dependent_std": False}),
        (TD3, {"huber_delta": 2.0}),
        (TD3, {"num_atoms": 21}),
        (SAC, {"batch_norm_warm_up": 10}),
        (SAC, {"batch_norm": True, "target_tau": 0.01}),
        (SAC, {"optimizer": "rmsprop", "adam_beta1": 0.5}),
    ):
        with pytest.raises(UsageError, match="has no effect"):
            kind("Pendulum-v1", **given)


def test_an_infinite_delta_is_allowed_where_it_is_half_the_square() -> None:
    run(DQNOptions(huber_delta=float("inf")))


def test_ladders_need_several_environments() -> None:
    for ladder in ("apex", "log"):
        with pytest.raises(UsageError, match="more environments"):
            run(DQNOptions(epsilon_ladder=ladder), num_envs=1)


def test_transitions_have_no_memory() -> None:
    with pytest.raises(UsageError, match="r2d1"):
        run(DQNOptions(), memory="lstm")
    run(R2D1Options(), memory="lstm")


def test_noise_has_no_negative_scale() -> None:
    with pytest.raises(UsageError, match="noisy_sigma=-1"):
        run(DQNOptions(), noisy=True, noisy_sigma=-1.0)


def test_another_algorithms_network_is_refused() -> None:
    from rlpyt.models.options import ActorCriticOptions

    with pytest.raises(UsageError, match="QNetworkOptions"):
        Run(EnvOptions("CartPole-v1"), DQNOptions(), ActorCriticOptions(), LoopOptions())


def test_a_return_to_stop_at_is_a_number() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(UsageError, match=f"stop_at_return={value} must be a finite"):
            LoopOptions(stop_at_return=value, eval_interval=100)
    LoopOptions(stop_at_return=-1.0, eval_interval=100)


def test_options_of_evaluations_that_are_never_made_and_of_no_memory_are_refused() -> None:
    for given in ({"eval_interval": 9}, {"eval_stochastic": True}):
        with pytest.raises(UsageError, match="has no effect .*leave --eval-episodes above 0"):
            DQN("CartPole-v1", eval_episodes=0, **given)
        DQN("CartPole-v1", **given)
    DQN("CartPole-v1", eval_episodes=0, eval_interval=0, eval_epsilon=0.1)  # that of `evaluate`
    with pytest.raises(UsageError, match="burn_in has no effect .*--memory lstm or gru"):
        R2D1("CartPole-v1", memory="none", burn_in=3)
    R2D1("CartPole-v1", memory="gru", burn_in=3)


def test_options_of_sequences_are_open_to_own_networks_whose_memory_no_option_says() -> None:
    for kind, given in ((TD3, {"burn_in": 3, "zero_state": True}), (PPO, {"state_interval": 8})):
        with pytest.raises(UsageError, match="has no effect"):
            kind("Pendulum-v1", **given)
        kind("Pendulum-v1", model=lambda spec: None, **given)


def test_from_python_too_an_option_without_effect_is_refused() -> None:
    idle = {"priority_alpha": 0.9}, {"priority_unique": True}, {"num_atoms": 21}
    for given in (*idle, {"noisy_sigma": 0.1}):
        with pytest.raises(UsageError, match="has no effect"):
            DQN("CartPole-v1", **given)
    DQN("CartPole-v1", prioritized=True, priority_alpha=0.9)
