"""Stacked critics: what a list of separate networks would say, learn and begin with."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from small_actor import chance, numbers, pixels, several, spec
from torch import Tensor, nn

from rlpyt.algos.options import SACOptions
from rlpyt.envs.spec import Box, Composite, Discrete, MultiBinary, MultiDiscrete, Spec
from rlpyt.errors import UsageError
from rlpyt.models.critics import Critics, bounded
from rlpyt.models.ensemble import Ensemble
from rlpyt.models.flat import Adam, FlatParameters
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_returns
from rlpyt.rows import Inputs

WIDTHS = (5, 8, 7, 4)
NORMED = pytest.mark.parametrize("layer_norm", [False, True])
ACTIVE: dict[str, Any] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
}


def separate(count: int, options: ActorQOptions) -> list[nn.Sequential]:
    """The same perceptrons one by one, in PyTorch's own modules."""

    def one() -> nn.Sequential:
        layers: list[nn.Module] = []
        for k, (n, m) in enumerate(pairwise(WIDTHS)):
            layers.append(nn.Linear(n, m))
            if k < len(WIDTHS) - 2:
                layers += [nn.LayerNorm(m)] if options.layer_norm else []
                layers.append(ACTIVE[options.activation]())
        return nn.Sequential(*layers)

    return [one() for _ in range(count)]


def both(count: int, **given: Any) -> tuple[Ensemble, list[nn.Sequential]]:
    options = ActorQOptions(**given)
    torch.manual_seed(3)
    ours = Ensemble(count, WIDTHS, options)
    torch.manual_seed(3)
    return ours, separate(count, options)


def net(count: int = 2, observation: Spec | None = None, **given: Any) -> Critics:
    torch.manual_seed(0)
    algo = given.pop("algo", SACOptions())
    options = ActorQOptions(**{"hidden_sizes": (8,), "memory_size": 6, **given})
    return Critics(spec(observation), make_returns(algo), count, options)


# ---------------------------------------------------------------- equal to a list


@NORMED
@pytest.mark.parametrize("activation", ACTIVE)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_ensemble_has_values_and_gradients_of_separate_networks(count, activation, layer_norm):
    ours, theirs = both(count, activation=activation, layer_norm=layer_norm)
    ours.double()
    x = torch.randn(6, WIDTHS[0], dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    wanted = torch.randn(count, 6, WIDTHS[-1], dtype=torch.float64)
    z = ours(x)
    other = torch.stack([one.double()(y) for one in theirs])
    torch.testing.assert_close(z, other)
    (z - wanted).square().sum().backward()
    (other - wanted).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    for i, one in enumerate(theirs):
        linear = [m for m in one if isinstance(m, nn.Linear)]
        for layer, alone in zip(ours.layers, linear, strict=True):
            torch.testing.assert_close(layer.weight.grad[i], alone.weight.grad)
            torch.testing.assert_close(layer.bias.grad[i, 0], alone.bias.grad)
        norms = [m for m in one if isinstance(m, nn.LayerNorm)]
        for layer, alone in zip(ours.norms or [], norms, strict=True):
            torch.testing.assert_close(layer.weight.grad[i, 0], alone.weight.grad)
            torch.testing.assert_close(layer.bias.grad[i, 0], alone.bias.grad)


@NORMED
def test_an_optimizer_step_is_that_of_separate_networks(layer_norm):
    ours, theirs = both(3, layer_norm=layer_norm)
    flat = FlatParameters(ours)
    optimizer = Adam(flat)
    reference = torch.optim.Adam([p for one in theirs for p in one.parameters()], lr=1e-2)
    for step in range(3):
        x = torch.randn(16, WIDTHS[0], generator=torch.Generator().manual_seed(step))
        flat.zero_grad()
        ours(x).square().mean().backward()
        optimizer.step(1e-2)
        reference.zero_grad()
        torch.stack([one(x) for one in theirs]).square().mean().backward()
        reference.step()
    x = torch.randn(16, WIDTHS[0])
    torch.testing.assert_close(
        ours(x), torch.stack([one(x) for one in theirs]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("orthogonal", [False, True])
def test_each_critic_begins_as_if_it_were_alone_and_with_weights_of_its_own(orthogonal):
    """PyTorch's distribution: uniform to 1 / sqrt(inputs), for weights and biases."""
    ours = Ensemble(40, (64, 50, 30), ActorQOptions(orthogonal_init=orthogonal))
    for layer, gain in zip(ours.layers, (math.sqrt(2), 1.0), strict=True):
        weight = layer.weight.detach()
        assert len({w.sum().item() for w in weight}) == 40
        if orthogonal:
            product = weight @ weight.transpose(1, 2)
            torch.testing.assert_close(
                product,
                gain**2 * torch.eye(weight.shape[1]).expand_as(product),
                rtol=1e-4,
                atol=1e-4,
            )
            assert not layer.bias.any()
            continue
        bound = weight.shape[2] ** -0.5
        for x in (weight, layer.bias.detach()):
            assert float(x.abs().max()) <= bound
            assert float(x.abs().max()) > 0.95 * bound
            assert float(x.mean()) == pytest.approx(0, abs=6 * bound / math.sqrt(3 * x.numel()))
            assert float(x.var()) == pytest.approx(bound**2 / 3, rel=0.15)


def test_weights_are_bit_for_bit_those_that_a_list_of_pytorchs_layers_draws():
    ours, theirs = both(4)
    for i, one in enumerate(theirs):
        linear = [m for m in one if isinstance(m, nn.Linear)]
        for layer, alone in zip(ours.layers, linear, strict=True):
            assert torch.equal(layer.weight[i], alone.weight)
            assert torch.equal(layer.bias[i, 0], alone.bias)


@NORMED
def test_frozen_weights_give_the_same_values_and_take_no_gradient(layer_norm):
    ours, _ = both(3, layer_norm=layer_norm)
    x = torch.randn(6, WIDTHS[0], requires_grad=True)
    z, frozen = ours(x), ours(x, True)
    assert torch.equal(z, frozen)
    slopes = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in (z, frozen)]
    assert torch.equal(*slopes)
    frozen.sum().backward()
    assert all(p.grad is None for p in ours.parameters())


@NORMED
def test_the_first_critics_alone_say_what_they_say_among_all(layer_norm):
    ours, _ = both(3, layer_norm=layer_norm)
    x = torch.randn(6, WIDTHS[0])
    for count in (1, 2, 3):
        torch.testing.assert_close(ours(x, False, count), ours(x)[:count])


@NORMED
def test_critics_chosen_by_their_numbers_say_what_they_say_among_all(layer_norm):
    """As an ensemble's targets choose them (REDQ)."""
    ours, _ = both(5, layer_norm=layer_norm)
    x = torch.randn(6, WIDTHS[0])
    for numbers_of in ([3, 1], [0], [4, 2, 0, 1, 3]):
        subset = torch.tensor(numbers_of)
        torch.testing.assert_close(ours(x, False, subset), ours(x)[subset])


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("leading", [(5,), (4, 5)])
def test_values_are_of_each_row_and_critic(leading):
    critics = net(3, algo=SACOptions(values="quantile", num_quantiles=6))
    x, action = torch.randn(*leading, 3), 2 * torch.rand(*leading, 2) - 1
    z, state = critics(Inputs(x), (), action)
    assert z.shape == (3, *leading, 6) and state == ()
    flat = zip(x.view(-1, 1, 3), action.view(-1, 1, 2), strict=True)
    rows = [critics(Inputs(row), (), a)[0] for row, a in flat]
    torch.testing.assert_close(z.flatten(1, -2), torch.cat(rows, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_actions_of_any_shape_are_read(shape):
    torch.manual_seed(0)
    env = spec(action=numbers(*shape, bound=1.0))
    critics = Critics(env, make_returns(SACOptions()), 2, ActorQOptions(hidden_sizes=(8,)))
    inputs, action = Inputs(torch.randn(4, 5, 3)), torch.rand(4, 5, *shape).requires_grad_()
    z, _ = critics(inputs, (), action)
    assert z.shape == (2, 4, 5, 1)
    (slope,) = torch.autograd.grad(z.sum(), action)
    assert slope.shape == action.shape and slope.abs().min() > 0


def test_a_vector_is_read_as_it_is():
    """No layer lies between the observation and the critics' first own one."""
    critics = net(2)
    assert [name for name, _ in critics.named_parameters()] == [
        f"ensemble.layers.{k}.{name}" for k in (0, 1) for name in ("weight", "bias")
    ]
    x, action = torch.randn(5, 3), torch.rand(5, 2)
    first = critics.ensemble.layers[0]
    hidden = torch.relu(torch.cat([x, action], 1) @ first.weight[1].T + first.bias[1])
    last = critics.ensemble.layers[1]
    z, _ = critics(Inputs(x), (), action)
    torch.testing.assert_close(z[1], hidden @ last.weight[1].T + last.bias[1])


@pytest.mark.parametrize("kind", ["image", "several"])
def test_images_and_dicts_are_encoded_once_for_all_critics(kind):
    observation = pixels(10, 10, 4) if kind == "image" else several()
    critics = net(3, observation, encoder="minatar")
    calls: list[Any] = []
    encoder = critics.trunk.encoder
    forward = encoder.forward
    vars(encoder)["forward"] = lambda x: (calls.append(1), forward(x))[1]
    x, action = chance(observation, 5), torch.rand(5, 2).requires_grad_()
    z, _ = critics(Inputs(x), (), action)
    assert z.shape == (3, 5, 1) and len(calls) == 1
    z.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in critics.trunk.parameters())
    for p in critics.parameters():
        p.grad = None
    z, _ = critics(Inputs(x), (), action, True)
    z.sum().backward()
    assert all(p.grad is None for p in critics.parameters())


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_rows_one_by_one_and_as_a_sequence_have_the_same_values(memory):
    critics = net(2, memory=memory)
    first = torch.rand(7, 5) < 0.2
    inputs = Inputs(torch.randn(7, 5, 3), torch.randn(7, 5), first, torch.rand(7, 5, 2))
    action = torch.rand(7, 5, 2)
    state = tuple(map(torch.randn_like, critics.initial_state(5)))
    together, after = critics(inputs, state, action)
    rows = []
    for t in range(7):
        z, state = critics(inputs[t], state, action[t])
        rows.append(z)
    torch.testing.assert_close(together, torch.stack(rows, 1), rtol=1e-5, atol=1e-5)
    for x, y in zip(after, state, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)
    features, state = critics.features(inputs, critics.initial_state(5))
    assert features.shape == (7, 5, 6)
    assert critics.reads == {"observation", "reward", "first", "previous_action"}


# ---------------------------------------------------------------- what actions may be


def box_of(low: list[float], high: list[float]) -> Box:
    return Box((len(low),), "float32", np.array(low), np.array(high))


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (box_of([-np.inf, -1], [np.inf, 1]), "from .*-inf"),
        (box_of([0.0], [np.inf]), "to .*inf"),
        (numbers(0, bound=1.0), r"shape \(0,\)"),
        (Discrete(3), "Discrete"),
        (MultiDiscrete((2, 3), (0, 0)), "MultiDiscrete"),
        (MultiBinary((4,)), "MultiBinary"),
        (MultiBinary((2, 2)), "MultiBinary"),
        (Composite(("a",), ("a",), (numbers(2, bound=1.0),), "dict"), "Composite"),
    ],
)
def test_other_actions_than_numbers_with_bounds_are_refused(space, said):
    """B019, B020, B026: before anything runs, with the space and the remedy."""
    with pytest.raises(UsageError, match=rf"Chance has actions of .*{said}.*choose ppo or a2c"):
        bounded(spec(action=space))


@pytest.mark.parametrize(("low", "high"), [([-2, -2], [1, 3]), ([0.0], [5.0]), ([1.0], [1.0])])
def test_any_finite_bounds_are_accepted(low, high):
    assert bounded(spec(action=box_of(low, high))).shape == (len(low),)


def test_a_compiled_ensemble_is_the_eager_one_in_one_graph():
    ours, _ = both(3, layer_norm=True)
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled: Any = torch.compile(ours.forward, backend=backend, dynamic=False, fullgraph=True)
    x = torch.randn(6, WIDTHS[0])
    found: Tensor = compiled(x, True)
    torch.testing.assert_close(found, ours(x))
    assert len(graphs) == 1
