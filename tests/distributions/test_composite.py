"""Actions of several parts, and the distribution that a space asks for."""

import numpy as np
import pytest
import torch

from rlpyt.distributions import (
    Bernoulli,
    Categorical,
    Composite,
    Gaussian,
    MultiCategorical,
    for_action,
)
from rlpyt.envs import spec as specs
from rlpyt.errors import UsageError

BOX = specs.Box((2,), "float32", -np.ones(2), np.ones(2))
INNER = specs.Composite(
    ("bits", "force"), ("bits", "force"), (specs.MultiBinary((2, 2)), BOX), "dict"
)
OUTER = specs.Composite(
    ("which", "inner", "dials"),
    (0, 1, 2),
    (specs.Discrete(3, 5), INNER, specs.MultiDiscrete((2, 4), (0, 0))),
    "tuple",
)
LEAVES = [Categorical(3), Bernoulli((2, 2)), Gaussian((2,)), MultiCategorical((2, 4))]


def flat(action) -> list[torch.Tensor]:
    return [action.which, action.inner.bits, action.inner.force, action.dials]


def parameters(seed: int, distribution, leading=(6,)):
    generator = torch.Generator().manual_seed(seed)
    output = torch.randn((*leading, distribution.size), generator=generator)
    return distribution.parameters(output, torch.full((distribution.scales,), 0.5))


def flat_parameters(p) -> list:
    which, (bits, force), dials = p
    return [which, bits, force, dials]


def test_sizes_are_sums():
    ours = for_action(OUTER)
    assert (ours.size, ours.scales, ours.mask_size) == (3 + 4 + 2 + 6, 2, 3 + 4 + 6)
    assert (ours.uniforms, ours.normals) == (1 + 4 + 2, 2)


def test_noise_is_all_uniform_numbers_and_then_all_normal_numbers():
    ours, p = for_action(OUTER), parameters(0, for_action(OUTER))
    generator = torch.Generator().manual_seed(1)
    u, z = torch.rand(6, 7, generator=generator), torch.randn(6, 2, generator=generator)
    action = ours.sample(p, torch.cat((u, z), -1))
    shares = [u[:, :1], u[:, 1:5], z, u[:, 5:]]
    for part, q, share, a in zip(LEAVES, flat_parameters(p), shares, flat(action), strict=True):
        assert torch.equal(part.sample(q, share), a)


def test_without_noise_each_part_is_its_most_likely():
    ours, p = for_action(OUTER), parameters(0, for_action(OUTER))
    action = ours.sample(p, None)
    for part, q, a in zip(LEAVES, flat_parameters(p), flat(action), strict=True):
        assert torch.equal(part.sample(q, None), a)


def test_log_prob_entropy_and_divergence_are_sums_over_the_parts():
    ours = for_action(OUTER)
    p, q = parameters(0, ours), parameters(1, ours)
    action = ours.sample(p, torch.rand(6, 9))
    parts = zip(LEAVES, flat_parameters(p), flat_parameters(q), flat(action), strict=True)
    expected = torch.zeros(3, 6)
    for part, a, b, x in parts:
        expected += torch.stack((*part.log_prob_entropy(a, x), part.kl(a, b)))
    found = torch.stack((*ours.log_prob_entropy(p, action), ours.kl(p, q)))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.log_prob(p, action), found[0])


def test_masks_lie_side_by_side_and_skip_what_cannot_be_masked():
    ours = for_action(OUTER)
    mask = torch.tensor([0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1], dtype=torch.bool)
    p = ours.mask(parameters(0, ours), mask.expand(6, 13))
    for noise in (torch.zeros(6, 9), torch.full((6, 9), 1 - 2**-24)):
        action = ours.sample(p, noise)
        assert action.which.tolist() == [2] * 6
        assert not action.inner.bits[:, 0, 0].any()
        assert action.dials.tolist() == [[0, 3]] * 6


def test_actions_have_the_form_in_which_rows_store_them():
    ours = for_action(OUTER)
    action, stored = ours.sample(parameters(0, ours), torch.rand(6, 9)), specs.example(OUTER)
    assert type(action)._fields == type(stored)._fields
    for a, s in zip(flat(action), flat(stored), strict=True):
        assert a.shape == (6, *s.shape)
        assert a.numpy().dtype == s.dtype


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (specs.Discrete(4, 0), Categorical),
        (specs.MultiDiscrete((2, 3), (0, 0)), MultiCategorical),
        (specs.MultiBinary((3,)), Bernoulli),
        (BOX, Gaussian),
        (INNER, Composite),
    ],
)
def test_each_space_has_its_distribution(spec, kind):
    ours = for_action(spec)
    assert isinstance(ours, kind)
    action = ours.sample(parameters(0, ours, (5, 3)), None)
    log_prob, entropy = ours.log_prob_entropy(parameters(0, ours, (5, 3)), action)
    assert log_prob.shape == entropy.shape == (5, 3)


def test_a_space_without_parts_is_refused():
    with pytest.raises(UsageError, match="non-empty"):
        for_action(specs.Composite((), (), (), "dict"))
