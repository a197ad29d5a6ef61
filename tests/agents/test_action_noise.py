"""Exploration noise: how much of it there is, and of what a process is made."""

import numpy as np
import pytest
import torch

from rlpyt.agents.action_noise import GaussianNoise, OrnsteinUhlenbeck, exploration_noise
from rlpyt.algos.options import DDPGOptions
from rlpyt.noise import ACTION_NOISE, Noise

COLUMNS, DIMENSIONS, ROWS = 4, 3, 20_000


def drawn(rows: int = ROWS) -> torch.Tensor:
    noise = Noise(3, ACTION_NOISE, range(COLUMNS), 0, DIMENSIONS)
    return torch.from_numpy(noise.rows(0, rows).copy())


def test_gaussian_noise_has_the_deviation_asked_for_in_each_environment_and_dimension():
    """B182: independent over environments, dimensions and rows; the set fraction of the range."""
    kind = exploration_noise(DDPGOptions(exploration_std=0.1))
    assert isinstance(kind, GaussianNoise) and not kind.remembers
    rows = [kind.add(torch.zeros(COLUMNS, DIMENSIONS), kind.std * n, (), None)[0] for n in drawn()]
    x = torch.stack(rows).flatten(1)  # [ROWS, COLUMNS * DIMENSIONS]
    assert x.std(0).tolist() == pytest.approx([0.1] * 12, rel=0.05)
    correlation = np.corrcoef(torch.cat([x[1:], x[:-1]], 1).T.numpy())
    assert np.abs(correlation - np.eye(24)).max() < 0.04


def test_actions_are_clipped_to_their_bounds():
    action = torch.tensor([[0.95, -0.95, 0.0]])
    noise = torch.tensor([[0.1, -0.1, 0.1]])
    found, _ = GaussianNoise(DDPGOptions()).add(action, noise, (), None)
    assert found.tolist() == [[1.0, -1.0, pytest.approx(0.1)]]
    assert action.tolist() == [[pytest.approx(0.95), pytest.approx(-0.95), 0.0]]
    process = torch.tensor([[0.5, -3.0, 0.0]])
    kind = OrnsteinUhlenbeck(DDPGOptions(ou_theta=0.5))
    found, after = kind.add(action, noise, process, torch.tensor([False]))
    assert found.tolist() == [[1.0, -1.0, pytest.approx(0.1)]]
    assert after.tolist()[0] == pytest.approx([0.35, -1.6, 0.1])  # the process itself is not


def test_an_ornstein_uhlenbeck_process_is_its_recursion_in_float64():
    kind = exploration_noise(DDPGOptions(exploration="ou", exploration_std=0.2, ou_theta=0.15))
    assert isinstance(kind, OrnsteinUhlenbeck) and kind.remembers
    normals, never = drawn(500), torch.zeros(COLUMNS, dtype=torch.bool)
    process, x = torch.zeros(COLUMNS, DIMENSIONS), np.zeros((COLUMNS, DIMENSIONS))
    for n in normals:
        action, process = kind.add(torch.zeros(COLUMNS, DIMENSIONS), kind.std * n, process, never)
        x = 0.85 * x + 0.2 * n.numpy().astype(np.float64)
        np.testing.assert_allclose(process.numpy(), x, atol=1e-6)
        np.testing.assert_allclose(action.numpy(), x.clip(-1, 1), atol=1e-6)


def test_the_process_settles_at_the_deviation_that_is_documented():
    kind = OrnsteinUhlenbeck(DDPGOptions(exploration_std=0.1, ou_theta=0.15))
    never, process = torch.zeros(COLUMNS, dtype=torch.bool), torch.zeros(COLUMNS, DIMENSIONS)
    rows = []
    for n in drawn():
        _, process = kind.add(process, kind.std * n, process, never)
        rows.append(process)
    x = torch.stack(rows[100:]).flatten(1)
    expected = 0.1 / np.sqrt(1 - 0.85**2)
    assert x.std(0).tolist() == pytest.approx([expected] * 12, rel=0.1)
    lag = (x[1:] * x[:-1]).mean(0) / x.square().mean(0)
    assert lag.tolist() == pytest.approx([0.85] * 12, abs=0.03)


def test_the_process_begins_at_zero_in_each_episode_and_goes_on_elsewhere():
    kind = OrnsteinUhlenbeck(DDPGOptions(exploration="ou"))
    process = torch.randn(2, 3)
    noise = torch.randn(2, 3)
    _, after = kind.add(torch.zeros(2, 3), noise, process, torch.tensor([True, False]))
    assert torch.equal(after[0], noise[0])
    torch.testing.assert_close(after[1], noise[1] + 0.85 * process[1])
