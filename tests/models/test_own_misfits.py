"""Networks of users that do not fit are told of before a run; those that fit learn."""

from typing import Any

import pytest
import torch
from torch import nn

from rlpyt import DQN, SAC
from rlpyt.errors import UsageError


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


class OwnActor(nn.Module):
    """A user's actor of an observation of three numbers."""

    reads = frozenset({"observation"})

    def __init__(self, outputs: int = 2, memory: bool = False) -> None:
        super().__init__()
        self.layer, self.memory = nn.Linear(3, outputs), memory

    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, 2) if self.memory else ()

    def forward(self, inputs: Any, state: Any) -> Any:
        return self.layer(inputs.observation), state


class OwnCritics(nn.Module):
    """A user's two critics, as one layer."""

    reads = frozenset({"observation"})

    def __init__(self, count: int = 2) -> None:
        super().__init__()
        self.layer = nn.Linear(4, count)

    def initial_state(self, batch: int) -> Any:
        return ()

    def features(self, inputs: Any, state: Any) -> Any:
        return inputs.observation, state

    def forward(
        self, inputs: Any, state: Any, action: Any, frozen: bool = False, chosen: Any = None
    ) -> Any:
        weight, bias = self.layer.weight, self.layer.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        x = torch.cat([inputs.observation, action], -1)
        z = nn.functional.linear(x, weight, bias)
        z = z.movedim(-1, 0).unsqueeze(-1)
        return (z if chosen is None else z[:chosen]), state


class Own(nn.Module):
    def __init__(self, actor: Any, critics: Any) -> None:
        super().__init__()
        self.actor, self.critics = actor, critics


@pytest.mark.parametrize(
    ("network", "named"),
    [
        (lambda spec: OwnActor(), "has no actor and no critics"),
        (lambda spec: Own(Silent(), OwnCritics()), "Silent has no reads and no initial_state"),
        (lambda spec: Own(OwnActor(), OwnActor()), "OwnActor has no features"),
        (lambda spec: Own(OwnActor(3), OwnCritics()), r"\(1, 2\) is wanted"),
        (lambda spec: Own(OwnActor(), OwnCritics(3)), r"\(2, 1, 1\) is wanted"),
        (lambda spec: Own(OwnActor(memory=True), OwnCritics()), "--train-rows 20"),
    ],
)
def test_actors_and_critics_that_do_not_fit_are_told_of(network: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        SAC("Pendulum-v1", model=network, seed=0).evaluate(1)


def test_actors_and_critics_of_ones_own_learn(tmp_path: Any) -> None:
    given = {"runs": str(tmp_path), "eval_episodes": 1, "seed": 0, "learning_starts": 50}
    agent = SAC("Pendulum-v1", model=lambda spec: Own(OwnActor(), OwnCritics()), **given)
    agent.learn(200, mode="quiet")
    assert agent.predict(torch.zeros(3).numpy())[0].shape == (1,)
