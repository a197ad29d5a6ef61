"""Flat parameters are views, and the optimizers on them are PyTorch's."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from rlpyt.models import flat as flat_module
from rlpyt.models.flat import ALIGNMENT, Adam, FlatParameters, RMSprop


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(5 * 3 * 3, 7), nn.LayerNorm(7)
    )


def backward(module: nn.Module, seed: int) -> None:
    x = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    module(x).square().sum().backward()


def test_parameters_and_gradients_are_aligned_views_with_their_values() -> None:
    module = network()
    before = copy.deepcopy(module.state_dict())
    flat = FlatParameters(module)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    flat.vector.add_(1.0)
    for p, offset, value in zip(flat.parameters, flat.offsets, before.values(), strict=True):
        assert torch.equal(p, value + 1)
        assert offset * 4 % ALIGNMENT == 0
        assert p.data_ptr() % ALIGNMENT == 0
    flat.assert_intact()


def test_backward_writes_the_flat_gradient_and_zero_grad_clears_it() -> None:
    module, twin = network(), network()
    flat = FlatParameters(module)
    for seed in (1, 2):  # accumulates, like any gradient
        backward(module, seed)
        backward(twin, seed)
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    flat.assert_intact()
    assert flat.gradient.norm() > 0
    flat.zero_grad()
    assert all(not p.grad.any() for p in flat.parameters if p.grad is not None)


def test_channels_last_weights_keep_their_strides() -> None:
    module = network().to(memory_format=torch.channels_last)
    weight = module[0].weight
    stride, value = weight.stride(), weight.detach().clone()
    FlatParameters(module)
    assert weight.stride() == stride == weight.grad.stride()
    assert stride != weight.contiguous().stride()
    assert torch.equal(weight, value)


def test_loading_and_copying_keep_the_views_and_rebinding_is_found() -> None:
    module = network()
    flat = FlatParameters(module)
    module.load_state_dict({k: torch.zeros_like(v) for k, v in module.state_dict().items()})
    flat.assert_intact()
    assert not flat.vector.any()
    module[3].bias.data = torch.ones(7)
    with pytest.raises(RuntimeError, match=r"parameter 3\.bias is no longer part"):
        flat.assert_intact()
    flat = FlatParameters(module)
    module.zero_grad(set_to_none=True)
    with pytest.raises(RuntimeError, match="gradient"):
        flat.assert_intact()


def test_a_tied_parameter_is_there_once() -> None:
    module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    module[1].weight = module[0].weight
    assert FlatParameters(module).names == ["0.weight"]


def test_several_dtypes_are_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(ValueError, match="several dtypes"):
        FlatParameters(module)


def test_the_first_bad_element_is_named() -> None:
    flat = FlatParameters(network())
    assert flat.first_non_finite(flat.gradient) is None
    assert [flat.name_at(offset) for offset in flat.offsets] == flat.names
    flat.parameters[2].grad[3, 1] = float("nan")
    flat.parameters[3].grad[0] = float("inf")
    assert flat.first_non_finite(flat.gradient) == "3.weight"


@pytest.mark.parametrize("max_norm", [1e-3, 1e9, float("inf")])
def test_clipping_is_that_of_pytorch_and_returns_the_norm_before(max_norm: float) -> None:
    module, twin = network(), network()
    flat = FlatParameters(module)
    backward(module, 1)
    backward(twin, 1)
    norm = flat.clip_(max_norm)
    expected = nn.utils.clip_grad_norm_(twin.parameters(), max_norm)
    torch.testing.assert_close(norm, expected)
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


class TensorFlowRMSprop:
    """The formula written out: a mean that begins at 1, eps inside the root."""

    def __init__(self, parameters: Any, lr: float, alpha: float, eps: float) -> None:
        self.parameters, self.lr, self.alpha, self.eps = list(parameters), lr, alpha, eps
        self.means = [torch.ones_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        for p, mean in zip(self.parameters, self.means, strict=True):
            mean.copy_(self.alpha * mean + (1 - self.alpha) * p.grad**2)
            p -= self.lr * p.grad / torch.sqrt(mean + self.eps)


class CentredRMSprop:
    """The formula written out: variances of gradients, eps inside the root (Graves, 2013)."""

    def __init__(self, parameters: Any, lr: float, decay: float, eps: float) -> None:
        self.parameters, self.lr, self.decay, self.eps = list(parameters), lr, decay, eps
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.means = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        for p, n, g in zip(self.parameters, self.squares, self.means, strict=True):
            n.copy_(self.decay * n + (1 - self.decay) * p.grad**2)
            g.copy_(self.decay * g + (1 - self.decay) * p.grad)
            p -= self.lr * p.grad / torch.sqrt(n - g**2 + self.eps)


OPTIMIZERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "adam": (
        lambda flat: Adam(flat, eps=1e-5),
        lambda ps: torch.optim.Adam(ps, lr=1e-2, eps=1e-5),
    ),
    "rmsprop": (
        lambda flat: RMSprop(flat, eps=1e-5),
        lambda ps: torch.optim.RMSprop(ps, lr=1e-2, alpha=0.99, eps=1e-5),
    ),
    "rmsprop-tensorflow": (
        lambda flat: RMSprop(flat, eps=1e-5, eps_inside_root=True),
        lambda ps: TensorFlowRMSprop(ps, lr=1e-2, alpha=0.99, eps=1e-5),
    ),
    "rmsprop-centred": (
        lambda flat: RMSprop(flat, decay=0.95, eps=0.01, centred=True),
        lambda ps: CentredRMSprop(ps, lr=1e-2, decay=0.95, eps=0.01),
    ),
}


@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
@pytest.mark.parametrize("name", [*OPTIMIZERS, "adam-formula"])
def test_steps_are_those_of_the_reference(
    name: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "adam-formula":
        monkeypatch.setattr(flat_module, "fused", None)
    make, reference = OPTIMIZERS[name.removesuffix("-formula")]
    module, twin = network(), network()
    flat = FlatParameters(module)
    mine, theirs = make(flat), reference(twin.parameters())
    for seed in range(20):
        flat.zero_grad()
        twin.zero_grad()
        backward(module, seed)
        backward(twin, seed)
        mine.step(1e-2, flat.clip_(float("inf")) if guarded else None)
        theirs.step()
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [*OPTIMIZERS, "adam-formula"])
def test_a_gradient_that_is_not_finite_changes_nothing(
    name: str, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "adam-formula":
        monkeypatch.setattr(flat_module, "fused", None)
    module = network()
    flat = FlatParameters(module)
    optimizer = OPTIMIZERS[name.removesuffix("-formula")][0](flat)
    backward(module, 1)
    optimizer.step(1e-2, flat.clip_(1.0))
    before = {k: v.clone() for k, v in optimizer.state().items()} | {"vector": flat.vector.clone()}
    flat.gradient[5] = bad
    optimizer.step(1e-2, flat.clip_(1.0))
    for key, value in (optimizer.state() | {"vector": flat.vector}).items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loading_a_state_goes_on_bit_for_bit(name: str) -> None:
    def steps(flat: FlatParameters, module: nn.Module, optimizer: Any, seeds: range) -> None:
        for seed in seeds:
            flat.zero_grad()
            backward(module, seed)
            optimizer.step(1e-3, flat.clip_(0.5))

    make = OPTIMIZERS[name][0]
    module = network()
    flat = FlatParameters(module)
    optimizer = make(flat)
    steps(flat, module, optimizer, range(5))
    weights = copy.deepcopy(module.state_dict())
    state = {k: v.numpy().copy() for k, v in optimizer.state().items()}  # as from a file
    steps(flat, module, optimizer, range(5, 10))

    twin = network()
    twin.load_state_dict(weights)
    twin_flat = FlatParameters(twin)
    twin_optimizer = make(twin_flat)
    twin_optimizer.load(state)
    steps(twin_flat, twin, twin_optimizer, range(5, 10))
    assert torch.equal(flat.vector, twin_flat.vector)


def test_rounding_does_not_make_a_variance_negative() -> None:
    """Constant gradients have none: steps are as large as eps lets them be."""
    flat = FlatParameters(nn.Linear(1000, 1))
    optimizer = RMSprop(flat, decay=0.95, eps=1e-6, centred=True)
    gradient = torch.logspace(-2, 3, len(flat.gradient))
    for k in range(1000):
        flat.gradient.copy_(gradient * (3 if k < 50 else 1))  # means come to rest from above
        before = flat.vector.clone()
        optimizer.step(1e-9)
    spread = optimizer.square - optimizer.state()["mean"].square()
    assert (spread < -1e-6).any()  # control
    step = (before - flat.vector).double()
    assert step.isfinite().all() and (step <= 1.001e-9 * gradient / 1e-3 + 1e-8).all()


def test_a_state_of_another_optimizer_or_model_is_refused() -> None:
    adam = Adam(FlatParameters(network()))
    with pytest.raises(ValueError, match="resume with the optimizer that wrote it"):
        adam.load(RMSprop(FlatParameters(network())).state())
    with pytest.raises(ValueError, match="resume with the optimizer that wrote it"):
        RMSprop(FlatParameters(network())).load(
            RMSprop(FlatParameters(network()), centred=True).state()
        )
    with pytest.raises(ValueError, match="resume with the model that it belongs to"):
        adam.load(Adam(FlatParameters(nn.Linear(2, 2))).state())


def test_optimizers_do_not_import_torch_dynamo() -> None:
    import subprocess
    import sys

    code = (
        "import sys, torch; from rlpyt.models.flat import Adam, FlatParameters; "
        "flat = FlatParameters(torch.nn.Linear(2, 2)); Adam(flat).step(1e-3, flat.clip_(1.0)); "
        "assert 'torch._dynamo' not in sys.modules"
    )
    root = flat_module.__file__.rsplit("/rlpyt/", 1)[0]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
