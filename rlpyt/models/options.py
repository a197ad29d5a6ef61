"""Options of the network. This module imports no torch: the command line's help reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["tanh", "relu", "elu", "silu"]
EncoderName = Literal["auto", "mlp", "nature", "residual", "minatar"]
ImageLayout = Literal["auto", "hwc", "chw"]
MemoryName = Literal["none", "lstm", "gru"]


@dataclass(frozen=True)
class ModelOptions:
    """The network of an agent: encoder, memory, heads."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers for vectors, and for several leaves once they are joined."""

    activation: Activation = "tanh"
    """After each hidden layer; convolutional encoders have relu, as published."""

    layer_norm: bool = False
    """Layer normalization before each hidden layer's activation (Ba et al., 2016)."""

    encoder: EncoderName = "auto"
    """For images: nature (Mnih et al., 2015; from 36x36), minatar (Young and Tian, 2019; from 3x3),
    residual (Espeholt et al., 2018), or mlp; auto: the first of nature, minatar, mlp that fits."""

    image_layout: ImageLayout = "auto"
    """Where an image has its channels; auto: whichever of first and last dimension is smaller."""

    channels_last: bool = True
    """Images and their convolutions in channels-last memory format: the same numbers, faster."""

    share_trunk: bool | None = None
    """Policy and value share encoder and memory; unset: with images or a given encoder they do."""

    memory: MemoryName = "none"
    """Recurrent layer between encoder and heads."""

    memory_size: int = 64
    """Width of the recurrent layer."""

    read_previous: bool | None = None
    """Reward and previous action are joined to the features; unset: with memory they are."""

    log_std_init: float = 0.0
    """Logarithm of a Gaussian policy's standard deviation at the start."""

    state_dependent_std: bool = False
    """The standard deviation is an output of the network instead of one parameter a dimension."""

    orthogonal_init: bool = True
    """Orthogonal weights of gain sqrt(2), 1 in memory and value head, 0.01 in the policy head, and
    zero biases; otherwise PyTorch's."""
