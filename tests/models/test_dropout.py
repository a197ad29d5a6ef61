"""Dropout in stacked critics: whom it drops, what it leaves, and when."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from rlpyt.models.ensemble import Ensemble
from rlpyt.models.options import ActorQOptions

WIDTHS, P = (5, 8, 8, 2), 0.25


def net(count: int = 3, p: float = P, **given: Any) -> Ensemble:
    torch.manual_seed(0)
    return Ensemble(count, WIDTHS, ActorQOptions(critic_dropout=p, **given))


def masks(ensemble: Ensemble, *rows: int, seed: int = 0) -> Any:
    return ensemble.masks(ensemble.count, rows, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("normed", [False, True])
def test_units_are_dropped_between_the_linear_part_and_its_normalization(normed: bool) -> None:
    """As published: linear, dropout, layer normalization, activation; of each critic by itself."""
    ours = net(critic_layer_norm=normed).double()
    for norm in ours.norms or []:
        nn.init.normal_(norm.weight)
    x = torch.randn(6, WIDTHS[0], dtype=torch.float64)
    kept = masks(ours, 6)
    z = ours(x, masks=kept)
    wanted = []
    for c in range(ours.count):
        h = x
        for k, layer in enumerate(ours.layers):
            h = h @ layer.weight[c].T + layer.bias[c]
            if k < len(ours.layers) - 1:
                h = torch.where(kept[k][c], h / (1 - P), 0.0)
                if normed:
                    norm = ours.norms[k]
                    h = nn.functional.layer_norm(
                        h, h.shape[-1:], norm.weight[c, 0], norm.bias[c, 0]
                    )
                h = h.relu()
        wanted.append(h)
    torch.testing.assert_close(z, torch.stack(wanted))
    slopes = [
        torch.autograd.grad(out.sum(), ours.layers[0].weight)[0] for out in (z, torch.stack(wanted))
    ]
    torch.testing.assert_close(*slopes)
    assert not torch.allclose(ours(x), z)


def test_masks_are_of_the_critics_that_are_chosen_in_their_order() -> None:
    ours = net(4)
    x, kept = torch.randn(6, WIDTHS[0]), masks(ours, 6)
    whole = ours(x, masks=kept)
    first = tuple(mask[:2] for mask in kept)
    torch.testing.assert_close(ours(x, False, 2, masks=first), whole[:2])
    subset = torch.tensor([3, 1])
    own = tuple(mask[subset] for mask in kept)
    torch.testing.assert_close(ours(x, False, subset, masks=own), whole[subset])


@pytest.mark.parametrize("p", [0.01, 0.25, 0.9])
def test_units_are_dropped_as_often_as_asked_each_by_itself(p: float) -> None:
    found = masks(net(2, p), 400, 50)
    assert [mask.shape for mask in found] == [(2, 400, 50, 8)] * 2
    for mask in found:
        dropped = (~mask).double()
        share = (p * (1 - p) / dropped.numel()) ** 0.5
        assert abs(float(dropped.mean()) - p) < 5 * share
        # Neighbours, which come from the same 64 random bits, know nothing of each other.
        for shift in (1, 2, 3):
            both = (dropped[..., shift:] * dropped[..., :-shift]).mean()
            assert abs(float(both) - p**2) < 6 * (p**2 / dropped.numel()) ** 0.5 + 1e-4
        assert not torch.equal(mask[0], mask[1])


def test_what_is_dropped_comes_from_the_generator_alone() -> None:
    ours, state = net(), torch.get_rng_state()
    one, two, other = masks(ours, 50), masks(ours, 50), masks(ours, 50, seed=1)
    assert all(map(torch.equal, one, two)) and not any(map(torch.equal, one, other))
    assert torch.equal(state, torch.get_rng_state())


def test_without_dropout_nothing_is_drawn() -> None:
    assert masks(net(p=0.0), 6) is None
    assert net(p=1e-9).dropped == 1  # rare, but not never
