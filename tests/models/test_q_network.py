"""The returns of every action over any leading dimensions: streams, noise, fractions, memory."""

import copy
import pickle
from math import pi
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt import returns
from rlpyt.algos.options import DQNOptions
from rlpyt.arrays import tree_items, tree_map
from rlpyt.envs.spec import Box, Composite, Discrete, EnvSpec, MultiDiscrete, Spec, example
from rlpyt.errors import UsageError
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.flat import FlatParameters
from rlpyt.models.heads import COSINES
from rlpyt.models.noisy import noise_factors
from rlpyt.models.options import QNetworkOptions
from rlpyt.models.q_network import QNetwork
from rlpyt.rows import Inputs

ACTIONS, ATOMS, QUANTILES, GREEDY = 3, 5, 4, 6

KINDS = {
    "expected": (returns.make(DQNOptions()), 1),
    "categorical": (returns.make(DQNOptions(values="categorical", num_atoms=ATOMS)), ATOMS),
    "quantile": (returns.make(DQNOptions(values="quantile", num_quantiles=QUANTILES)), QUANTILES),
    "implicit": (returns.make(DQNOptions(values="implicit", greedy_fractions=GREEDY)), GREEDY),
}
HEADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hidden": {"head_sizes": (9, 8)},
    "dueling": {"dueling": True, "head_sizes": (9,)},
    "noisy": {"noisy": True},
    "everything": {"dueling": True, "head_sizes": (9,), "noisy": True, "layer_norm": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_head = pytest.mark.parametrize("head", HEADS)


def box(*shape: int) -> Box:
    return Box(shape, "float32", np.full(shape, -np.inf), np.full(shape, np.inf))


def pixels(side: int) -> Box:
    shape = (side, side)
    return Box(shape, "uint8", np.zeros(shape), np.full(shape, 255.0), True)


def net(kind: str = "expected", observation: Spec | None = None, **options: Any) -> QNetwork:
    torch.manual_seed(0)
    spec = EnvSpec("Test-v0", observation or box(4), Discrete(ACTIONS))
    encoder = options.pop("given", None)
    sizes = {"hidden_sizes": (10,), "memory_size": 7}
    return QNetwork(spec, KINDS[kind][0], QNetworkOptions(**{**sizes, **options}), encoder)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def inputs(*leading: int, observation: Spec | None = None) -> Inputs:
    x = example(observation or box(4))
    draw = randn if x.dtype == np.float32 else lambda *s: torch.randint(256, s).to(torch.uint8)
    return Inputs(
        observation=draw(*leading, *x.shape),
        reward=randn(*leading, seed=2),
        first=rand(*leading, seed=3) < 0.2,
        previous_action=torch.randint(ACTIONS, leading, generator=torch.Generator().manual_seed(4)),
    )


def close(a: Any, b: Any) -> None:
    for (path, x), (_, y) in zip(tree_items(a), tree_items(b), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, msg=path)


def noise_of(network: QNetwork, *leading: int, seed: int = 5) -> Tensor | None:
    return randn(*leading, network.noise, seed=seed) if network.noise else None


# Leading dimensions and memory


@every_kind
@every_head
def test_any_leading_dimensions_give_the_same_numbers(kind: str, head: str) -> None:
    network, rows = net(kind, **HEADS[head]), inputs(5, 2)
    fractions = rand(5, 2, GREEDY) if kind == "implicit" else None
    noise = noise_of(network, 5, 2)
    z, state = network(rows, (), noise, fractions)
    assert z.shape == (5, 2, ACTIONS, KINDS[kind][1])
    assert z.dtype == torch.float32 and state == () == network.initial_state(2)

    def at(x: Any, place: Any) -> Any:
        return tree_map(lambda leaf: leaf[place], x)

    for place in (2, (2, 1)):
        close(network(*at((rows, (), noise, fractions), place))[0], z[place])


@every_kind
@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_a_sequence_gives_what_acting_gave_row_by_row(kind: str, memory: Any) -> None:
    network, window = net(kind, memory=memory, **HEADS["everything"]), inputs(9, 3)
    start = tree_map(lambda x: randn(*x.shape), network.initial_state(3))
    noise = noise_of(network)
    z, final = network(window, start, noise)
    state, rows = start, []
    with torch.inference_mode():
        for t in range(9):
            row, state = network(window[t], state, noise)
            rows.append(row)
    close(z, torch.stack(rows))
    close(final, state)


def test_what_the_network_reads() -> None:
    assert net().reads == {"observation"}
    assert net(memory="lstm").reads == {"observation", "reward", "first", "previous_action"}
    assert net(memory="gru", read_previous=False).reads == {"observation", "first"}


# Dueling


@every_kind
def test_dueling_advantages_have_mean_zero_for_each_number(kind: str) -> None:
    network, rows = net(kind, dueling=True, head_sizes=(9,)), inputs(6)
    z, _ = network(rows, ())
    features = network.trunk(rows, ())[0]
    if network.embedding is not None:
        features = network.embedding(features, network.greedy)
    value, advantage = network.head.value(features), network.head.advantage(features)
    value = value.squeeze(-1) if kind == "implicit" else value  # [6, N]
    torch.testing.assert_close(z.mean(-2), value)
    advantage = (
        advantage.transpose(-1, -2) if kind == "implicit" else advantage.view(6, ACTIONS, -1)
    )
    centred = advantage - advantage.mean(1, keepdim=True)
    torch.testing.assert_close(z - value.unsqueeze(-2), centred)


def test_an_advantage_that_all_actions_share_changes_nothing() -> None:
    network, rows = net(dueling=True), inputs(6)
    before, _ = network(rows, ())
    with torch.no_grad():
        network.head.advantage.layers[-1].bias += 3.0
        close(network(rows, ())[0], before)
        network.head.value.layers[-1].bias += 3.0
        close(network(rows, ())[0], before + 3)


# Noise


def with_explicit_weights(network: QNetwork, noise: Tensor) -> QNetwork:
    """A copy without noise whose weights are mean + sigma * eps of this draw."""
    twin = copy.deepcopy(network)
    streams = [s for s in (twin.head.advantage, twin.head.value) if s is not None]
    begin = 0
    for layer in (layer for stream in streams for layer in stream.layers):
        outputs, width = layer.weight.shape
        f_in = noise_factors(noise[begin : begin + width])
        f_out = noise_factors(noise[begin + width : begin + width + outputs])
        begin += width + outputs
        layer.weight.data += layer.weight_sigma * f_out[:, None] * f_in
        layer.bias.data += layer.bias_sigma * f_out
    assert begin == network.noise == len(noise)
    return twin


@every_kind
@pytest.mark.parametrize("head", ["noisy", "everything"])
def test_noise_of_each_row_is_that_of_its_own_explicit_weights(kind: str, head: str) -> None:
    network, rows = net(kind, **HEADS[head]), inputs(4)
    noise = randn(4, network.noise)
    fractions = rand(4, GREEDY) if kind == "implicit" else None
    z, _ = network(rows, (), noise, fractions)
    for b in range(4):
        twin = with_explicit_weights(network, noise[b])
        own = None if fractions is None else fractions[b]
        close(twin(rows[b], (), None, own)[0], z[b])


@every_kind
def test_one_draw_is_the_same_noise_on_every_row(kind: str) -> None:
    network, rows = net(kind, **HEADS["everything"]), inputs(2, 4)
    noise = randn(network.noise)
    one, _ = network(rows, (), noise)
    close(one, network(rows, (), noise.expand(4, -1))[0])
    close(one, with_explicit_weights(network, noise)(rows, ())[0])
    assert not torch.allclose(one, network(rows, ())[0])


def test_a_network_without_noise_takes_a_draw_of_none() -> None:
    network, rows = net(dueling=True), inputs(4)
    assert network.noise == 0
    close(network(rows, (), torch.zeros(4, 0))[0], network(rows, ())[0])


# Implicit quantiles


def test_fractions_are_embedded_as_published() -> None:
    network, rows = net("implicit"), inputs(4)
    fractions = rand(4, 5)
    z, _ = network(rows, (), None, fractions)
    features = network.trunk(rows, ())[0]  # [4, 10]
    linear, out = network.embedding.linear, network.head.advantage.layers[0]
    assert COSINES == 64
    for b in range(4):
        for k in range(5):
            cosines = torch.tensor([np.cos(pi * i * float(fractions[b, k])) for i in range(64)])
            embedded = F.relu(F.linear(cosines.float(), linear.weight, linear.bias))
            expected = F.linear(features[b] * embedded, out.weight, out.bias)
            torch.testing.assert_close(z[b, :, k], expected, rtol=1e-4, atol=1e-5)


def test_fractions_of_all_rows_are_those_of_each_and_none_are_evenly_spaced() -> None:
    network, rows = net("implicit", dueling=True), inputs(3, 4)
    middles = torch.tensor([(2 * k + 1) / (2 * GREEDY) for k in range(GREEDY)])
    z, _ = network(rows, (), None, middles)
    close(network(rows, (), None, middles.expand(3, 4, -1))[0], z)
    close(network(rows, ())[0], z)
    close(network(rows, (), None, KINDS["implicit"][0].greedy_fractions())[0], z)
    close(network(rows, (), None, middles.flip(0))[0], z.flip(-1))


# Encoders


@pytest.mark.parametrize(
    ("name", "side", "wide", "narrow"),
    [("nature", 36, 64, 512), ("minatar", 10, 16 * 8 * 8, 128), ("residual", 16, 32 * 4, 256)],
)
def test_without_its_linear_layer_an_encoder_ends_in_convolutions(
    name: Any, side: int, wide: int, narrow: int
) -> None:
    observation = pixels(side)
    rows = inputs(2, 3, observation=observation)
    whole = net(observation=observation, encoder=name)
    bare = net(observation=observation, encoder=name, image_linear=False, head_sizes=(11,))
    assert (whole.trunk.features, bare.trunk.features) == (narrow, wide)
    assert bare(rows, ())[0].shape == (2, 3, ACTIONS, 1)
    assert not any("encoder" in n and "linear" in n for n, _ in bare.named_parameters())
    # What the whole one's linear layer reads is what the bare one gives.
    bare.trunk.encoder.load_state_dict(whole.trunk.encoder.state_dict(), strict=False)
    layer = whole.trunk.encoder.network.linear
    expected = F.relu(F.linear(bare.trunk(rows, ())[0], layer.weight, layer.bias))
    torch.testing.assert_close(whole.trunk(rows, ())[0], expected, rtol=1e-4, atol=1e-5)


def test_the_users_module_takes_the_place_of_the_encoder() -> None:
    own = nn.Sequential(nn.Linear(4, 11), nn.ReLU())
    network = net("categorical", given=own, image_linear=False)
    assert network.trunk.encoder.module is own
    assert network(inputs(5, 3), ())[0].shape == (5, 3, ACTIONS, ATOMS)


# Actions


@pytest.mark.parametrize(
    "action",
    [
        box(2),
        MultiDiscrete((2, 3), (0, 0)),
        Composite(("a",), ("a",), (Discrete(2),), "dict"),
    ],
)
def test_actions_that_are_no_single_choice_are_refused_with_the_remedy(action: Spec) -> None:
    kind = KINDS["expected"][0]
    with pytest.raises(UsageError, match=rf"Odd-v1.*{type(action).__name__}.*choose ppo or a2c"):
        QNetwork(EnvSpec("Odd-v1", box(4), action), kind, QNetworkOptions())


# Weights


@every_kind
@every_head
def test_every_parameter_has_a_gradient_and_is_flat(kind: str, head: str) -> None:
    network = net(kind, memory="gru", **HEADS[head])
    flat = FlatParameters(network)
    z, _ = network(inputs(6, 3), network.initial_state(3), noise_of(network))
    z.square().sum().backward()
    flat.assert_intact()
    assert [n for n, p in network.named_parameters() if not p.grad.any()] == []


def test_a_copy_has_weights_of_its_own_and_can_be_sent_elsewhere() -> None:
    network, rows = net("implicit", **HEADS["everything"]), inputs(3)
    expected, _ = network(rows, ())
    target = copy.deepcopy(network)
    for p in target.parameters():
        p.data.zero_()
    assert not target(rows, ())[0].any()
    close(network(rows, ())[0], expected)
    close(pickle.loads(pickle.dumps(network))(rows, ())[0], expected)
    FlatParameters(target).vector.copy_(FlatParameters(network).vector)
    close(target(rows, ())[0], expected)


def test_the_same_seed_gives_the_same_weights_and_only_parameters_are_saved() -> None:
    one, two = (net("implicit", **HEADS["everything"]) for _ in range(2))
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q), name
    assert one.state_dict().keys() == dict(one.named_parameters()).keys()


def test_orthogonal_heads_begin_with_their_gains() -> None:
    head = net(orthogonal_init=True, head_sizes=(8,), noisy=True).head.advantage
    hidden, out = (layer.weight for layer in head.layers)
    torch.testing.assert_close(hidden @ hidden.T, 2 * torch.eye(8), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out @ out.T, torch.eye(ACTIONS), rtol=1e-4, atol=1e-5)


def test_the_trunk_is_the_actors() -> None:
    """One trunk for all algorithms: the same weights under the same names."""
    from rlpyt.distributions import for_action
    from rlpyt.models.options import ActorCriticOptions

    torch.manual_seed(0)
    spec = EnvSpec("Test-v0", box(4), Discrete(ACTIONS))
    given: Any = {"hidden_sizes": (10,), "memory": "lstm", "memory_size": 7}
    actor = ActorCritic(spec, for_action(spec.action), ActorCriticOptions(**given)).actor
    trunk = net(memory="lstm", orthogonal_init=True).trunk.state_dict()
    assert trunk.keys() == actor.state_dict().keys()
    assert all(torch.equal(trunk[k], v) for k, v in actor.state_dict().items())


# Compiling


@every_kind
def test_compiled_without_a_break_it_gives_the_same(kind: str) -> None:
    network, rows = net(kind, **HEADS["everything"]), inputs(6)
    torch.compiler.reset()  # other kinds' traces of forward count towards its limit
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    for noise in (None, randn(network.noise), randn(6, network.noise)):
        close(compiled(rows, (), noise)[0], network(rows, (), noise)[0])
