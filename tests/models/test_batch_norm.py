"""Batch renormalization: of which rows, by which statistics, corrected when and how far."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from rlpyt.models.batch_norm import D_MAX, EPSILON, MOMENTUM, R_MAX, BatchNorm, Statistics

C, N, WIDTH = 3, 20, 4


def net(warm_up: int = 100) -> BatchNorm:
    torch.manual_seed(0)
    norm = BatchNorm(C, WIDTH, warm_up)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    return norm.double()


def rows(seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(C, N, WIDTH, dtype=torch.float64, generator=generator) + 1


def all_of(count: int = N) -> torch.Tensor:
    return torch.ones(count, dtype=torch.bool)


def test_in_the_warm_up_it_is_batch_normalization_of_each_critic() -> None:
    norm, x = net(), rows().requires_grad_()
    y = norm(x, False, None, all_of())
    parts = [
        F.batch_norm(x[c], None, None, norm.weight[c, 0], norm.bias[c, 0], True, eps=EPSILON)
        for c in range(C)
    ]
    torch.testing.assert_close(y, torch.stack(parts))
    weight = torch.randn_like(y)
    slopes = [
        torch.autograd.grad((out * weight).sum(), x, retain_graph=True)[0]
        for out in (y, torch.stack(parts))
    ]
    torch.testing.assert_close(*slopes)


def test_after_it_rows_are_corrected_to_the_running_statistics_within_bounds() -> None:
    """Ioffe (2017), algorithm 1; no gradient passes through r and d."""
    norm, x = net(warm_up=0), rows().requires_grad_()
    with torch.no_grad():
        norm.running[0, :, :, 0] = -100.0  # d is clipped
        norm.running[1, :, :, 1] = 1e-4  # r is clipped from above
        norm.running[1, :, :, 2] = 1e4  # and from below
    y = norm(x, False, None, all_of())
    mean, variance = (v.numpy() for v in norm.running)
    given = x.detach().numpy()
    mu, sigma = given.mean(1, keepdims=True), np.sqrt(given.var(1, keepdims=True) + EPSILON)
    r = np.clip(sigma / np.sqrt(variance + EPSILON), 1 / R_MAX, R_MAX)
    d = np.clip((mu - mean) / np.sqrt(variance + EPSILON), -D_MAX, D_MAX)
    assert (d[..., 0] == D_MAX).all() and (r[..., 1] == R_MAX).all()
    assert (r[..., 2] == 1 / R_MAX).all() and (np.abs(d[..., 3]) < D_MAX).all()
    weight, bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    np.testing.assert_allclose(y.detach().numpy(), weight * ((given - mu) / sigma * r + d) + bias)
    (slope,) = torch.autograd.grad(y[:, 0].sum(), x)
    plain = net()
    (unscaled,) = torch.autograd.grad(plain(x, False, None, all_of())[:, 0].sum(), x)
    torch.testing.assert_close(slope, unscaled * torch.from_numpy(r))


def test_statistics_follow_updates_and_normalize_all_that_is_not_learned_from() -> None:
    norm, x = net(), rows()
    statistics, before = Statistics(norm), norm.running.clone()
    norm(x, False, None, all_of())
    assert torch.equal(norm.running, before) and int(norm.updates) == 0  # no update was made yet
    statistics.follow()
    found = torch.stack([x.mean(1, keepdim=True), x.var(1, keepdim=True, correction=0)])
    torch.testing.assert_close(norm.running, MOMENTUM * before + (1 - MOMENTUM) * found)
    assert int(norm.updates) == 1
    mean, variance = norm.running
    wanted = norm.weight * (x - mean) / (variance + EPSILON).sqrt() + norm.bias
    torch.testing.assert_close(norm(x, False, None, None), wanted)
    subset = torch.tensor([2, 0])
    torch.testing.assert_close(norm(x[subset], True, subset, None), wanted[subset])
    torch.testing.assert_close(norm(x[:2], True, 2, None), wanted[:2])


def test_once_batches_are_like_the_running_statistics_learning_and_acting_agree() -> None:
    """What renormalization is for; plain batch normalization of few rows does not agree."""
    apart = {}
    for warm_up in (0, 10**6):
        norm = net(warm_up)
        for seed in range(600):
            norm(rows(seed), False, None, all_of())
            Statistics(norm).follow()
        x = rows(1000)
        found = norm(x, False, None, all_of()) - norm(x, False, None, None)
        apart[warm_up] = found.detach().abs().max().item()
    assert apart[0] < 1e-6 < 0.05 < apart[10**6]


@pytest.mark.parametrize("warm_up", [0, 100])
def test_rows_that_do_not_count_take_no_part_whatever_they_hold(warm_up: int) -> None:
    counted = torch.arange(N) % 3 != 0
    x = rows()
    alone = net(warm_up)
    wanted = alone(x[:, counted], False, None, all_of(int(counted.sum())))
    for value in (7.0, float("nan")):
        norm, given = net(warm_up), x.clone()
        given[:, ~counted] = value
        given.requires_grad_()
        y = norm(given, False, None, counted)
        torch.testing.assert_close(y[:, counted], wanted)
        torch.testing.assert_close(norm.newest, alone.newest)
        silenced = torch.where(counted[:, None], y, 0.0).square().sum()
        assert all(
            g.isfinite().all() for g in torch.autograd.grad(silenced, [given, *norm.parameters()])
        )


def test_of_no_row_nothing_is_learned() -> None:
    norm = net()
    before = norm.running.clone()
    norm(rows(), False, None, ~all_of())
    Statistics(norm).follow()
    assert torch.equal(norm.running, before)


def test_rows_of_any_leading_dimensions_are_one_batch() -> None:
    torch.manual_seed(0)
    norm, x = BatchNorm(1, WIDTH, 0), torch.randn(5, 4, WIDTH)
    live = torch.rand(5, 4) < 0.7
    y = norm.rows(x, live)
    torch.testing.assert_close(
        y.view(1, 20, WIDTH), norm(x.view(1, 20, WIDTH), False, None, live.view(20))
    )
    assert norm.rows(x, None).shape == x.shape


def test_running_statistics_are_saved_and_the_newest_batchs_are_not() -> None:
    assert set(net().state_dict()) == {"weight", "bias", "running", "updates"}
