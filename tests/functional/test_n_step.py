"""n-step sums, discounts and bootstrap rows against sums written out episode by episode."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rlpyt.functional import n_step, n_step_returns

GAMMA = 0.9
NAN = float("nan")


class Rows(NamedTuple):
    """L rows of N columns, as arrived."""

    reward: Tensor
    terminated: Tensor
    last: Tensor


def rows(terminated: Tensor, truncated: Tensor, seed: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    reward = torch.randn(terminated.shape, generator=generator, dtype=torch.float64)
    return Rows(reward, terminated, terminated | truncated)


def every_ending(length: int) -> Rows:
    """One column for each way to place live, terminated, truncated and both on the rows.

    Endings on neighbouring rows are first and last at once: that is how cuts look.
    """
    kinds = torch.tensor(list(product(range(4), repeat=length))).T  # [L, 4 ** L]
    return rows((kinds & 1).bool(), (kinds & 2).bool())


def random_rows(length: int, columns: int, seed: int) -> Rows:
    kinds = torch.rand(2, length, columns, generator=torch.Generator().manual_seed(seed))
    return rows(kinds[0] < 0.15, kinds[1] < 0.15, seed)


def written_out(x: Rows, column: int, t: int, gamma: float, n: int) -> tuple[float, float, int]:
    """Going through one episode step by step, until n steps are made or it ends."""
    total, steps = 0.0, 0
    while steps < n and not x.last[t + steps, column]:
        steps += 1
        total += gamma ** (steps - 1) * float(x.reward[t + steps, column])
    if not steps:
        return 0.0, 0.0, 0
    return total, 0.0 if x.terminated[t + steps, column] else gamma**steps, steps


def check(x: Rows, gamma: float, n: int) -> None:
    found = n_step(*x, gamma, n)
    length, columns = len(x.last) - n, x.last.shape[1]
    wanted = [[written_out(x, b, t, gamma, n) for b in range(columns)] for t in range(length)]
    expected = torch.tensor(wanted, dtype=torch.float64).unbind(-1)
    assert [y.shape for y in found] == [(length, columns)] * 3
    assert found[2].dtype == torch.int64
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_ending_on_every_row_equals_the_sum_over_its_episode(n: int) -> None:
    check(every_ending(5), GAMMA, n)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 6),
    length=st.integers(1, 12),
    columns=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_all_shapes_equal_the_sum_over_their_episodes(
    n: int, length: int, columns: int, seed: int, gamma: float
) -> None:
    check(random_rows(n + length, columns, seed), gamma, n)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_with_values_it_is_the_n_step_return_of_a_window(n: int) -> None:
    x = random_rows(20, 16, seed=1)
    value = random_rows(20, 16, seed=4).reward
    returns, discount, m = n_step(*x, GAMMA, n)
    bootstrap = value.gather(0, m + torch.arange(20 - n).unsqueeze(-1))
    window = n_step_returns(x.reward, GAMMA * ~x.terminated, x.last, value, n)
    found = returns + discount * bootstrap  # the discount is in single precision
    torch.testing.assert_close(found, window[: 20 - n], rtol=1e-6, atol=1e-6)


def test_a_transition_is_the_first_row_of_n_plus_one() -> None:
    x = random_rows(9, 50, seed=2)
    whole = n_step(*x, GAMMA, 3)
    item = n_step(*(y[2:6] for y in x), GAMMA, 3)
    for one, row in zip(item, whole, strict=True):
        assert torch.equal(one[0], row[2])


def test_nan_of_the_next_episode_and_of_dead_rows_reaches_nothing() -> None:
    x = every_ending(5)
    begins = torch.cat((torch.ones_like(x.last[:1]), x.last[:-1]))
    dirty = x._replace(reward=x.reward.where(~begins, NAN))
    for clean, found in zip(n_step(*x, GAMMA, 3), n_step(*dirty, GAMMA, 3), strict=True):
        assert torch.equal(clean, found)
    multiplied = (~x.last[:-1]).double() * dirty.reward[1:]  # control
    assert multiplied.isnan().any()


def test_both_flags_terminate_and_a_truncation_alone_bootstraps() -> None:
    reward = torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    last = torch.tensor([[False], [False], [True], [False]])
    for terminated, discount in ((last, 0.0), (torch.zeros_like(last), 0.25)):
        found = n_step(reward, terminated, last, 0.5, 3)
        assert [x.item() for x in found] == [1 + 0.5 * 2, discount, 2]


def test_compiled_without_a_break_it_gives_the_same() -> None:
    x = random_rows(8, 5, seed=3)
    compiled = torch.compile(n_step, backend="eager", fullgraph=True)
    for got, want in zip(compiled(*x, GAMMA, 3), n_step(*x, GAMMA, 3), strict=True):
        assert torch.equal(got, want)
