"""Laws that hold of every description of returns."""

from typing import Any

import pytest
import torch
from torch import Tensor

from rlpyt import returns
from rlpyt.algos.options import DQNOptions
from rlpyt.functional import value_rescale, value_unrescale
from rlpyt.returns import CategoricalReturn, Expected, ImplicitQuantile, QuantileReturn, Returns
from rlpyt.returns.returns import bootstrapped

NAN = float("nan")
ATOMS = 7
FRACTIONS = torch.tensor([0.1, 0.5, 0.6, 0.95])

EVERY: dict[str, Any] = {
    "huber": Expected("huber", 1.0),
    "squared": Expected("squared", 1.0),
    "rescaled": Expected("squared", 1.0, 1e-3),
    "categorical": CategoricalReturn(ATOMS, -3.0, 3.0),
    "quantile": QuantileReturn(4, 1.0),
    "quantile-rescaled": QuantileReturn(4, 0.0, 1e-2),
    "implicit": ImplicitQuantile(4, 3, 1.0),
    "implicit-rescaled": ImplicitQuantile(4, 3, 1.0, 1e-2),
}
every = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY.keys())


def numbers(kind: Returns) -> int:
    """N of a forward pass that learns."""
    return kind.outputs * (kind.fractions_learn or 1)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_options_make_what_they_name() -> None:
    made = returns.make(DQNOptions(loss="squared", huber_delta=2.0, value_rescale=0.1))
    assert isinstance(made, Expected)
    assert (made.squared, made.delta, made.eps) == (True, 2.0, 0.1)
    made = returns.make(DQNOptions(values="categorical", num_atoms=5, v_min=-1.0, v_max=2.0))
    assert isinstance(made, CategoricalReturn)
    assert (made.outputs, made.v_min, made.v_max) == (5, -1.0, 2.0)
    options = DQNOptions(
        values="quantile", num_quantiles=9, huber_delta=0.5, num_fractions=6, greedy_fractions=4
    )
    made = returns.make(options)
    assert isinstance(made, QuantileReturn)
    assert (made.outputs, made.fractions_learn, made.kappa, made.eps) == (9, 0, 0.5, 0.0)
    made = returns.make(DQNOptions(**{**vars(options), "values": "implicit"}))
    assert isinstance(made, ImplicitQuantile)
    assert (made.outputs, made.fractions_learn, made.greedy, made.kappa) == (1, 6, 4, 0.5)


@every
@pytest.mark.parametrize("leading", [(), (5,), (3, 5)])
def test_any_leading_dimensions_give_the_same_numbers(
    kind: Returns, leading: tuple[int, ...]
) -> None:
    n, rows = numbers(kind), 15
    z, following = randn(rows, 2, n), randn(rows, n, seed=1)
    reward, discount = randn(rows, seed=2), 0.9 * (randn(rows, seed=3) > 0)
    value, target = kind.value(z), kind.target(following, reward, discount)
    loss, error = kind.loss(z[:, 0], target, FRACTIONS)
    assert (value.shape, target.shape) == ((rows, 2), (rows, n))
    assert loss.shape == error.shape == (rows,)

    def some(x: Tensor) -> Tensor:
        full = x.view(3, 5, *x.shape[1:])
        return full if len(leading) == 2 else full[0] if leading else full[0, 0]

    close = torch.testing.assert_close
    close(kind.value(some(z)), some(value))
    found = kind.target(some(following), some(reward), some(discount))
    close(found, some(target))
    for got, want in zip(kind.loss(some(z[:, 0]), found, FRACTIONS), (loss, error), strict=True):
        close(got, some(want))


@every
def test_a_terminal_row_is_not_read(kind: Returns) -> None:
    reward, discount = torch.tensor([1.0, -2.0]), torch.tensor([0.0, 0.0])
    target = kind.target(torch.full((2, numbers(kind)), NAN), reward, discount)
    assert torch.equal(target, kind.target(randn(2, numbers(kind)), reward, discount))
    assert target.isfinite().all()


@every
def test_the_error_is_not_negative_and_neither_it_nor_the_target_has_a_gradient(
    kind: Returns,
) -> None:
    z = randn(6, numbers(kind)).requires_grad_()
    target = kind.target(randn(6, numbers(kind), seed=1), randn(6), torch.full((6,), 0.9))
    loss, error = kind.loss(z, target, FRACTIONS)
    assert (error >= 0).all() and not error.requires_grad
    assert loss.requires_grad
    loss.sum().backward()
    assert z.grad is not None and z.grad.isfinite().all() and (z.grad != 0).any()


@every
def test_a_value_with_little_error_has_little_loss(kind: Returns) -> None:
    """Descending the loss brings the value to that of the target."""
    if isinstance(kind, CategoricalReturn):
        goal = 1.5
    else:
        goal = float(value_rescale(torch.tensor(1.5), kind.eps)) if kind.eps else 1.5
    z = randn(1, numbers(kind)).requires_grad_()
    target = kind.target(z.detach(), torch.tensor([1.5]), torch.tensor([0.0]))
    for step in range(600):
        loss, _ = kind.loss(z, target, FRACTIONS)
        (gradient,) = torch.autograd.grad(loss.sum(), z)
        z.data -= (2.0 if isinstance(kind, CategoricalReturn) else 0.1 * 0.992**step) * gradient
    assert float(kind.value(z.detach())) == pytest.approx(goal, abs=0.02)


@every
def test_compiled_without_a_break_it_gives_the_same(kind: Returns) -> None:
    z, following = randn(6, 2, numbers(kind)), randn(6, numbers(kind), seed=1)
    reward, discount = randn(6, seed=2), 0.9 * (randn(6, seed=3) > 0)

    def everything() -> tuple[Tensor, ...]:
        target = kind.target(following, reward, discount)
        return kind.value(z), target, *kind.loss(z[:, 1], target, FRACTIONS)

    torch.compiler.reset()  # other kinds' traces count towards a limit
    compiled = torch.compile(everything, backend="eager", fullgraph=True)
    for got, want in zip(compiled(), everything(), strict=True):
        torch.testing.assert_close(got, want)


def test_the_bootstrap_is_of_rescaled_values() -> None:
    z, reward, discount = randn(5, 3), randn(5, seed=1), torch.tensor([0.0, 0.5, 0.9, 1.0, 0.99])
    plain = bootstrapped(z, reward, discount, 0.0)
    torch.testing.assert_close(plain, reward[:, None] + discount[:, None] * z)
    rescaled = bootstrapped(value_rescale(z, 1e-2), reward, discount, 1e-2)
    torch.testing.assert_close(value_unrescale(rescaled, 1e-2), plain)


def test_only_implicit_quantiles_have_fractions_and_acting_draws_none() -> None:
    for name, kind in EVERY.items():
        greedy = kind.greedy_fractions()
        if not name.startswith("implicit"):
            assert greedy is None and kind.fractions_learn == 0
            continue
        assert kind.fractions_learn == 4
        torch.testing.assert_close(greedy, torch.tensor([1 / 6, 3 / 6, 5 / 6]))
        with pytest.raises(ValueError, match="fractions"):
            kind.loss(randn(2, 4), randn(2, 4), None)
