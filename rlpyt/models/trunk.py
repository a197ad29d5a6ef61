"""From what an agent reads of its rows to features: what every network begins with."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from rlpyt.envs.spec import EnvSpec
from rlpyt.models import encoders
from rlpyt.models.memory import Memory
from rlpyt.models.options import ModelOptions
from rlpyt.rows import Inputs


@final
class Trunk(nn.Module):
    """Encoder, previous action and reward, memory.

    Args:
        env_spec: observations, actions, frame stack.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features].
        image_linear: whether convolutional encoders have their linear layer (`encoders.encoder`).
    """

    def __init__(
        self,
        env_spec: EnvSpec,
        options: ModelOptions,
        encoder: nn.Module | None = None,
        image_linear: bool = True,
    ) -> None:
        super().__init__()
        observation, frames = env_spec.observation, env_spec.frame_stack
        self.encoder = (
            encoders.encoder(observation, options, frames, image_linear)
            if encoder is None
            else encoders.Given(encoder, observation, frames)
        )
        width: int = self.encoder.features
        reads = {"observation"}
        self.previous: Previous | None = None
        self.memory: Memory | None = None
        recurrent = options.memory != "none"
        if recurrent if options.read_previous is None else options.read_previous:
            self.previous = Previous(env_spec)
            width += self.previous.features
            reads |= {"reward", "first", "previous_action"}
        if options.memory != "none":
            self.memory = Memory(options.memory, width, options)
            width = self.memory.features
            reads |= {"first"}
        self.features = width
        self.reads = frozenset(reads)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]; () without memory."""
        return () if self.memory is None else self.memory.initial_state(batch)

    def forward(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """inputs [..., leaf] -> features [..., F], and the next state."""
        features = self.encoder.forward(inputs.observation)
        if self.previous is not None:
            features = torch.cat([features, self.previous(inputs)], -1)
        if self.memory is not None:
            features, state = self.memory(features, state, inputs.first)
        return features, state


@final
class Previous(nn.Module):
    """The reward that arrived and the action before it, zero at an episode's first row."""

    def __init__(self, env_spec: EnvSpec) -> None:
        super().__init__()
        self.action = encoders.action_reading(env_spec.action)
        self.features = self.action.features + 1

    def forward(self, inputs: Inputs) -> Tensor:
        """[..., 1 + width of the action]."""
        reward = inputs.reward.to(torch.float32).unsqueeze(-1)
        previous = torch.cat([reward, self.action(inputs.previous_action)], -1)
        return torch.where(inputs.first.unsqueeze(-1), 0.0, previous)
