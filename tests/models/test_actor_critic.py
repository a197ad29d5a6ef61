"""Policy and value over any leading dimensions, with and without memory, shared or separate."""

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlpyt.arrays import tree_items, tree_leaves, tree_map
from rlpyt.distributions import for_action
from rlpyt.envs.spec import (
    Box,
    Composite,
    Discrete,
    EnvSpec,
    MultiBinary,
    MultiDiscrete,
    Spec,
    example,
)
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.flat import FlatParameters
from rlpyt.models.heads import LOG_STD_RANGE, PolicyHead, ValueHead
from rlpyt.models.options import ActorCriticOptions
from rlpyt.rows import Inputs


def box(*shape: int) -> Box:
    return Box(shape, "float32", np.full(shape, -np.inf), np.full(shape, np.inf))


IMAGE = Box((12, 12), "uint8", np.zeros((12, 12)), np.full((12, 12), 255.0), True)
EVERY_ACTION = Composite(
    ("a", "b", "c", "d"),
    ("a", "b", "c", "d"),
    (Discrete(3), box(2), MultiDiscrete((2, 4), (0, 0)), MultiBinary((2,))),
    "dict",
)


def model(
    action: Spec | None = None, observation: Spec | None = None, encoder: Any = None, **options: Any
) -> ActorCritic:
    torch.manual_seed(0)
    spec = EnvSpec("Test-v0", observation or box(4), action or Discrete(2))
    return ActorCritic(spec, for_action(spec.action), ActorCriticOptions(**options), encoder)


def inputs(*leading: int, action: Spec | None = None, observation: Spec | None = None) -> Inputs:
    generator = torch.Generator().manual_seed(1)

    def draw(x: np.ndarray) -> Tensor:
        shape, kind = (*leading, *x.shape), torch.from_numpy(np.asarray(x)).dtype
        if x.dtype.kind == "f":
            return torch.randn(shape, generator=generator)
        return torch.randint(0, 2, shape, generator=generator).to(kind)

    return Inputs(
        observation=tree_map(draw, example(observation or box(4))),
        reward=torch.randn(leading, generator=generator),
        first=torch.rand(leading, generator=generator) < 0.2,
        previous_action=tree_map(draw, example(action or Discrete(2))),
    )


def close(a: Any, b: Any) -> None:
    for (path, x), (_, y) in zip(tree_items(a), tree_items(b), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, msg=path)


SHAPES = {
    "memoryless": {},
    "memoryless-shared": {"share_trunk": True},
    "previous": {"read_previous": True},
    "lstm": {"memory": "lstm"},
    "lstm-shared": {"memory": "lstm", "share_trunk": True},
    "gru": {"memory": "gru"},
    "gru-shared-observation-only": {"memory": "gru", "share_trunk": True, "read_previous": False},
}


@pytest.mark.parametrize(
    "observation", [box(4), IMAGE, EVERY_ACTION], ids=["vector", "image", "dict"]
)
@pytest.mark.parametrize("name", SHAPES)
def test_learning_over_a_window_gives_what_acting_gave_row_by_row(
    name: str, observation: Spec
) -> None:
    net = model(EVERY_ACTION, observation, **SHAPES[name])
    window = inputs(9, 3, action=EVERY_ACTION, observation=observation)
    start = tree_map(lambda x: torch.randn(x.shape), net.initial_state(3))
    parameters, value, final = net(window, start)
    assert value.shape == (9, 3)
    state, rows = start, []
    with torch.inference_mode():
        for t in range(9):
            row, state = net.policy(window[t], state)
            rows.append(row)
    for t, row in enumerate(rows):
        close(row, _row(parameters, t))
    close(net.join(state, final), final)


def _row(parameters: Any, t: int) -> Any:
    """Row t of parameters [T, B, ...]; a log_std [d] is of all rows."""
    return tree_map(lambda x: x[t] if x.dim() > 1 else x, parameters)


@pytest.mark.parametrize("name", SHAPES)
def test_a_window_in_pieces_gives_what_the_whole_gives(name: str) -> None:
    net = model(**SHAPES[name])
    window = inputs(12, 3)
    state = net.initial_state(3)
    _, whole, final = net(window, state)
    values = []
    for begin in range(0, 12, 4):
        _, value, state = net(window[begin : begin + 4], state)
        values.append(value)
    close(torch.cat(values), whole)
    close(state, final)


@pytest.mark.parametrize("name", ["memoryless", "memoryless-shared", "previous"])
def test_without_memory_any_leading_dimensions_give_the_same_numbers(name: str) -> None:
    net = model(**SHAPES[name])
    window = inputs(5, 3)
    logits, value, state = net(window, ())
    assert state == () and net.initial_state(3) == ()
    flat = tree_map(lambda x: x.flatten(0, 1), window)
    close(net(flat, ())[:2], (logits.flatten(0, 1), value.flatten()))
    alone = tree_map(lambda x: x[2, 1], window)
    close(net(alone, ())[:2], (logits[2, 1], value[2, 1]))


def test_the_form_of_the_state() -> None:
    def shapes(**options: Any) -> Any:
        return [(path, tuple(x.shape)) for path, x in tree_items(model(**options).initial_state(5))]

    assert shapes() == []
    assert shapes(memory="gru", share_trunk=True, memory_size=7) == [("0", (5, 7))]
    assert shapes(memory="lstm", share_trunk=True) == [("0", (5, 64)), ("1", (5, 64))]
    assert [path for path, _ in shapes(memory="lstm")] == ["0.0", "0.1", "1.0", "1.1"]


def test_acting_steps_the_actors_memory_alone_and_join_takes_the_critics() -> None:
    net = model(memory="lstm")
    state = tree_map(torch.randn_like, net.initial_state(3))
    _, acted = net.policy(inputs(3), state)
    assert acted[1] is state[1]
    assert not torch.equal(acted[0][0], state[0][0])
    learned = tree_map(torch.randn_like, state)
    joined = net.join(acted, learned)
    assert joined[0] is acted[0] and joined[1] is learned[1]
    shared = model(memory="lstm", share_trunk=True)
    _, acted = shared.policy(inputs(3), shared.initial_state(3))
    assert shared.join(acted, None) is acted
    assert model().join((), ()) == ()


def test_what_the_model_reads() -> None:
    assert model().reads == {"observation"}
    assert model(memory="lstm", read_previous=False).reads == {"observation", "first"}
    every = {"observation", "reward", "first", "previous_action"}
    assert model(memory="gru").reads == model(read_previous=True).reads == every
    observation = inputs(3).observation
    assert model().policy(Inputs(observation), ())[0].shape == (3, 2)


def test_previous_action_and_reward_are_zero_at_a_first_row_whatever_is_stored() -> None:
    net = model(EVERY_ACTION, read_previous=True)
    row = inputs(3, action=EVERY_ACTION)
    row = row.replace(first=torch.tensor([False, True, False]))
    before, _ = net.policy(row, ())
    row.reward[1] = float("nan")
    row.previous_action.a[1] = 2
    row.previous_action.b[1] = float("inf")
    after, _ = net.policy(row, ())
    close(after, before)
    read = net.actor.previous(row)
    assert not read[1].any()
    expected = torch.cat(
        [
            row.reward[:, None],
            torch.eye(3)[row.previous_action.a],
            row.previous_action.b,
            torch.eye(2)[row.previous_action.c[:, 0]],
            torch.eye(4)[row.previous_action.c[:, 1]],
            row.previous_action.d.float(),
        ],
        -1,
    )
    torch.testing.assert_close(read[[0, 2]], expected[[0, 2]])


def test_trunks_are_separate_for_vectors_and_shared_for_images_unless_stated() -> None:
    assert model().critic is not None
    assert model(observation=IMAGE).critic is None
    assert model(observation=IMAGE, share_trunk=False).critic is not None
    assert model(observation=IMAGE, encoder=None, share_trunk=True).critic is None
    separate, shared = model(), model(share_trunk=True)
    assert not torch.equal(
        separate.actor.encoder.mlp.layers[0].weight, separate.critic.encoder.mlp.layers[0].weight
    )
    assert len(list(shared.parameters())) < len(list(separate.parameters()))


def test_every_parameter_has_a_gradient_and_is_flat() -> None:
    for options in SHAPES.values():
        net = model(EVERY_ACTION, IMAGE, state_dependent_std=True, **options)
        flat = FlatParameters(net)
        window = inputs(6, 3, action=EVERY_ACTION, observation=IMAGE)
        parameters, value, _ = net(window, net.initial_state(3))
        (value.sum() + sum(p.square().sum() for p in tree_leaves(parameters))).backward()
        flat.assert_intact()
        silent = [n for n, p in net.named_parameters() if not p.grad.any()]
        assert silent == []


def test_the_users_module_takes_the_place_of_the_encoder() -> None:
    own = nn.Sequential(nn.Linear(4, 11), nn.ReLU())
    net = model(encoder=own, memory="gru")
    assert net.critic is None and net.actor.encoder.module is own
    parameters, value, _ = net(inputs(5, 3), net.initial_state(3))
    assert parameters.shape == (5, 3, 2) and value.shape == (5, 3)
    separate = model(encoder=own, share_trunk=False)
    assert separate.critic.encoder.module is not own
    assert torch.equal(separate.critic.encoder.module[0].weight, own[0].weight)


def test_gaussian_heads() -> None:
    distribution = for_action(box(3))
    head = PolicyHead(distribution, 8, ActorCriticOptions(log_std_init=-0.5))
    mean, log_std = head(torch.randn(5, 4, 8))
    assert mean.shape == (5, 4, 3) and torch.equal(log_std, torch.full((3,), -0.5))
    assert isinstance(log_std, nn.Parameter)
    options = ActorCriticOptions(log_std_init=-0.5, state_dependent_std=True)
    dependent = PolicyHead(distribution, 8, options)
    mean, log_std = dependent(torch.zeros(5, 4, 8))
    assert torch.equal(log_std, torch.full((5, 4, 3), -0.5)) and not mean.any()
    _, log_std = dependent(1e6 * torch.randn(50, 8))
    assert (log_std.amin().item(), log_std.amax().item()) == LOG_STD_RANGE
    assert list(PolicyHead(for_action(Discrete(2)), 8, options).state_dict()) == [
        "linear.weight",
        "linear.bias",
    ]


def test_heads_begin_orthogonal_with_their_gains() -> None:
    policy = PolicyHead(for_action(Discrete(4)), 8, ActorCriticOptions()).linear.weight
    torch.testing.assert_close(policy @ policy.T, 1e-4 * torch.eye(4), rtol=1e-4, atol=1e-9)
    value = ValueHead(8, ActorCriticOptions()).linear.weight
    torch.testing.assert_close(value.norm(), torch.tensor(1.0))


def test_the_same_seed_gives_the_same_weights() -> None:
    one, two = model(memory="lstm"), model(memory="lstm")
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_copies_and_conversions_reach_what_computes() -> None:
    """Parameters are plain attributes too: neither way of changing them may go unseen."""
    net, row = model(memory="lstm"), inputs(3)
    state = net.initial_state(3)
    expected, _ = net.policy(row, state)
    twin = copy.deepcopy(net)
    for p in twin.parameters():
        p.data.zero_()
    assert not twin.policy(row, state)[0].any()
    assert torch.equal(net.policy(row, state)[0], expected)
    assigned = model(memory="lstm")
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    assigned.load_state_dict({k: torch.zeros_like(v) for k, v in weights.items()}, assign=True)
    assert not assigned.policy(row, state)[0].any()
    assigned.load_state_dict(weights, assign=True)
    assert torch.equal(assigned.policy(row, state)[0], expected)
    for module in net.double().modules():
        for name, p in module.named_parameters(recurse=False):
            assert getattr(module, name) is p and p.dtype == torch.float64


def test_a_model_can_be_sent_to_another_process() -> None:
    import pickle

    net = model(EVERY_ACTION, memory="gru")
    file = io.BytesIO(pickle.dumps(net))
    twin = pickle.load(file)
    row = inputs(3, action=EVERY_ACTION)
    close(twin.policy(row, twin.initial_state(3)), net.policy(row, net.initial_state(3)))
