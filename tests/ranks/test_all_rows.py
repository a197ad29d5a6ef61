"""What several ranks decide and count together: by the rows of all, and the same on each."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from small_parts import collected
from small_parts import make as make_parts
from small_q import fill_with_chance, spec
from small_ranks import COLUMNS, alone, own_columns, part_of
from together import ended, in_ranks
from torch import Tensor

from rlpyt.agents.normalizers import ObservationNormalizer, RewardScale
from rlpyt.algos.learner import Learner, assert_same_parameters
from rlpyt.functional import explained_variance
from rlpyt.models.flat import Adam
from rlpyt.ranks import world
from rlpyt.replays.prioritized import Prioritized
from rlpyt.ring import Ring
from rlpyt.rows import example_row


def step_with(rank: int, value: float) -> str:
    """A step of which one rank's gradient is the value."""
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 1, bias=False)
    learner = Learner(module, Adam, 0.5)
    before = learner.parameters.vector.clone()
    x = torch.full((1, 2), value if world().rank == rank else 1.0)
    try:
        learner.step(lambda x: (module(x).mean(), torch.zeros(1)), 1e-3, x)
    except FloatingPointError as error:
        assert torch.equal(before, learner.parameters.vector)
        assert not learner.optimizer.state()["steps"]
        return str(error)
    return ""


def test_a_gradient_that_is_not_finite_on_one_rank_changes_nothing_on_any() -> None:
    """F11."""
    said = in_ranks(2, step_with, 1, float("nan"))
    assert all("gradient of weight is not finite on rank 1" in text for text in said), said
    assert in_ranks(2, step_with, 1, 2.0) == ["", ""]  # the control


def flip_a_bit() -> None:
    torch.manual_seed(0)
    last = torch.nn.Linear(3, 2)
    learner = Learner(torch.nn.Sequential(torch.nn.Linear(3, 3), last), Adam, 0.5)
    assert_same_parameters(learner.parameters, world(), 1)  # the control
    if world().rank == 1:
        with torch.no_grad():
            last.weight.view(torch.int32)[1, 2] ^= 1
    assert_same_parameters(learner.parameters, world(), 501)


def test_ranks_whose_parameters_differ_by_a_bit_are_stopped() -> None:
    """F31."""
    for end in ended(2, flip_a_bit):
        assert "at update 501 the ranks' parameters differ, first in 1.weight" in end.error


def statistics() -> tuple[Tensor, Tensor]:
    columns = own_columns()
    normalizer = ObservationNormalizer(torch.zeros(3).numpy())
    scale = RewardScale(columns.stop - columns.start, 0.9)
    for t in range(4):
        torch.manual_seed(t)
        rows, reward = torch.randn(5, COLUMNS, 3) + t, torch.randn(5, COLUMNS)
        first = torch.rand(5, COLUMNS) < 0.2
        normalizer.update(rows[:, columns])
        scale.update(reward[:, columns].numpy(), first[:, columns].numpy())
    x = torch.linspace(-3, 3, 9).reshape(3, 3)
    return normalizer(x), torch.cat([scale(x.flatten()), scale.moments.float()])


def test_statistics_are_of_the_rows_of_all() -> None:
    """B247."""
    whole = statistics()
    for ours in in_ranks(2, statistics):
        for one, both in zip(whole, ours, strict=True):
            torch.testing.assert_close(one, both, rtol=1e-6, atol=1e-6)


def explained() -> float:
    """Of this rank's rows, of which it has unequally many."""
    torch.manual_seed(0)
    value, target = torch.randn(2, 6, COLUMNS) + 5
    live, columns = torch.rand(6, COLUMNS) < torch.linspace(0.2, 1, COLUMNS), own_columns()
    total = world().sum_ if world().size > 1 else None
    rows = value[:, columns], target[:, columns], live[:, columns]
    return float(explained_variance(*rows, total))


def test_the_explained_variance_is_that_of_the_rows_of_all() -> None:
    whole, (first, second) = explained(), in_ranks(2, explained)
    assert first == second == pytest.approx(whole, abs=1e-5)


class Counting(torch.nn.Module):
    """A network that keeps a mean of the rows it has read."""

    def __init__(self, together: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.together = torch.nn.Linear(2, 1), together
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.detach().mean(0)
        if self.together:
            mean = world().sum_(mean) / world().size
        self.get_buffer("mean").lerp_(mean, 0.1)
        return self.layer(x - self.get_buffer("mean"))


def step_of_counting(together: bool) -> str:
    module = Counting(together)
    learner = Learner(module, Adam, 0.5)
    rows = torch.full((3, 2), world().rank + 1.0)
    try:
        learner.step(lambda x: (module(x).mean(), torch.zeros(1)), 1e-3, rows)
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_buffer_that_each_rank_moves_by_itself_is_told_of() -> None:
    for said in in_ranks(2, step_of_counting, False):
        assert "the ranks' buffers differ, first in mean" in said and "world().sum_" in said
    assert in_ranks(2, step_of_counting, True) == ["", ""]  # the control, and the remedy


def epochs_until(target_kl: float, together: bool) -> int:
    """Updates, of one epoch each, before the policy has changed too much."""
    with alone():
        parts = make_parts("ppo", num_envs=COLUMNS, minibatch_size=16 * COLUMNS, lr=1e-2)
        whole = collected(parts)
    part = part_of(whole)
    kind: Any = type(parts.algorithm)
    given: Any = parts.algorithm.options
    options = dataclasses.replace(given, target_kl=target_kl, update_epochs=60)

    def updates() -> int:
        generator = torch.Generator().manual_seed(0)
        algorithm = kind(parts.agent, options, part.num_envs, 1000, generator)
        algorithm.update(part, 0)
        return algorithm.learner.updates

    if together:
        return updates()
    with alone():
        return updates()


def test_ranks_stop_early_together() -> None:
    """By the divergence over the rows of all; alone they would stop after other epochs."""
    (first, second), apart = (in_ranks(2, epochs_until, 0.02, x) for x in (True, False))
    assert first == second < 60
    assert apart[0] != apart[1]


def prioritized_draws() -> list[tuple[list[float], list[float], float]]:
    """Of some draws: the weights, the drawn items' priorities, and the mass of all of this rank."""
    ring = random_ring(world().rank)
    selector = Prioritized(ring, 2, range(1), alpha=0.7)
    window, generator = ring.window(6, 2), np.random.default_rng(world().rank)
    found = []
    for beta in (0.4, 1.0):
        drawn = selector.draw(window, generator, beta)
        selector.update(drawn, generator.random(6) * 3)
        drawn = selector.draw(window, generator, beta)
        assert drawn.weights is not None
        leaves = selector._tree.leaves[selector._leaves_of(drawn.starts, drawn.columns)]
        found.append((drawn.weights.tolist(), leaves.tolist(), float(selector._tree.total)))
    return found


def random_ring(seed: int) -> Ring:
    """Rows of chance: as many more as the seed is."""
    ring = Ring(example_row(spec()), 64, 2, 32)
    block = ring.blocks[0]
    fill_with_chance(block.rows, seed, end=0.1)
    block.reserve(10 + 5 * seed)
    block.answer(10 + 5 * seed)
    return ring


def test_importance_weights_are_of_the_rows_of_all() -> None:
    """SEMANTICS, section 6: (N/R p/S_r)^-beta over its maximum on all ranks."""
    ranks_of = in_ranks(2, prioritized_draws)
    for i, beta in enumerate((0.4, 1.0)):
        shares = [np.array(leaves) / total for _, leaves, total in (found[i] for found in ranks_of)]
        raw = [share**-beta for share in shares]
        most = max(x.max() for x in raw)
        for found, wanted in zip(ranks_of, raw, strict=True):
            np.testing.assert_allclose(found[i][0], wanted / most, rtol=1e-5)
        assert min(max(found[i][0]) for found in ranks_of) < 1  # one rank's greatest is not 1
