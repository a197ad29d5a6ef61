"""Convolutional encoders of images of any layout and leading dimensions."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.envs.spec import Box
from rlpyt.errors import UsageError
from rlpyt.models.layers import Encoder, initialized

if TYPE_CHECKING:
    from rlpyt.models.options import ImageLayout, ModelOptions

Convolutional = Literal["nature", "residual", "minatar"]

SMALLEST = {"nature": 36, "residual": 1, "minatar": 3}
"""The smallest side of an image that leaves something after the convolutions."""


def scale(box: Box) -> float:
    """What a network multiplies this observation by.

    Whatever is stored in 8 bits is divided by its upper bound if that is more than 1, and so is
    what declares the bounds 0 and 255 in another type. Everything else is read as it is.
    """
    top = float(box.high.max()) if box.high.size else 1.0
    if box.dtype == "uint8":
        return 1 / max(top, 1.0)
    return 1 / 255 if top == 255 and (box.high == 255).all() and (box.low == 0).all() else 1.0


def size(box: Box, layout: ImageLayout) -> tuple[int, int, int]:
    """Channels, height and width; two dimensions are one channel."""
    if len(box.shape) == 2:
        return 1, *box.shape
    first, middle, last = box.shape
    return (first, middle, last) if _channels_first(box, layout) else (last, first, middle)


def _channels_first(box: Box, layout: ImageLayout) -> bool:
    return box.shape[0] < box.shape[-1] if layout == "auto" else layout == "chw"


@final
class Image(Encoder):
    """Features of one image leaf, [..., *leaf] -> [..., features].

    Args:
        box: the leaf, [H, W], [H, W, C] or [C, H, W].
        frames: 1, or k: the leaf is read as [..., k, *box.shape], and k * C channels result.
        kind: the network.
        path: of the leaf, for errors.
        linear: whether the network has its linear layer.
    """

    def __init__(
        self,
        box: Box,
        frames: int,
        kind: Convolutional,
        options: ModelOptions,
        path: str,
        linear: bool = True,
    ) -> None:
        super().__init__()
        channels, height, width = size(box, options.image_layout)
        if min(height, width) < SMALLEST[kind]:
            raise UsageError(
                f"{path} has images of {height}x{width} pixels (shape {box.shape}); "
                f"encoder={kind} needs at least {SMALLEST[kind]}x{SMALLEST[kind]}; choose "
                "encoder=residual, minatar or mlp, resize the images in a wrapper, or state the "
                "layout with image_layout=hwc or chw"
            )
        self.stacked = frames > 1
        self.shape = (frames, *box.shape) if self.stacked else box.shape
        self.order = _order(box, options.image_layout, self.stacked)
        self.format = torch.channels_last if options.channels_last else torch.contiguous_format
        network = {"nature": Nature, "residual": Residual, "minatar": MinAtar}[kind]
        self.network = network((frames * channels, height, width), scale(box), options, linear)
        self.network.to(memory_format=self.format)
        self.features = self.network.features

    def forward(self, x: Tensor) -> Tensor:
        leading = x.shape[: -len(self.shape)]
        x = x.reshape(-1, *self.shape)
        if self.order is None:  # [H, W]
            x = x.unsqueeze(1)
        else:
            x = x.permute(self.order)
            if self.stacked and x.dim() == 5:
                x = x.flatten(1, 2)  # [N, k, C, H, W] -> [N, k * C, H, W]
        x = self.network(x.to(torch.float32, memory_format=self.format))
        return x.reshape(*leading, self.features)


def _order(box: Box, layout: ImageLayout, stacked: bool) -> tuple[int, ...] | None:
    """Of the dimensions, so that [N, (k,) C, H, W] results; None where C must be made."""
    if len(box.shape) == 2:
        return (0, 1, 2, 3) if stacked else None
    first = _channels_first(box, layout)
    if stacked:
        return (0, 1, 2, 3, 4) if first else (0, 1, 4, 2, 3)
    return (0, 1, 2, 3) if first else (0, 3, 1, 2)


def _scaled(x: Tensor, conv: nn.Conv2d, factor: float) -> Tensor:
    """conv(factor * x): scaling the few weights spares a pass over the pixels.

    It also keeps pixels exact in bfloat16, which holds 0 .. 255 but not their 255ths.
    """
    return F.conv2d(x, conv.weight * factor, conv.bias, conv.stride, conv.padding)


def _linear(
    inputs: int, outputs: int, options: ModelOptions, wanted: bool
) -> tuple[nn.Linear | None, int]:
    """The layer behind the convolutions, if there shall be one, and the width of what results."""
    return (initialized(nn.Linear(inputs, outputs), options), outputs) if wanted else (None, inputs)


@final
class Nature(Encoder):
    """The network of DQN (Mnih et al., 2015, "Model architecture")."""

    def __init__(
        self, shape: tuple[int, int, int], factor: float, options: ModelOptions, linear: bool = True
    ) -> None:
        """shape: channels, height, width; factor: of the pixels; linear: has its linear layer."""
        super().__init__()
        channels, height, width = shape
        self.factor = factor
        self.conv1 = initialized(nn.Conv2d(channels, 32, 8, stride=4), options)
        self.conv2 = initialized(nn.Conv2d(32, 64, 4, stride=2), options)
        self.conv3 = initialized(nn.Conv2d(64, 64, 3), options)
        height, width = (((n - 8) // 4 + 1 - 4) // 2 + 1 - 2 for n in (height, width))
        self.linear, self.features = _linear(64 * height * width, 512, options, linear)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(_scaled(x, self.conv1, self.factor))
        x = torch.relu_(self.conv2(x))
        x = torch.relu_(self.conv3(x)).flatten(1)
        return x if self.linear is None else torch.relu_(self.linear(x))


@final
class MinAtar(Encoder):
    """The network for 10x10 grids (Young and Tian, 2019, section 3)."""

    def __init__(
        self, shape: tuple[int, int, int], factor: float, options: ModelOptions, linear: bool = True
    ) -> None:
        """shape: channels, height, width; factor: of the pixels; linear: has its linear layer."""
        super().__init__()
        channels, height, width = shape
        self.factor = factor
        self.conv = initialized(nn.Conv2d(channels, 16, 3), options)
        flat = 16 * (height - 2) * (width - 2)
        self.linear, self.features = _linear(flat, 128, options, linear)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(_scaled(x, self.conv, self.factor)).flatten(1)
        return x if self.linear is None else torch.relu_(self.linear(x))


@final
class Residual(Encoder):
    """The deep network of IMPALA without its memory (Espeholt et al., 2018, figure 3)."""

    def __init__(
        self, shape: tuple[int, int, int], factor: float, options: ModelOptions, linear: bool = True
    ) -> None:
        """shape: channels, height, width; factor: of the pixels; linear: has its linear layer."""
        super().__init__()
        channels, height, width = shape
        self.factor = factor
        self.sections = nn.ModuleList()
        for outputs in (16, 32, 32):
            self.sections.append(_Section(channels, outputs, options))
            channels, height, width = outputs, (height + 1) // 2, (width + 1) // 2
        self.linear, self.features = _linear(channels * height * width, 256, options, linear)

    def forward(self, x: Tensor) -> Tensor:
        factor = self.factor
        for section in self.sections:
            x = section(x, factor)
            factor = 1.0
        x = torch.relu_(x).flatten(1)
        return x if self.linear is None else torch.relu_(self.linear(x))


@final
class _Section(nn.Module):
    """Convolution, pooling, two residual blocks: half the height and width."""

    def __init__(self, inputs: int, outputs: int, options: ModelOptions) -> None:
        super().__init__()
        self.conv = initialized(nn.Conv2d(inputs, outputs, 3, padding=1), options, gain=1.0)
        # Each residual branch begins small, so that depth does not blow up the features.
        gains = (sqrt(2), 0.5, sqrt(2), 0.5)
        self.blocks = nn.ModuleList(
            initialized(nn.Conv2d(outputs, outputs, 3, padding=1), options, gain) for gain in gains
        )

    def forward(self, x: Tensor, factor: float) -> Tensor:
        x = F.max_pool2d(_scaled(x, self.conv, factor), 3, stride=2, padding=1)
        first, second, third, fourth = self.blocks
        x = x + second(torch.relu_(first(torch.relu(x))))
        return x + fourth(torch.relu_(third(torch.relu(x))))
