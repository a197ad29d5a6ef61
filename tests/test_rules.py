"""Options that cannot be, alone or together, are refused before anything is made."""

from typing import Any

import pytest
import torch
from torch import nn

from rlpyt import DQN
from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import QNetworkOptions
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
        ({"values": "categorical", "value_rescale": 1e-3}, "value_rescale=0.001"),
        ({"munchausen": True, "munchausen_floor": 0.5}, "munchausen_floor=0.5"),
        ({"munchausen": True, "n_step": 3}, "--n-step 1"),
        ({"prioritized": True, "priority_entry": "td", "values": "quantile"}, "priority_entry=td"),
        ({"replay_size": 8}, "choose at least"),
        ({"learning_starts": 100_000}, "nothing would be learned"),
        ({"replay_ratio": 0.0}, "would never learn"),
        ({"target_tau": 0.0}, "would never move"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        run(DQNOptions(**options))


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


def test_from_python_too_an_option_without_effect_is_refused() -> None:
    for given in ({"priority_alpha": 0.9}, {"num_atoms": 21}, {"noisy_sigma": 0.1}):
        with pytest.raises(UsageError, match="has no effect"):
            DQN("CartPole-v1", **given)
    DQN("CartPole-v1", prioritized=True, priority_alpha=0.9)


class Network(nn.Module):
    """A user's network with one thing wrong at a time."""

    reads = frozenset({"observation"})
    noise = 0

    def __init__(self, layers: Any = None, shape: tuple[int, ...] = (2, 1)) -> None:
        super().__init__()
        self.layers = layers or nn.Linear(4, 2)
        self.shape = shape

    def initial_state(self, batch: int) -> Any:
        return ()

    def forward(self, inputs: Any, state: Any, noise: Any = None, fractions: Any = None) -> Any:
        z = self.layers(inputs.observation)
        return z.reshape(*z.shape[:-1], *self.shape), state


class Remembering(Network):
    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, 3)


class Silent(nn.Module):
    pass


@pytest.mark.parametrize(
    ("network", "named"),
    [
        (lambda spec: lambda inputs, state: None, "torch.nn.Module"),
        (lambda spec: Silent(), "has no reads and no initial_state and no noise"),
        (lambda spec: Network(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))), "BatchNorm1d"),
        (lambda spec: Network(nn.Sequential(nn.Linear(4, 2), nn.Dropout())), "Dropout"),
        (lambda spec: Network(shape=(2,)), "returns"),
        (lambda spec: Network(nn.Linear(4, 5), shape=(5, 1)), r"\(1, 2, 1\) is wanted"),
        (lambda spec: Remembering(), "r2d1"),
    ],
)
def test_a_network_that_does_not_fit_is_told_of_before_the_run(
    network: Any, named: str, tmp_path: Any
) -> None:
    agent = DQN("CartPole-v1", model=network, learning_starts=10, runs=str(tmp_path))
    with pytest.raises(UsageError, match=named):
        agent.learn(50, mode="quiet")
    assert not list(tmp_path.iterdir())


def test_a_network_that_fits_learns(tmp_path: Any) -> None:
    given = {"learning_starts": 10, "runs": str(tmp_path), "eval_episodes": 1, "seed": 0}
    agent = DQN("CartPole-v1", model=lambda spec: Network(), **given).learn(200, mode="quiet")
    assert agent.env_steps >= 200
