"""What each description says of values and losses, against the papers."""

import pytest
import torch
from torch import Tensor

from rlpyt.functional import quantile_huber
from rlpyt.returns import CategoricalReturn, Expected, ImplicitQuantile, QuantileReturn


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_expected_values_are_the_outputs_and_their_error_is_the_td_error() -> None:
    z, target = 3 * randn(8, 1), randn(8, 1, seed=1)
    error = (target - z).squeeze(-1)
    for delta in (0.5, 2.0):
        loss, size = Expected("huber", delta).loss(z, target, None)
        torch.testing.assert_close(
            loss,
            torch.nn.functional.huber_loss(z, target, reduction="none", delta=delta).squeeze(-1),
        )
        assert torch.equal(size, error.abs())
    loss, size = Expected("squared", 1.0).loss(z, target, None)
    torch.testing.assert_close(loss, 0.5 * error**2)
    assert torch.equal(size, error.abs())
    assert torch.equal(Expected("squared", 1.0).value(randn(4, 3, 1)), randn(4, 3, 1)[..., 0])


def test_an_infinite_delta_is_half_the_square() -> None:
    z, target = 30 * randn(8, 1), randn(8, 1, seed=1)
    infinite, _ = Expected("huber", float("inf")).loss(z, target, None)
    torch.testing.assert_close(infinite, Expected("squared", 1.0).loss(z, target, None)[0])


def test_a_categorical_value_is_the_mean_over_its_atoms() -> None:
    kind = CategoricalReturn(5, -2.0, 2.0)
    z = randn(3, 4, 5)
    p = z.double().exp() / z.double().exp().sum(-1, keepdim=True)
    expected = sum(p[..., i] * v for i, v in enumerate([-2.0, -1.0, 0.0, 1.0, 2.0]))
    torch.testing.assert_close(kind.value(z).double(), expected, rtol=1e-6, atol=1e-6)


def test_a_categorical_target_is_a_distribution_and_the_loss_its_cross_entropy() -> None:
    kind = CategoricalReturn(5, -2.0, 2.0)
    z, reward = randn(6, 5), randn(6, seed=1)
    target = kind.target(randn(6, 5, seed=2), reward, torch.tensor([0.0, 0.9] * 3))
    torch.testing.assert_close(target.sum(-1), torch.ones(6))
    loss, error = kind.loss(z, target, None)
    expected = -(target * (z - z.exp().sum(-1, keepdim=True).log())).sum(-1)
    torch.testing.assert_close(loss, expected)
    assert torch.equal(error, loss)
    least, _ = kind.loss((target + 1e-30).log(), target, None)  # z says what the target says
    assert (loss >= least).all()


def test_a_categorical_terminal_target_is_the_reward_s_atom() -> None:
    kind = CategoricalReturn(51, -10.0, 10.0)
    reward = torch.linspace(-10, 10, 51)
    target = kind.target(randn(51, 51), reward, torch.zeros(51))
    torch.testing.assert_close(target, torch.eye(51))
    beyond = kind.target(randn(2, 51), torch.tensor([-50.0, 50.0]), torch.zeros(2))
    assert beyond.argmax(-1).tolist() == [0, 50]
    torch.testing.assert_close(beyond.amax(-1), torch.ones(2))


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_quantiles_stand_at_the_middles_of_equal_parts(kappa: float) -> None:
    kind = QuantileReturn(4, kappa)
    z, target = randn(3, 4), randn(3, 4, seed=1)
    loss, error = kind.loss(z, target, None)
    middles = torch.tensor([1 / 8, 3 / 8, 5 / 8, 7 / 8])
    torch.testing.assert_close(loss, quantile_huber(z, target, middles, kappa))
    assert torch.equal(error, loss)
    torch.testing.assert_close(kind.value(z), z.mean(-1))


def test_implicit_quantiles_are_learned_at_each_row_s_fractions() -> None:
    kind = ImplicitQuantile(4, 2, 1.0)
    z, target = randn(3, 4), randn(3, 6, seed=1)
    fractions = torch.rand(3, 4, generator=torch.Generator().manual_seed(2))
    loss, _ = kind.loss(z, target, fractions)
    each = [quantile_huber(z[i], target[i], fractions[i], 1.0) for i in range(3)]
    torch.testing.assert_close(loss, torch.stack(each))


def test_quantiles_learn_the_quantiles_of_a_random_return() -> None:
    """Returns are uniform on 0 .. 1: quantiles become their own fractions."""
    generator = torch.Generator().manual_seed(0)
    kind, z = QuantileReturn(5, 0.0), torch.zeros(1, 5, requires_grad=True)
    for step in range(800):
        target = torch.rand(1, 32, generator=generator)
        loss, _ = kind.loss(z, target, None)
        (gradient,) = torch.autograd.grad(loss.sum(), z)
        z.data -= 0.2 * 0.995**step * gradient
    torch.testing.assert_close(
        z.detach()[0], torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9]), rtol=0, atol=0.03
    )
