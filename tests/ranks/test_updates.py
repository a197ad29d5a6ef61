"""Two ranks with half of the rows each learn what one learns of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_parts import collected
from small_parts import make as make_parts
from small_q import OneWindow, fill_with_chance, items, learner_of_sequences, spec
from small_q import small_agent as small_q_agent
from small_q_value import chance_window, learner
from small_q_value import small_agent as small_actor
from small_ranks import COLUMNS, alone, own_columns, part_of
from together import in_ranks
from torch import Tensor

from rlpyt.algos import reduction
from rlpyt.algos.dqn import DQN
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    DQNOptions,
    R2D1Options,
    SACOptions,
    TD3Options,
)
from rlpyt.arrays import tree_map
from rlpyt.models.flat import Adam
from rlpyt.ranks import world
from rlpyt.rows import Window, example_row

UPDATES = 50
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-9}
SEQUENCES: dict[str, Any] = {"burn_in": 3, "train_rows": 6, "n_step": 2}
Q_VALUE = {"ddpg": DDPGOptions, "td3": TD3Options, "sac": SACOptions, "d4pg": D4PGOptions}


def policy_gradient(algo: str, dtype: torch.dtype, **options: Any) -> Tensor:
    """Parameters after updates on one window, of which each rank has its columns."""
    given = {"minibatch_size": 16 * COLUMNS, "update_epochs": 1} if algo in ("ppo", "appo") else {}
    with alone():
        parts = make_parts(algo, num_envs=COLUMNS, **given, **options)
        window = collected(parts)
    assert window.rows.last[:-1].any()  # so that ranks have unequally many rows
    parts.agent.to(dtype)
    read = parts.agent.read
    parts.agent.read = lambda inputs: tree_map(lambda x: as_(dtype, x), read(inputs))
    kind: Any = type(parts.algorithm)
    part = part_of(window)
    algorithm = kind(
        parts.agent, parts.algorithm.options, part.num_envs, 1000, torch.Generator().manual_seed(0)
    )
    for _ in range(UPDATES):
        algorithm.update(part, 0)
    return algorithm.learner.parameters.vector


def drawn_items(agent: Any, options: Any) -> Window:
    """Rows of chance, as a draw from the replay gives them; a single trained row is live."""
    row = example_row(spec(), agent.example_kept())
    window = Window(
        row,
        options.item_length - 1,
        COLUMNS,
        reads=agent.model.reads,
        state=agent.model.initial_state(COLUMNS),
    )
    fill_with_chance(window.storage)
    torch.manual_seed(0)
    tree_map(lambda x: x.copy_(torch.randn_like(x)), window.states)
    if len(options.trained) == 1:
        window.rows.terminated[0] = window.rows.truncated[0] = window.rows.first[1] = False
    return window


def dqn(dtype: torch.dtype, **options: Any) -> Tensor:
    wanted = DQNOptions(n_step=2, gamma=0.9, **options)
    agent = small_q_agent(wanted).to(dtype)
    part, generator = part_of(drawn_items(agent, wanted)), torch.Generator().manual_seed(0)
    replay: Any = OneWindow(part)
    return learned(DQN(agent, wanted, replay, 1000, generator), part, dtype)


def r2d1(dtype: torch.dtype) -> Tensor:
    options = R2D1Options(**SEQUENCES, batch_size=COLUMNS)
    agent = small_q_agent(options, memory="lstm")
    part = part_of(drawn_items(agent, options))
    algorithm, _ = learner_of_sequences(agent.to(dtype), options, part)
    return learned(algorithm, part, dtype)


def q_value(
    algo: str, dtype: torch.dtype, options_given: dict[str, Any] | None = None, **model: Any
) -> Tensor:
    options = Q_VALUE[algo](**(SEQUENCES if "memory" in model else options_given or {}))
    agent = small_actor(options, **model)
    whole = chance_window(agent, options, columns=COLUMNS)
    columns = own_columns()
    with alone():
        made, _ = learner(options, whole, agent)
        draws = [made.draw(items(whole)) for _ in range(UPDATES)]
        masks = made.masks(items(whole))
    part = part_of(whole)
    algorithm, _ = learner(options, part, agent.to(dtype))
    given = iter(draws)
    algorithm.masks = lambda *_, **__: tree_map(lambda x: x[:, :, columns], masks)

    def drawn(_: Any) -> Any:
        # Of the whole batch, this rank's items; which critics make targets is no matter of items.
        place = {torch.int64: (), torch.bool: (slice(None), slice(None), columns)}
        mine = (slice(None), columns)
        return tree_map(lambda x: as_(dtype, x[place.get(x.dtype, mine)]), next(given))

    algorithm.draw = drawn
    return torch.cat([learned(algorithm, part, dtype), actor_of(algorithm)])


def actor_of(algorithm: Any) -> Tensor:
    return algorithm.actor_learner.parameters.vector


def learned(algorithm: Any, part: Any, dtype: torch.dtype) -> Tensor:
    given = tree_map(lambda x: as_(dtype, x), items(part))
    for _ in range(UPDATES):
        algorithm.learn(given, 500)
    return algorithm.learner.parameters.vector


def as_(dtype: torch.dtype, x: Tensor) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


CASES: dict[str, Callable[[torch.dtype], Tensor]] = {
    "a2c": lambda dtype: policy_gradient("a2c", dtype),
    "a2c, normalized": lambda dtype: policy_gradient("a2c", dtype, normalize_advantage=True),
    "ppo": lambda dtype: policy_gradient("ppo", dtype),
    "ppo, lstm": lambda dtype: policy_gradient("ppo", dtype, model={"memory": "lstm"}),
    "impala": lambda dtype: policy_gradient("impala", dtype, normalize_advantage=True),
    "appo": lambda dtype: policy_gradient("appo", dtype),
    "dqn": dqn,
    "c51": lambda dtype: dqn(dtype, values="categorical", num_atoms=11),
    "r2d1": r2d1,
    **{name: lambda dtype, name=name: q_value(name, dtype) for name in Q_VALUE},
    "sac, lstm": lambda dtype: q_value("sac", dtype, memory="lstm"),
    "crossq": lambda dtype: q_value("sac", dtype, batch_norm=True, batch_norm_warm_up=20),
    "crossq, sequences": lambda dtype: q_value(
        "sac", dtype, {"train_rows": 4}, batch_norm=True, batch_norm_warm_up=20
    ),
    "droq": lambda dtype: q_value("sac", dtype, critic_dropout=0.2, critic_layer_norm=True),
    "discrete sac": lambda dtype: q_value("sac", dtype, discrete=True),
    "discrete sac, lstm": lambda dtype: q_value("sac", dtype, discrete=True, memory="lstm"),
}
# States in a window, and the atoms of distributions, are of float32.
ROUNDED = ("ppo, lstm", "sac, lstm", "discrete sac, lstm", "c51", "d4pg")
DTYPES = {name: [torch.float32] for name in ROUNDED}


def all_cases(dtype: torch.dtype) -> dict[str, Tensor]:
    torch.set_num_threads(1)
    linear, critics = F.linear, torch.baddbmm
    # Networks read float32; here their weights may be more exact.
    F.linear = lambda x, w, b=None: linear(x.to(w.dtype), w, b)
    torch.baddbmm = lambda b, x, w: critics(b, x.to(w.dtype), w)
    try:
        cases = {name: case for name, case in CASES.items() if dtype in DTYPES.get(name, [dtype])}
        return {name: case(dtype).detach().clone() for name, case in cases.items()}
    finally:
        F.linear, torch.baddbmm = linear, critics


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_halves_are_one_whole(dtype: torch.dtype) -> None:
    """Issue 6 and B244: after 50 updates, however many live rows each rank has; B248."""
    whole, (first, second) = all_cases(dtype), in_ranks(2, all_cases, dtype, seconds=200)
    worst = {name: float((whole[name] - first[name]).abs().max()) for name in whole}
    assert max(worst.values()) <= TOLERANCE[dtype], worst
    for name in whole:
        assert torch.equal(first[name], second[name]), name  # to the bit


def test_control_half_of_the_rows_is_not_the_whole() -> None:
    halves = in_ranks(2, half_a2c)
    assert float((halves[0] - halves[1]).abs().max()) > 100 * TOLERANCE[torch.float32]


def half_a2c() -> Tensor:
    with alone():
        parts = make_parts("a2c", num_envs=COLUMNS)
        whole = collected(parts)
    part = part_of(whole)
    with alone():
        for _ in range(UPDATES):
            parts.algorithm.update(part, 0)
    return parts.algorithm.learner.parameters.vector.clone()


class Wide(torch.nn.Module):
    """Several buckets, one layer of which is only used on some ranks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        width = 110
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.unused = torch.nn.Linear(width, width)
        self.sometimes = torch.nn.Linear(width, width)

    def forward(self, x: Tensor, skips: bool) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x if skips else self.sometimes(x)


def wide_gradients() -> list[tuple[int, Tensor]]:
    """Summed in parts during the backward pass, and as one at its end."""
    return [wide_gradient(bucket) for bucket in (1 << 14, 10**9)]


def wide_gradient(bucket: int) -> tuple[int, Tensor]:
    module = Wide()
    vars(reduction)["BUCKET"] = bucket
    learner = Learner(module, Adam, 0.5)
    torch.manual_seed(1)
    rows = torch.randn(4, 110)[own_rows()]

    def loss(x: Tensor) -> tuple[Tensor, Tensor]:
        value = module(x, world().rank == 1).square().mean()
        return value, value.detach().view(1)

    learner.step(loss, 1e-3, rows)
    parts = len(learner._reduction._parts) if learner._reduction else 0
    return parts, learner.parameters.gradient.clone()


def own_rows() -> slice:
    return slice(2 * world().rank, 2 * world().rank + 2)


def test_parts_summed_during_the_backward_pass_are_the_sum() -> None:
    """Whichever parameters a rank uses: the order of sums is one on all ranks."""
    overlapped, at_end = zip(*in_ranks(2, wide_gradients), strict=True)
    assert overlapped[0][0] > 2 and at_end[0][0] == 1
    for (_, ours), (_, wanted) in zip(overlapped, at_end, strict=True):
        assert torch.equal(ours, wanted)
    assert torch.equal(overlapped[0][1], overlapped[1][1])


def compiled_and_eager() -> tuple[int, list[list[Tensor]]]:
    """How many graphs were compiled, and what was learned without and with them."""
    torch.set_num_threads(1)
    original, graphs = torch.compile, []

    def backend(graph: Any, _: Any) -> Any:  # generates no code
        graphs.append(graph)
        return graph.forward

    vars(torch)["compile"] = lambda f, **_: original(f, backend=backend, dynamic=False)
    found = []
    for compile in (False, True):
        wanted = DQNOptions(lr=1e-2)
        values = small_q_agent(wanted)
        drawn = part_of(drawn_items(values, wanted))
        replay: Any = OneWindow(drawn)
        dqn = DQN(values, wanted, replay, 1000, torch.Generator(), compile)
        options = SACOptions(lr=1e-2, train_rows=3)
        agent = small_actor(options)
        part = part_of(chance_window(agent, options, columns=COLUMNS, end=0.5))
        sac, _ = learner(options, part, agent, compile=compile)
        for _ in range(3):
            dqn.learn(items(drawn), 0)
            sac.learn(items(part), 0)
        vectors = [dqn.learner.parameters.vector, sac.learner.parameters.vector, actor_of(sac)]
        found.append([x.clone() for x in vectors])
    return len(graphs), found


def test_compiled_updates_of_ranks_are_the_eager_ones() -> None:
    """The gradient is compiled, its sum over ranks is not; live rows are unequally many (B253)."""
    (graphs, (eager, compiled)), (_, (_, others)) = in_ranks(2, compiled_and_eager)
    assert graphs == 3  # of dqn, of critics, of an actor
    for wanted, one, other in zip(eager, compiled, others, strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-6)
        assert torch.equal(one, other)
