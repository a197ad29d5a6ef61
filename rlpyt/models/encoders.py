"""From an observation of any space to a vector of features, over any leading dimensions.

Each leaf of the observation has its own reading: images go through a convolutional network, numbers
are flattened, choices become one-hot vectors (or embeddings where there are many). What results is
joined and goes through the hidden layers; an image alone has none behind its network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.arrays import tree_map
from rlpyt.envs.spec import (
    Box,
    Composite,
    Discrete,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Spec,
    example,
    leaf_form,
)
from rlpyt.envs.spec import leaves as leaves_of
from rlpyt.errors import UsageError
from rlpyt.models import images
from rlpyt.models.layers import MLP, Encoder

if TYPE_CHECKING:
    from rlpyt.models.images import Convolutional
    from rlpyt.models.options import ModelOptions

ONE_HOT_LIMIT = 256
"""Choices beyond this many are embedded: a one-hot vector would be wider than what reads it."""

EMBEDDING_SIZE = 64


def encoder(
    spec: Spec, options: ModelOptions, frame_stack: int = 1, image_linear: bool = True
) -> Encoder:
    """The network that reads an observation; its `features` are the width of what it returns.

    Args:
        spec: of the observation.
        options: of the network.
        frame_stack: k > 1: images are read as [..., k, *shape].
        image_linear: whether convolutional networks have their linear layer; without it their
            features are what the last convolution gives, flattened.
    """
    leaves = leaves_of(spec)
    if not leaves:
        raise UsageError(
            f"the observation {spec!r} has no leaf that could be read; give the environment an "
            "observation, or choose one of its parts in a wrapper"
        )
    kinds: list[Convolutional | None] = [convolutional(leaf, options) for _, leaf in leaves]
    if options.encoder in images.SMALLEST and not any(kinds):
        raise UsageError(
            f"encoder={options.encoder} reads images, and the observation has none (its leaves are "
            f"{[leaf for _, leaf in leaves]}); choose encoder=auto or mlp"
        )
    parts: list[Encoder] = [
        images.Image(
            leaf,
            _frames(leaf, frame_stack),
            kind,
            options,
            f"observation.{path}".rstrip("."),
            image_linear,
        )
        if kind and isinstance(leaf, Box)
        else reading(leaf, _frames(leaf, frame_stack))
        for (path, leaf), kind in zip(leaves, kinds, strict=True)
    ]
    if not isinstance(spec, Composite):
        return parts[0] if kinds[0] else _alone(parts[0], options)
    joined = Joined([path for path, _ in leaves], parts)
    return Hidden(joined, MLP(joined.features, options.hidden_sizes, options))


def has_images(spec: Spec, options: ModelOptions) -> bool:
    """Whether a convolutional network reads part of this observation."""
    return any(convolutional(leaf, options) for _, leaf in leaves_of(spec))


def convolutional(leaf: Leaf, options: ModelOptions) -> Convolutional | None:
    """The network for a leaf that is an image, None for any other.

    An image is what has 8 bits and two or three dimensions, what declares the bounds 0 and 255, and
    in three dimensions also what is bool or bounded by 0 and 1 (any Box, if a network is named).
    """
    if options.encoder == "mlp" or not isinstance(leaf, Box) or len(leaf.shape) not in (2, 3):
        return None
    image = leaf.image or images.scale(leaf) != 1
    if len(leaf.shape) == 3:
        binary = bool((leaf.low == 0).all() and (leaf.high == 1).all())
        image = image or leaf.dtype == "bool" or binary or options.encoder != "auto"
    if not image:
        return None
    if options.encoder != "auto":
        return options.encoder
    side = min(images.size(leaf, options.image_layout)[1:])
    if side >= images.SMALLEST["nature"]:
        return "nature"
    return "minatar" if side >= images.SMALLEST["minatar"] else None


def reading(leaf: Leaf, frames: int = 1) -> Encoder:
    """Numbers or choices as a vector, [..., *leaf] -> [..., features]."""
    match leaf:
        case Box(shape):
            return Numbers((frames, *shape) if frames > 1 else shape, images.scale(leaf))
        case MultiBinary(shape):
            return Numbers(shape, 1.0)
        case Discrete(n):
            return Choices((n,), alone=True)
        case MultiDiscrete(nvec):
            return Choices(nvec, alone=False)


def action_reading(spec: Spec) -> Encoder:
    """An action as a vector: numbers as they are, choices one-hot."""
    if not isinstance(spec, Composite):
        return reading(spec)
    return Joined([path for path, _ in leaves_of(spec)], [reading(x) for _, x in leaves_of(spec)])


def _frames(leaf: Leaf, frame_stack: int) -> int:
    return frame_stack if isinstance(leaf, Box) and leaf.image else 1


def _alone(part: Encoder, options: ModelOptions) -> Encoder:
    mlp = MLP(part.features, options.hidden_sizes, options)
    plain = isinstance(part, Numbers) and part.factor == 1 and len(part.shape) == 1
    return Vector(mlp) if plain else Hidden(part, mlp)


@final
class Vector(Encoder):
    """Hidden layers on an observation that is a vector already."""

    def __init__(self, mlp: MLP) -> None:
        super().__init__()
        self.mlp, self.features = mlp, mlp.features

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp.forward(x if x.dtype == torch.float32 else x.to(torch.float32))


@final
class Hidden(Encoder):
    """Hidden layers behind another reading."""

    def __init__(self, part: Encoder, mlp: MLP) -> None:
        super().__init__()
        self.part, self.mlp, self.features = part, mlp, mlp.features

    def forward(self, observation: Any) -> Tensor:
        return self.mlp(self.part(observation))


@final
class Joined(Encoder):
    """The leaves of a Dict or Tuple, each by its own reading, side by side."""

    def __init__(self, paths: list[str], parts: Sequence[Encoder]) -> None:
        super().__init__()
        self.paths = [path.split(".") for path in paths]
        self.parts = nn.ModuleList(parts)
        self.features = sum(part.features for part in parts)

    def forward(self, observation: Any) -> Tensor:
        # (reduce over getattr: a compiler does not follow an attrgetter)
        leaves = [reduce(getattr, path, observation) for path in self.paths]
        return torch.cat([part(x) for part, x in zip(self.parts, leaves, strict=True)], -1)


@final
class Numbers(Encoder):
    """Numbers or bits, flattened and multiplied by a factor."""

    def __init__(self, shape: tuple[int, ...], factor: float) -> None:
        super().__init__()
        self.shape, self.factor, self.features = shape, factor, prod(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.float32)
        if len(self.shape) != 1:
            x = x.reshape(*x.shape[: x.dim() - len(self.shape)], self.features)
        return x if self.factor == 1 else x * self.factor


@final
class Choices(Encoder):
    """One or several choices of n_1, n_2, ...: one-hot vectors side by side, or embeddings.

    Args:
        nvec: how many there are to choose from, by component.
        alone: a Discrete, stored without a dimension of its own.
    """

    offsets: Tensor

    def __init__(self, nvec: tuple[int, ...], alone: bool) -> None:
        super().__init__()
        total = sum(nvec)
        self.alone, self.embedded = alone, total > ONE_HOT_LIMIT
        offsets = torch.tensor([0, *accumulate(nvec[:-1])])
        self.register_buffer("offsets", offsets, persistent=False)  # of components, in the table
        if self.embedded:
            self.table = nn.Parameter(torch.randn(total, EMBEDDING_SIZE))
            self.features = len(nvec) * EMBEDDING_SIZE
        else:
            self.register_buffer("table", torch.eye(total), persistent=False)
            self.features = total

    def forward(self, x: Tensor) -> Tensor:
        if self.alone:
            return F.embedding(x, self.table)
        rows = F.embedding(x + self.offsets, self.table)  # [..., K, width]
        return rows.flatten(-2) if self.embedded else rows.sum(-2)


@final
class Given(Encoder):
    """A module of the user's; it is called with the leading dimensions made one.

    Args:
        module: maps an observation [N, ...], a tree of tensors, to [N, features].
        spec: of the observation.
        frame_stack: k > 1: images are given as [N, k, *shape].
    """

    def __init__(self, module: nn.Module, spec: Spec, frame_stack: int) -> None:
        super().__init__()
        self.module = module
        forms = [
            ((k, *shape) if (k := _frames(leaf, frame_stack)) > 1 else shape, getattr(torch, dtype))
            for leaf, (shape, dtype) in [(leaf, leaf_form(leaf)) for _, leaf in leaves_of(spec)]
        ]
        self.dims = [len(shape) for shape, _ in forms]  # of each leaf, without leading ones
        zeros = iter([torch.zeros(1, *shape, dtype=dtype) for shape, dtype in forms])
        self.features = self._dry_run(tree_map(lambda _: next(zeros), example(spec)))

    def forward(self, observation: Any) -> Tensor:
        dims = iter(self.dims)
        leading: tuple[int, ...] = ()

        def one_dimension(x: Tensor) -> Tensor:
            nonlocal leading
            own = x.dim() - next(dims)
            leading = x.shape[:own]
            return x.reshape(-1, *x.shape[own:])

        features = self.module(tree_map(one_dimension, observation))
        return features.reshape(*leading, features.shape[-1])

    @torch.no_grad()
    def _dry_run(self, observation: Any) -> int:
        """The width of what the module makes of one observation of zeros."""
        training = self.module.training
        self.module.eval()
        features = self.module(observation)
        self.module.train(training)
        if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != 1:
            found = tuple(features.shape) if isinstance(features, Tensor) else type(features)
            raise UsageError(
                f"the encoder {type(self.module).__name__} made {found} of one observation; "
                "it must map [N, ...] to a tensor [N, features]"
            )
        return features.shape[-1]
