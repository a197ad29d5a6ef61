"""All parameters of a module as one vector, and the optimizers that step it.

Clipping, a step, an all-reduce and publishing are then one operation each. `torch.optim` is not
used: it imports torch._dynamo (0.9 s, 72 MB), and one step of it takes 28 µs around a kernel of 6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Final, Protocol, final

import torch
from torch import Tensor, nn

ALIGNMENT: Final = 64
"""Bytes: every tensor begins on a cache line, as if it had been allocated alone."""


@final
class FlatParameters:
    """One vector of a module's parameters and one of its gradients, which become views of them.

    Made once the module is on its device and in its memory format. Loading into the module's
    tensors goes on working; whatever puts other tensors in their place (`module.to(...)`,
    `zero_grad(set_to_none=True)`) breaks the views, which `assert_intact` finds.

    Args:
        module: its parameters must have one dtype and one device.
    """

    vector: Tensor
    """[n] parameters, with zeros where tensors are padded to the alignment."""
    gradient: Tensor
    """[n] gradients, in the same places."""

    def __init__(self, module: nn.Module) -> None:
        named = list(module.named_parameters())
        kinds = {(p.dtype, p.device) for _, p in named}
        if len(kinds) > 1:
            raise ValueError(
                f"the parameters of {type(module).__name__} are of several dtypes or devices: "
                f"{sorted(map(str, kinds))}; move the whole module with .to(device, dtype)"
            )
        dtype, device = kinds.pop() if kinds else (torch.float32, torch.device("cpu"))
        unit = ALIGNMENT // dtype.itemsize
        self.names = [name for name, _ in named]
        self.parameters = [p for _, p in named]
        self.offsets: list[int] = []
        size = 0
        for p in self.parameters:
            self.offsets.append(size)
            size += -(-p.numel() // unit) * unit
        self.vector = torch.zeros(size, dtype=dtype, device=device)
        self.gradient = torch.zeros(size, dtype=dtype, device=device)
        for p, offset in zip(self.parameters, self.offsets, strict=True):
            view = _view(self.vector, offset, p)
            view.copy_(p.detach())
            p.data = view
            p.grad = _view(self.gradient, offset, p)

    def zero_grad(self) -> None:
        """Set all gradients to zero; they stay where they are."""
        self.gradient.zero_()

    def collect_(self, gradients: Sequence[Tensor | None]) -> None:
        """Copy gradients of the parameters into the vector; None, of one not used, is zero."""
        self.gradient.copy_(torch.cat(list(self._padded(gradients))))

    def _padded(self, gradients: Sequence[Tensor | None]) -> Iterator[Tensor]:
        """What lies one after the other in the vector, each in the order of its parameter."""
        ends = [*self.offsets[1:], len(self.vector)]
        places = zip(self.parameters, gradients, self.offsets, ends, strict=True)
        for parameter, gradient, begin, end in places:
            used = 0
            if gradient is not None:
                used = parameter.numel()
                order = sorted(range(parameter.dim()), key=parameter.stride, reverse=True)
                yield gradient.permute(order).reshape(-1)
            if end - begin > used:
                yield self.vector.new_zeros(end - begin - used)

    def clip_(self, max_norm: float) -> Tensor:
        """Scale the gradient down to this Euclidean norm if it is longer.

        Returns:
            The norm before, 0-d.
        """
        norm = torch.linalg.vector_norm(self.gradient)
        if max_norm != float("inf"):
            self.gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm

    def name_at(self, index: int) -> str:
        """The name of the parameter that this element of a vector belongs to."""
        return self.names[bisect_right(self.offsets, index) - 1]

    def first_non_finite(self, vector: Tensor) -> str | None:
        """The name of the first parameter with a NaN or an infinity in this [n] vector."""
        bad = (~vector.isfinite()).nonzero()
        return self.name_at(int(bad[0])) if len(bad) else None

    def checksums(self) -> Tensor:
        """[k] int64, a sum of the bits of each parameter: one that is the same has the same."""
        words = self.vector.view(torch.int32 if self.vector.element_size() == 4 else torch.int16)
        per = len(words) // max(1, len(self.vector))
        ends = [*self.offsets[1:], len(self.vector)]
        bounds = zip(self.offsets, ends, strict=True)
        return torch.stack([words[a * per : b * per].sum(dtype=torch.int64) for a, b in bounds])

    def assert_finite(self) -> None:
        """Raise unless every parameter is a finite number; one sum where all are."""
        if not isfinite(self.vector.sum().item()):
            name = self.first_non_finite(self.vector)
            if name is not None:
                raise FloatingPointError(
                    f"the parameter {name} is not finite: its training diverged, or what was "
                    "loaded is damaged; lower --lr, or go back to an earlier checkpoint"
                )

    def assert_intact(self) -> None:
        """Raise unless every parameter and its gradient still are views of the vectors."""
        for name, p, offset in zip(self.names, self.parameters, self.offsets, strict=True):
            for vector, tensor, what in (
                (self.vector, p, "parameter"),
                (self.gradient, p.grad, "gradient"),
            ):
                place = vector.data_ptr() + offset * vector.element_size()
                if p.numel() and (tensor is None or tensor.data_ptr() != place):
                    raise RuntimeError(
                        f"the {what} {name} is no longer part of the flat vector; write values "
                        "with copy_ (load_state_dict does), and move or convert the module "
                        "before FlatParameters is made"
                    )


class Optimizer(Protocol):
    """Steps a flat vector."""

    def step(self, lr: float, norm: Tensor | None = None) -> None:
        """Step against the gradient; not at all if a norm is given that is not finite."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors by name, not copied."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Copy the values of a state into the optimizer's tensors."""
        ...


@final
class Adam:
    """Adam (Kingma and Ba, 2015, algorithm 1), by PyTorch's fused kernel.

    Args:
        flat: what is stepped.
        betas: decay of the running means of gradient and squared gradient.
        eps: added to the root of the latter.
    """

    def __init__(
        self, flat: FlatParameters, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        self.flat, self.betas, self.eps = flat, betas, eps
        self.mean = torch.zeros_like(flat.vector)
        self.square = torch.zeros_like(flat.vector)
        self.steps = torch.zeros((), device=flat.vector.device)

    def step(self, lr: float, norm: Tensor | None = None) -> None:
        """One step of size `lr`; none if the gradient's norm, 0-d, is given and not finite."""
        self.steps += 1
        skip = None if norm is None else _not_finite(norm)
        if fused is None:
            self._formula(lr, skip)
        else:
            beta1, beta2 = self.betas
            fused(
                [self.flat.vector],
                [self.flat.gradient],
                [self.mean],
                [self.square],
                [],
                [self.steps],
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                weight_decay=0.0,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
                grad_scale=None,
                found_inf=skip,
            )
        if skip is not None:
            self.steps -= skip

    def state(self) -> dict[str, Tensor]:
        return {"steps": self.steps, "mean": self.mean, "square": self.square}

    def load(self, state: dict[str, Any]) -> None:
        _load(self.state(), state)

    def _formula(self, lr: float, skip: Tensor | None) -> None:
        """The same, for a PyTorch whose fused kernel is gone: it is not part of its public API."""
        if skip is not None and skip:
            return
        (beta1, beta2), steps, gradient = self.betas, float(self.steps), self.flat.gradient
        self.mean.lerp_(gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = self.square.sqrt().div_((1 - beta2**steps) ** 0.5).add_(self.eps)
        self.flat.vector.addcdiv_(self.mean, root, value=-lr / (1 - beta1**steps))


fused: Any = getattr(torch, "_fused_adam_", None)


@final
class RMSprop:
    """RMSprop (Tieleman and Hinton, 2012, lecture 6.5), without momentum.

    Args:
        flat: what is stepped.
        decay: of the running mean of the squared gradient.
        eps: added to its root.
        eps_inside_root: as in TensorFlow, which A2C's published results come from: eps is added
            inside the root, and the running mean begins at 1, so that the first steps are small.
        centred: the mean of the squared gradient less the square of its mean, a variance, takes the
            place of the former (Graves, 2013, eq. 38 to 40, with decay 0.95), and eps is added
            inside the root. Mnih et al. (2015) call decay "gradient momentum" and "squared gradient
            momentum", and eps, 0.01, the "min squared gradient"; they begin at 0.
    """

    def __init__(
        self,
        flat: FlatParameters,
        decay: float = 0.99,
        eps: float = 1e-8,
        eps_inside_root: bool = False,
        centred: bool = False,
    ) -> None:
        self.flat, self.decay, self.eps = flat, decay, eps
        self.inside = eps_inside_root or centred
        self.square = torch.full_like(flat.vector, 1.0 if eps_inside_root else 0.0)
        self.mean = torch.zeros_like(flat.vector) if centred else None

    def step(self, lr: float, norm: Tensor | None = None) -> None:
        """One step of size `lr`; none if the gradient's norm, 0-d, is given and not finite."""
        gradient = self.flat.gradient
        rate: Any = 1 - self.decay
        if norm is not None:  # without a wait for the device: a gradient and a rate of zero
            skip = _not_finite(norm)
            gradient = torch.where(skip.bool(), 0.0, gradient)
            rate = rate * (1 - skip)
        self.square.lerp_(gradient.square(), rate)
        size = self.square
        if self.mean is not None:
            self.mean.lerp_(gradient, rate)
            size = torch.addcmul(size, self.mean, self.mean, value=-1).clamp_(min=0)  # rounding
        root = size.add(self.eps).sqrt_() if self.inside else size.sqrt().add_(self.eps)
        self.flat.vector.addcdiv_(gradient, root, value=-lr)

    def state(self) -> dict[str, Tensor]:
        means = {} if self.mean is None else {"mean": self.mean}
        return {"square": self.square, **means}

    def load(self, state: dict[str, Any]) -> None:
        _load(self.state(), state)


def _view(vector: Tensor, offset: int, like: Tensor) -> Tensor:
    """The part of a vector that a tensor takes, with its shape and strides."""
    return vector[offset:].as_strided(like.shape, like.stride(), vector.storage_offset() + offset)


def _not_finite(norm: Tensor) -> Tensor:
    """1.0 where the norm is NaN or infinite, else 0.0; what the fused kernel calls found_inf."""
    return (norm.detach() * 0).ne(0).float()


def _load(mine: dict[str, Tensor], given: dict[str, Any]) -> None:
    if mine.keys() != given.keys():
        raise ValueError(
            f"the optimizer's state has {sorted(mine)}, the given one {sorted(given)}; "
            "resume with the optimizer that wrote it"
        )
    for name, tensor in mine.items():
        value = torch.as_tensor(given[name])
        if value.shape != tensor.shape:
            raise ValueError(
                f"the optimizer's {name} has shape {tuple(tensor.shape)}, the given one "
                f"{tuple(value.shape)}; resume with the model that it belongs to"
            )
        tensor.copy_(value)
