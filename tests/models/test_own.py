"""Networks of users: what they hold decides whether they fit, whatever the options say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from gymnasium import spaces
from small_parts import ChanceEnv
from torch import nn

from rlpyt.acting import open_agent
from rlpyt.algos.options import DQNOptions, PPOOptions, R2D1Options, SACOptions, TD3Options
from rlpyt.build import _check_ranks
from rlpyt.distributions import for_action
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.batch_norm import BatchNorm
from rlpyt.models.options import ActorCriticOptions, ActorQOptions
from rlpyt.models.q_value import make_networks, make_returns
from rlpyt.run import LoopOptions, Run

BOX, CHOICE = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)
NORMED: dict[str, Any] = {"hidden_sizes": (8,), "memory_size": 6, "batch_norm": True}


def opened(algo: Any, model: Any, action: Any = BOX) -> Any:
    env = EnvOptions(lambda: ChanceEnv(action), num_envs=2)
    return open_agent(Run(env, algo, loop=LoopOptions(seed=0)), model=model)


class Pair(nn.Module):
    """An actor and critics with batch normalization, of which the run's options know nothing."""

    def __init__(self, spec: Any, algo: Any, **options: Any) -> None:
        super().__init__()
        given = ActorQOptions(**{**NORMED, **options})
        self.actor, self.critics = make_networks(spec, make_returns(algo), algo, given)


def apart(spec: Any, algo: Any) -> Pair:
    """Critics that are not joint."""
    pair = Pair(spec, algo)
    vars(pair.critics)["joint"] = False
    return pair


def actor_alone(spec: Any, algo: Any) -> Pair:
    """An actor with batch normalization beside critics without."""
    pair = Pair(spec, algo)
    pair.critics = Pair(spec, algo, batch_norm=False).critics
    return pair


def of_states(spec: Any, algo: Any) -> Pair:
    """Critics with a network of state values."""
    return Pair(spec, algo, batch_norm=False, value_network=True)


class Choices(nn.Module):
    """A network of Q-learning with a batch normalization of ours."""

    reads, noise = frozenset({"observation"}), 0

    def __init__(self, spec: Any, algo: Any) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, spec.action.n), BatchNorm(1, 3, 0)

    def initial_state(self, batch: int) -> Any:
        return ()

    def forward(self, inputs: Any, state: Any, noise: Any, fractions: Any) -> Any:
        return self.layer(self.norm.rows(inputs.observation, None)).unsqueeze(-1), state


@pytest.mark.parametrize(
    ("algo", "action", "make", "named"),
    [
        (TD3Options(), BOX, Pair, "joint critics .* are of sac"),
        (TD3Options(), BOX, apart, r"Actor has BatchNorm \(norms.0\).*joint = True"),
        (SACOptions(), BOX, apart, r"Actor has BatchNorm \(norms.0\).*joint = True"),
        (SACOptions(), BOX, actor_alone, r"Actor has BatchNorm \(norms.0\).*use LayerNorm"),
        (SACOptions(), CHOICE, Pair, "batch_norm and one Discrete choice"),
        (DQNOptions(), CHOICE, Choices, r"Choices has BatchNorm \(norm\)"),
        (TD3Options(), BOX, of_states, "value_network is of sac"),
        (SACOptions(), CHOICE, of_states, "value_network and one Discrete choice"),
    ],
)
def test_what_would_do_nothing_is_refused(algo: Any, action: Any, make: Any, named: str) -> None:
    """By the network that was made: the option is not set."""
    with pytest.raises(UsageError, match=named):
        opened(algo, lambda spec: make(spec, algo), action)


def test_joint_critics_have_no_memory() -> None:
    algo = SACOptions(train_rows=4)
    with pytest.raises(UsageError, match="joint critics .* and a memory: .*--memory none"):
        opened(algo, lambda spec: Pair(spec, algo, memory="lstm"))


def test_joint_critics_of_several_ranks_are_not_compiled() -> None:
    algo = SACOptions()
    for normed, compiled in ((True, True), (True, False), (False, True)):
        found = opened(algo, lambda spec, normed=normed: Pair(spec, algo, batch_norm=normed))
        resolved = replace(found.resolved, ranks=2, compile=compiled)
        if normed and compiled:
            with pytest.raises(UsageError, match="batch_norm normalizes over .* --compile off"):
                _check_ranks(found.run, resolved, found.agent)
        else:
            _check_ranks(found.run, resolved, found.agent)


class OwnCritics(nn.Module):
    """Two critics of n actions, as one layer."""

    reads = frozenset({"observation"})

    def __init__(self, actions: int, numbers: int = 1) -> None:
        super().__init__()
        self.layer, self.shape = nn.Linear(3, 2 * actions * numbers), (2, actions, numbers)

    def initial_state(self, batch: int) -> Any:
        return ()

    def features(self, inputs: Any, state: Any) -> Any:
        return inputs.observation, state

    def forward(
        self, inputs: Any, state: Any, action: Any, frozen: bool, chosen: Any
    ) -> tuple[torch.Tensor, Any]:
        z = self.layer(inputs.observation).unflatten(-1, self.shape).movedim(-3, 0)
        z = z.detach() if frozen else z
        if isinstance(chosen, int):
            return z[:chosen], state
        return (z if chosen is None else z[chosen]), state


@pytest.mark.parametrize(
    ("actions", "numbers", "found"), [(2, 1, "2, 1, 2, 1"), (4, 1, "2, 1, 4, 1"), (3, 2, "3, 2")]
)
def test_critics_of_other_choices_than_there_are_are_told_what_is_wanted(
    actions: int, numbers: int, found: str
) -> None:
    algo = SACOptions()

    def model(spec: Any) -> Pair:
        pair = Pair(spec, algo, batch_norm=False)
        pair.critics = OwnCritics(actions, numbers)
        return pair

    wanted = r"returns \[critics, ..., actions, numbers\] of shape .*" + found
    with pytest.raises(UsageError, match=wanted + r"\).*\(2, 1, 3, 1\) is wanted"):
        opened(algo, model, CHOICE)
    actions, numbers = 3, 1
    assert opened(algo, model, CHOICE).agent.critics.shape == (2, 3, 1)  # the control


def test_critics_give_those_that_are_chosen() -> None:
    """Else an actor of one would climb the mean of all, and REDQ's targets be of the least."""
    algo = SACOptions(critics=2, target_critics=1)

    def model(spec: Any, deaf: bool) -> Pair:
        pair = Pair(spec, algo, batch_norm=False)
        pair.critics, ours = OwnCritics(3), OwnCritics.forward
        if deaf:
            vars(pair.critics)["forward"] = lambda *x: ours(pair.critics, *x[:-1], None)
        return pair

    opened(algo, lambda spec: model(spec, False), CHOICE)
    with pytest.raises(
        UsageError, match="critics that are chosen of shape .2, 1, 3, 1.*.1, 1, 3, 1."
    ):
        opened(algo, lambda spec: model(spec, True), CHOICE)


def test_weights_of_the_network_itself_are_acted_with_or_refused() -> None:
    """Replicas would act with the first ones for ever."""

    class Scaled(ActorCritic):
        def __init__(self, *given: Any, said: bool) -> None:
            super().__init__(*given)
            self.scale, self.said = nn.Parameter(torch.ones(())), said

        def acting(self) -> list[nn.Module]:
            return [self] if self.said else [*super().acting()]

    def model(spec: Any, said: bool) -> ActorCritic:
        return Scaled(spec, for_action(spec.action), ActorCriticOptions(), said=said)

    opened(PPOOptions(), lambda spec: model(spec, True), CHOICE)
    with pytest.raises(UsageError, match=r"Scaled has scale, .* leave acting\(\) out"):
        opened(PPOOptions(), lambda spec: model(spec, False), CHOICE)


class Of(nn.Module):
    """A network of Q-learning around any module."""

    reads, noise = frozenset({"observation"}), 0

    def __init__(self, spec: Any, part: nn.Module) -> None:
        super().__init__()
        self.part, self.layer = part, nn.Linear(3, spec.action.n)

    def initial_state(self, batch: int) -> Any:
        return ()

    def forward(self, inputs: Any, state: Any, noise: Any, fractions: Any) -> Any:
        return self.layer(inputs.observation).unsqueeze(-1), state


def spectral() -> nn.Module:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: nn.BatchNorm1d(3, track_running_stats=False), "BatchNorm1d"),
        (lambda: nn.InstanceNorm1d(3, track_running_stats=True), "InstanceNorm1d"),
        (lambda: nn.Dropout(0.1), "Dropout"),
        (lambda: nn.AlphaDropout(0.1), "AlphaDropout"),
        (lambda: nn.LSTM(3, 3, num_layers=2, dropout=0.1), "LSTM"),
        (lambda: nn.MultiheadAttention(4, 2, dropout=0.1), "MultiheadAttention"),
        (lambda: nn.TransformerEncoderLayer(4, 2, dropout=0.1), "MultiheadAttention"),
        (lambda: nn.RReLU(), "RReLU"),
        (spectral, "_SpectralNorm"),
    ],
)
def test_what_answers_otherwise_while_training_is_refused(make: Any, named: str) -> None:
    with pytest.raises(UsageError, match=rf"Of has {named} \(part.*one function of the weights"):
        opened(DQNOptions(), lambda spec: Of(spec, make()), CHOICE)


def test_what_does_not_is_taken() -> None:
    """Dropout of nothing, and norms of a row's own numbers."""
    kinds = (
        nn.Dropout(0.0),
        nn.TransformerEncoderLayer(4, 2, dropout=0.0),
        nn.GRU(3, 3, num_layers=2),
        nn.InstanceNorm1d(3),
        nn.GroupNorm(1, 3),
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    )
    for part in kinds:
        opened(DQNOptions(), lambda spec, part=part: Of(spec, part), CHOICE)


def written(x: Any) -> Any:
    x -= 1
    return x


class Writes(Of):
    """Writes into its observation, or into its state."""

    def __init__(self, spec: Any, what: str) -> None:
        super().__init__(spec, nn.Identity())
        self.what, self.value = what, nn.Linear(3, 1)

    def initial_state(self, batch: int) -> Any:
        return (torch.zeros(batch, 3),) if self.what == "state" else ()

    def read(self, inputs: Any, state: Any) -> Any:
        if self.what == "state":
            return inputs.observation + written(state[0])
        return written(inputs.observation if self.what else inputs.observation.clone())

    def forward(self, inputs: Any, state: Any, noise: Any = None, fractions: Any = None) -> Any:
        return self.layer(self.read(inputs, state)).unsqueeze(-1), state

    def policy(self, inputs: Any, state: Any) -> Any:
        return self.layer(self.read(inputs, state)), state


@pytest.mark.parametrize(
    ("algo", "what", "named"),
    [
        (DQNOptions(), "observation", "inputs.observation"),
        (R2D1Options(), "state", "state.0"),
        (PPOOptions(), "observation", "inputs.observation"),
        (PPOOptions(), "state", "state.0"),
    ],
)
def test_what_writes_into_rows_is_refused(algo: Any, what: str, named: str) -> None:
    """They are read where they lie, and learned from later."""
    with pytest.raises(UsageError, match=f"Writes changes {named} in place"):
        opened(algo, lambda spec: Writes(spec, what), CHOICE)
    opened(algo, lambda spec: Writes(spec, ""), CHOICE)  # a copy of its own


def test_actors_and_critics_that_write_into_rows_are_refused() -> None:
    class Careless(OwnCritics):
        def forward(self, inputs: Any, *given: Any) -> Any:
            written(inputs.observation)
            return super().forward(inputs, *given)

    class Both(nn.Module):
        def __init__(self, spec: Any, critics: Any) -> None:
            super().__init__()
            self.actor, self.critics = Pair(spec, algo, batch_norm=False).actor, critics

    algo = SACOptions()
    with pytest.raises(UsageError, match="Careless changes inputs.observation in place"):
        opened(algo, lambda spec: Both(spec, Careless(3)), CHOICE)


@pytest.mark.parametrize("algo", [DQNOptions(), PPOOptions()])
def test_what_draws_by_itself_is_refused(algo: Any) -> None:
    class Draws(Writes):
        def read(self, inputs: Any, state: Any) -> Any:
            return nn.functional.dropout(inputs.observation + 1.0, 0.5, self.training)

    with pytest.raises(UsageError, match="Draws answers one row twice and not alike"):
        opened(algo, lambda spec: Draws(spec, ""), CHOICE)


def test_what_answers_alike_but_for_rounding_is_taken() -> None:
    class Rounds(Writes):
        calls = 0

        def read(self, inputs: Any, state: Any) -> Any:
            self.calls += 1
            return inputs.observation + 1.0 + 1e-7 * (self.calls % 2)

    opened(PPOOptions(), lambda spec: Rounds(spec, ""), CHOICE)


def test_layers_without_a_shape_yet_are_refused() -> None:
    with pytest.raises(UsageError, match="Of has a lazy layer, whose part.weight .*call the net"):
        opened(DQNOptions(), lambda spec: Of(spec, nn.LazyLinear(3)), CHOICE)


def test_an_error_of_a_network_says_what_it_was_given() -> None:
    class Wide(ActorCritic):
        def policy(self, inputs: Any, state: Any) -> Any:
            return super().policy(inputs.replace(observation=torch.zeros(1, 9)), state)

    def wide(spec: Any) -> nn.Module:
        return Wide(spec, for_action(spec.action), ActorCriticOptions())

    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        opened(PPOOptions(), wide, CHOICE)
    (note,) = caught.value.__notes__
    assert "the network Wide was asked for one row: inputs.observation (1, " in note
