"""Actors: numbers of any count for rows of any kind, and gradients that end where they should."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_actor import chance, numbers, pixels, several, spec
from torch import nn

from rlpyt.algos.options import SACOptions
from rlpyt.arrays import tree_map
from rlpyt.models.actor import Actor
from rlpyt.models.critics import Critics
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import make_returns
from rlpyt.rows import Inputs

KINDS: dict[str, Any] = {
    "vector": numbers(3),
    "matrix": numbers(2, 3),
    "image": pixels(10, 10, 4),
    "several": several(),
}


def options(**given: Any) -> ActorQOptions:
    return ActorQOptions(**{"hidden_sizes": (8, 7), "memory_size": 6, **given})


def net(observation: Any = None, outputs: int = 4, **given: Any) -> Actor:
    torch.manual_seed(0)
    constant = given.pop("constant", 0)
    return Actor(spec(observation), outputs, options(**given), constant=constant)


@pytest.mark.parametrize("leading", [(5,), (4, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_leading_dimensions_are_answered_each_by_itself(kind, leading):
    actor, x = net(KINDS[kind], encoder="minatar" if kind in ("image", "several") else "auto"), None
    x = chance(KINDS[kind], *leading)
    out, state = actor(Inputs(x), ())
    assert out.shape == (*leading, 4) and state == () and actor.noise == 0
    alone = tree_map(lambda leaf: leaf[(0,) * len(leading)][None], x)
    torch.testing.assert_close(actor(Inputs(alone), ())[0][0], out[(0,) * len(leading)])


def test_a_vector_goes_through_the_hidden_layers_alone():
    actor, x = net(), torch.randn(5, 3)
    linear = [m for m in actor.modules() if isinstance(m, nn.Linear)]
    assert [m.weight.shape for m in linear] == [(8, 3), (7, 8), (4, 7)]
    expected = linear[2](torch.relu(linear[1](torch.relu(linear[0](x)))))
    torch.testing.assert_close(actor(Inputs(x), ())[0], expected)
    torch.manual_seed(0)
    drawn = [nn.Linear(n, m) for n, m in ((3, 8), (8, 7), (7, 4))]
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(linear, drawn, strict=True))


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_rows_one_by_one_and_as_a_sequence_have_the_same_numbers(memory):
    actor = net(memory=memory)
    first = torch.rand(7, 5) < 0.2
    inputs = Inputs(torch.randn(7, 5, 3), torch.randn(7, 5), first, torch.rand(7, 5, 2))
    state = tuple(map(torch.randn_like, actor.initial_state(5)))
    together, _ = actor(inputs, state)
    rows = []
    for t in range(7):
        out, state = actor(inputs[t], state)
        rows.append(out)
    torch.testing.assert_close(together, torch.stack(rows), rtol=1e-5, atol=1e-5)
    assert actor.reads == {"observation", "reward", "first", "previous_action"}


def test_constant_numbers_are_parameters_that_every_row_shares():
    actor = net(outputs=5, constant=2)
    with torch.no_grad():
        assert not actor(Inputs(torch.randn(6, 3)), ())[0][:, 3:].any()
        actor.constant.copy_(torch.tensor([1.0, -2.0]))
    out, _ = actor(Inputs(torch.randn(4, 6, 3)), ())
    assert out.shape == (4, 6, 5) and (out[..., 3:] == torch.tensor([1.0, -2.0])).all()
    out.sum().backward()
    assert actor.constant.grad.tolist() == [24, 24]


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_a_shared_trunk_is_no_part_of_the_actor_and_takes_no_gradient_from_it(memory):
    torch.manual_seed(0)
    shared = options(memory=memory, encoder_sizes=(9,))
    critics = Critics(spec(), make_returns(SACOptions()), 2, shared)
    actor = Actor(spec(), 4, shared, shared=critics.trunk)
    assert actor.shares_trunk and actor.trunk is critics.trunk
    assert not {id(p) for p in actor.parameters()} & {id(p) for p in critics.parameters()}
    assert not [name for name in actor.state_dict() if name.startswith("trunk")]
    given = {"reward": torch.randn(5), "first": torch.zeros(5).bool()}
    inputs = Inputs(torch.randn(5, 3), previous_action=torch.rand(5, 2), **given)
    out, _ = actor(inputs, actor.initial_state(5))
    out.square().sum().backward()
    assert all(p.grad is not None for p in actor.parameters())
    assert all(p.grad is None for p in critics.parameters())
    with torch.no_grad():
        for p in critics.trunk.parameters():
            p.add_(0.5)
    assert not torch.allclose(actor(inputs, actor.initial_state(5))[0], out)


def test_a_given_encoder_takes_the_place_of_ours():
    encoder = nn.Linear(3, 11)
    actor = Actor(spec(), 4, options(), encoder)
    assert actor.hidden.layers[0].weight.shape == (8, 11)
    out, _ = actor(Inputs(torch.randn(2, 5, 3)), ())
    assert out.shape == (2, 5, 4)
