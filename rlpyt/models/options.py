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
    """What the networks of all algorithms have in common: encoder, memory, initial weights."""

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

    memory: MemoryName = "none"
    """Recurrent layer between encoder and heads."""

    memory_size: int = 64
    """Width of the recurrent layer."""

    read_previous: bool | None = None
    """Reward, as it came (neither clipped nor scaled), and previous action are joined to the
    features; unset: with memory they are."""

    orthogonal_init: bool = True
    """Orthogonal weights (gain sqrt(2); 1 in memory, value and Q heads, 0.01 in the policy head)
    and zero biases; otherwise PyTorch's."""


@dataclass(frozen=True)
class ActorCriticOptions(ModelOptions):
    """A policy and a value."""

    share_trunk: bool | None = None
    """Policy and value share encoder and memory; unset: with images or a given encoder they do."""

    log_std_init: float = 0.0
    """Logarithm of a Gaussian policy's standard deviation at the start."""

    state_dependent_std: bool = False
    """The standard deviation is an output of the network instead of one parameter a dimension."""


@dataclass(frozen=True)
class QNetworkOptions(ModelOptions):
    """The returns of every action."""

    activation: Activation = "relu"
    """After each hidden layer; convolutional encoders have relu, as published."""

    orthogonal_init: bool = False
    """Orthogonal weights (gain sqrt(2); 1 in memory and Q heads) and zero biases; otherwise
    PyTorch's."""

    dueling: bool = False
    """A value and advantages in streams of their own (Wang et al., 2016)."""

    head_sizes: tuple[int, ...] = ()
    """Widths of hidden layers in the head, in each stream of a dueling one."""

    noisy: bool = False
    """Layers of the head with learned noise (Fortunato et al., 2018), beside epsilon, which is
    chosen apart."""

    noisy_sigma: float = 0.5
    """The noise's scale at the start, sigma_0."""

    image_linear: bool = True
    """Convolutional encoders end in their linear layer; without it, head_sizes can hold it."""


@dataclass(frozen=True)
class ActorQOptions(ModelOptions):
    """An actor, and critics of its actions."""

    hidden_sizes: tuple[int, ...] = (256, 256)
    """Widths of the actor's hidden layers, and of the critics'."""

    activation: Activation = "relu"
    """After each hidden layer; convolutional encoders have relu, as published."""

    orthogonal_init: bool = False
    """Orthogonal weights (gain sqrt(2); 1 in memory and Q heads, 0.01 in the policy head) and zero
    biases; otherwise PyTorch's."""

    critic_sizes: tuple[int, ...] | None = None
    """Widths of the critics' hidden layers; unset: those of the actor's."""

    critic_layer_norm: bool | None = None
    """Layer normalization in the critics' hidden layers; unset: as in the actor's."""

    critic_dropout: float = 0.0
    """Probability with which a unit of the critics' hidden layers is dropped, in learning alone, in
    their targets and for the actor's loss too (DroQ, Hiraoka et al., 2022)."""

    batch_norm: bool = False
    """SAC's actor and critics with batch renormalization, and no target networks: critics read rows
    and those that they bootstrap from as one batch (CrossQ, Bhatt et al., 2024)."""

    value_network: bool = False
    """SAC's critics come with a network of state values V(s), whose target makes their targets (the
    older SAC, Haarnoja et al., 2018a)."""

    batch_norm_warm_up: int = 100_000
    """Updates in which it is plain batch normalization, until its running statistics are good."""

    encoder_sizes: tuple[int, ...] = ()
    """Widths of hidden layers on vectors in front of a memory; without one, of more in front of the
    others: critics read the action behind these."""

    share_trunk: bool | None = None
    """Actor and critics share encoder and memory, which the critics' loss alone trains; unset: with
    images they do."""

    state_dependent_std: bool = True
    """SAC's standard deviation is an output of the network instead of one parameter a dimension."""
