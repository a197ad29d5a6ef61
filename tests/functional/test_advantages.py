"""Returns and advantages against their papers, episode by episode."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rlpyt.functional import discounted_returns, gae, lambda_returns, n_step_returns, vtrace

GAMMA = 0.9
NAN = float("nan")


class Window(NamedTuple):
    """T+1 rows of B columns, as arrived."""

    reward: Tensor
    discount: Tensor
    last: Tensor
    value: Tensor


class Episode(NamedTuple):
    """The part of one episode that is in a window: what the papers speak of."""

    start: int
    rewards: list[float]  # r_0 .. r_{k-1}: after each action
    values: list[float]  # V_0 .. V_k: V_k is 0 where the episode terminated


def window(terminated: Tensor, truncated: Tensor, seed: int = 0, gamma: float = GAMMA) -> Window:
    """Random rewards and values around endings [T+1, B]."""
    generator = torch.Generator().manual_seed(seed)
    shape = terminated.shape
    reward = torch.randn(shape, generator=generator, dtype=torch.float64)
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    discount = (~terminated).double() * gamma
    return Window(reward, discount, terminated | truncated, value)


def every_ending(rows: int) -> Window:
    """One column for each way to place live, terminated, truncated and both on the rows.

    Endings on neighbouring rows occur too: that is how cuts look.
    """
    kinds = torch.tensor(list(product(range(4), repeat=rows))).T  # [T+1, 4 ** (T+1)]
    return window((kinds & 1).bool(), (kinds & 2).bool())


def random_window(rows: int, columns: int, seed: int, gamma: float = GAMMA) -> Window:
    """Endings on a fifth of the rows."""
    kinds = torch.rand(2, rows, columns, generator=torch.Generator().manual_seed(seed))
    return window(kinds[0] < 0.1, kinds[1] < 0.1, seed, gamma)


def varied(w: Window) -> Window:
    """Another gamma on each row, as where steps last differently long."""
    generator = torch.Generator().manual_seed(0)
    factor = torch.rand(w.discount.shape, generator=generator, dtype=torch.float64)
    return w._replace(discount=w.discount * (0.5 + factor / 2))


def episodes(w: Window, column: int) -> list[Episode]:
    """The stretches of live rows of a column, each with the row that follows it."""
    reward, discount, last, value = (x[:, column].tolist() for x in w)
    found: list[Episode] = []
    start = 0
    for t in range(len(last)):
        if last[t] or t == len(last) - 1:
            if t > start:
                final = 0.0 if discount[t] == 0 else value[t]
                found.append(Episode(start, reward[start + 1 : t + 1], [*value[start:t], final]))
            start = t + 1
    return found


def n_step(episode: Episode, t: int, n: int, gamma: float) -> float:
    """G_{t:t+n}, with at most the rewards that there are."""
    n = min(n, len(episode.rewards) - t)
    rewards = sum(gamma**i * episode.rewards[t + i] for i in range(n))
    return rewards + gamma**n * episode.values[t + n]


def slow_gae(episode: Episode, t: int, lam: float, gamma: float) -> float:
    """Sum over l of (gamma lambda)^l delta_{t+l}."""
    r, v = episode.rewards, episode.values
    deltas = [r[k] + gamma * v[k + 1] - v[k] for k in range(len(r))]
    return sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(r)))


def slow_lambda_return(episode: Episode, t: int, lam: float, gamma: float) -> float:
    """(1 - lambda) sum of lambda^(n-1) G_{t:t+n}, and the rest of the weight on the longest."""
    longest = len(episode.rewards) - t
    shorter = sum(lam ** (n - 1) * n_step(episode, t, n, gamma) for n in range(1, longest))
    return (1 - lam) * shorter + lam ** (longest - 1) * n_step(episode, t, longest, gamma)


def slow_vtrace(
    episode: Episode, t: int, ratios: list[float], clips: tuple[float, float, float], gamma: float
) -> float:
    """V_t + sum over k of gamma^(k-t) (product of c_t .. c_{k-1}) delta_k."""
    lam, rho_clip, c_clip = clips
    r, v = episode.rewards, episode.values
    target, traces = v[t], 1.0
    for k in range(t, len(r)):
        delta = min(rho_clip, ratios[k]) * (r[k] + gamma * v[k + 1] - v[k])
        target += gamma ** (k - t) * traces * delta
        traces *= lam * min(c_clip, ratios[k])
    return target


def per_episode(w: Window, function) -> Tensor:
    """function(episode, t, column) on every live row, 0 elsewhere, [T, B]."""
    result = torch.zeros_like(w.value[:-1])
    for column in range(w.value.shape[1]):
        for episode in episodes(w, column):
            for t in range(len(episode.rewards)):
                result[episode.start + t, column] = function(episode, t, column)
    return result


def check_all(w: Window, lam: float, n: int, gamma: float) -> None:
    """Every function equals its reference."""
    close = torch.testing.assert_close
    close(gae(*w, lam), per_episode(w, lambda e, t, _: slow_gae(e, t, lam, gamma)))
    close(n_step_returns(*w, n), per_episode(w, lambda e, t, _: n_step(e, t, n, gamma)))
    close(discounted_returns(*w), per_episode(w, lambda e, t, _: n_step(e, t, 10**6, gamma)))
    close(
        lambda_returns(*w, lam),
        per_episode(w, lambda e, t, _: slow_lambda_return(e, t, lam, gamma)),
    )
    for rho_clip, c_clip in ((1.0, 1.0), (1.1, 0.8), (float("inf"), 0.0)):
        check_vtrace(w, (lam, rho_clip, c_clip), gamma)


def check_vtrace(w: Window, clips: tuple[float, float, float], gamma: float) -> None:
    log_ratio = w.reward[1:].flip(0)  # any numbers
    ratio, lam = log_ratio.exp(), clips[0]

    def target(e: Episode, t: int, b: int) -> float:
        if t == len(e.rewards):
            return e.values[t]
        ratios = ratio[e.start : e.start + len(e.rewards), b].tolist()
        return slow_vtrace(e, t, ratios, clips, gamma)

    def advantage(e: Episode, t: int, b: int) -> float:
        after = lam * target(e, t + 1, b) + (1 - lam) * e.values[t + 1]
        return e.rewards[t] + gamma * after - e.values[t]

    targets, advantages = vtrace(log_ratio, *w, *clips)
    close = torch.testing.assert_close
    close(targets, per_episode(w, target))
    close(advantages, per_episode(w, advantage))


def test_every_ending_on_every_row_equals_the_sum_over_its_episode():
    check_all(every_ending(4), lam=0.7, n=2, gamma=GAMMA)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(2, 12),
    columns=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    lam=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    n=st.integers(1, 14),
    gamma=st.sampled_from([0.5, 0.99, 1.0]),
)
def test_all_shapes_equal_the_sum_over_their_episodes(rows, columns, seed, lam, n, gamma):
    check_all(random_window(rows, columns, seed, gamma), lam, n, gamma)


def calls(w: Window) -> list[Tensor]:
    """Everything that can be computed of a window."""
    log_ratio = w.reward[1:] * 0
    return [
        gae(*w, 0.95),
        discounted_returns(*w),
        n_step_returns(*w, 3),
        lambda_returns(*w, 0.95),
        *vtrace(log_ratio, *w),
    ]


def poisoned(w: Window) -> Window:
    """NaN wherever nothing may be read: rewards that arrive at first rows, values of terminal rows
    and of rows that end nothing but the row before was an end too."""
    first = torch.cat((torch.ones_like(w.last[:1]), w.last[:-1]))
    terminal = w.last & (w.discount == 0)
    dead = w.last & first  # reached by no transition
    reward = w.reward.where(~first, NAN)
    return w._replace(reward=reward, value=w.value.where(~(terminal | dead), NAN))


def test_nan_where_nothing_is_read_reaches_no_row():
    w = every_ending(5)
    for clean, dirty in zip(calls(w), calls(poisoned(w)), strict=True):
        assert torch.equal(clean, dirty)


def test_control_masks_by_multiplication_let_nan_through():
    w = poisoned(every_ending(5))
    live = (~w.last[:-1]).double()
    delta = live * (w.reward[1:] + w.discount[1:] * w.value[1:] - w.value[:-1])
    assert delta.isnan().any()
    assert not gae(*w, 0.95).isnan().any()


def test_nan_in_one_episode_stays_there():
    w = random_window(12, 8, seed=3)
    last = w.last.clone()
    last[6] = True
    w = w._replace(last=last)
    reward = w.reward.clone()
    reward[9] = NAN
    for clean, dirty in zip(calls(w), calls(w._replace(reward=reward)), strict=True):
        assert torch.equal(clean[:7], dirty[:7])
        assert dirty[7:].isnan().any()


def test_log_ratios_on_rows_without_a_transition_are_not_read():
    w = random_window(12, 8, seed=4)
    log_ratio = torch.zeros_like(w.value[:-1])
    dirty = log_ratio.where(~w.last[:-1], NAN)
    for a, b in zip(vtrace(log_ratio, *w), vtrace(dirty, *w), strict=True):
        assert torch.equal(a, b)


def test_lambda_one_is_monte_carlo():
    w = varied(random_window(20, 8, seed=5))
    live = ~w.last[:-1]
    torch.testing.assert_close(lambda_returns(*w, 1.0), discounted_returns(*w))
    advantage = (discounted_returns(*w) - w.value[:-1]).where(live, 0.0)
    torch.testing.assert_close(gae(*w, 1.0), advantage)


def test_lambda_zero_is_the_td_error():
    w = random_window(20, 8, seed=6)
    one_step = w.reward[1:] + w.discount[1:] * w.value[1:]
    live = ~w.last[:-1]
    torch.testing.assert_close(lambda_returns(*w, 0.0), one_step.where(live, 0.0))
    torch.testing.assert_close(gae(*w, 0.0), (one_step - w.value[:-1]).where(live, 0.0))
    torch.testing.assert_close(n_step_returns(*w, 1), one_step.where(live, 0.0))


@pytest.mark.parametrize("n", [19, 20, 100])
def test_as_many_steps_as_rows_are_monte_carlo(n):
    w = varied(random_window(20, 8, seed=7))
    torch.testing.assert_close(n_step_returns(*w, n), discounted_returns(*w))


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_vtrace_on_policy_is_the_lambda_return_and_its_advantages_are_gae(lam):
    w = varied(random_window(20, 8, seed=8))
    target, advantage = vtrace(torch.zeros_like(w.value[:-1]), *w, lam)
    torch.testing.assert_close(target, lambda_returns(*w, lam))
    torch.testing.assert_close(advantage, gae(*w, lam))


def test_vtrace_on_policy_is_the_n_step_return():
    """With the paper's λ = 1: to the window's or the episode's end (its remark 1)."""
    w = varied(random_window(20, 8, seed=8))
    target, _ = vtrace(torch.zeros_like(w.value[:-1]), *w)
    torch.testing.assert_close(target, n_step_returns(*w, 20))


def test_an_action_that_is_never_taken_any_more_cuts_vtrace_off():
    """Ratio 0 at a row: what came after it is no target of the rows before, nor is its error."""
    w = random_window(12, 8, seed=10)
    log_ratio = torch.zeros_like(w.value[:-1])
    log_ratio[5] = -torch.inf
    target, _ = vtrace(log_ratio, *w)
    live = ~w.last[5]
    assert live.any()
    assert torch.equal(target[5][live], w.value[5][live])
    later = w.reward.clone()
    later[6:] += 100
    changed, _ = vtrace(log_ratio, *w._replace(reward=later))
    assert torch.equal(target[:5], changed[:5]) and not torch.equal(target, changed)


def test_ratios_are_truncated():
    w = random_window(12, 8, seed=11)
    log_ratio = torch.randn(w.value[:-1].shape, generator=torch.Generator().manual_seed(0)).double()
    for x, y in zip(
        vtrace(log_ratio, *w, 0.9), vtrace(log_ratio.clamp(max=0), *w, 0.9), strict=True
    ):
        torch.testing.assert_close(x, y)
    one, two = vtrace(log_ratio, *w, 0.9, 2.0, 2.0), vtrace(log_ratio, *w, 0.9)
    assert not torch.allclose(one[0], two[0])


def test_gae_is_the_lambda_return_less_the_value():
    w = varied(random_window(20, 8, seed=9))
    baseline = w.value[:-1].where(~w.last[:-1], 0.0)
    torch.testing.assert_close(gae(*w, 0.8) + baseline, lambda_returns(*w, 0.8))


def test_a_truncated_episode_bootstraps_and_does_not_see_the_next_ones_reward():
    flag = torch.tensor([[False], [True], [False], [False]])
    w = Window(
        reward=torch.tensor([[0.0], [1.0], [0.0], [100.0]]),
        discount=torch.full((4, 1), 0.5),
        last=flag,
        value=torch.tensor([[2.0], [8.0], [3.0], [4.0]]),
    )
    assert gae(*w, 1.0)[:, 0].tolist() == [1 + 0.5 * 8 - 2, 0.0, 100 + 0.5 * 4 - 3]


def test_a_terminated_episode_does_not_bootstrap():
    terminated = torch.tensor([[False], [True], [False], [False]])
    w = Window(
        reward=torch.tensor([[0.0], [1.0], [0.0], [100.0]]),
        discount=0.5 * ~terminated,
        last=terminated,
        value=torch.tensor([[2.0], [8.0], [3.0], [4.0]]),
    )
    assert gae(*w, 1.0)[:, 0].tolist() == [1.0 - 2.0, 0.0, 100 + 0.5 * 4 - 3]


def test_a_discount_of_zero_still_subtracts_the_value():
    w = random_window(6, 3, seed=1, gamma=0.0)
    live = ~w.last[:-1]
    torch.testing.assert_close(gae(*w, 0.9), (w.reward[1:] - w.value[:-1]).where(live, 0.0))


def test_windows_join_without_a_seam():
    """With λ = 0 nothing changes where one window ends and the next begins at its boundary row."""
    w = random_window(21, 4, seed=2)
    whole = gae(*w, 0.0)
    halves = [gae(*Window(*(x[part] for x in w)), 0.0) for part in (slice(0, 11), slice(10, 21))]
    assert torch.equal(whole, torch.cat(halves))
