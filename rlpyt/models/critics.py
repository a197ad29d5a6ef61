"""What is returned after an action: several critics as one network."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.envs.spec import Box, Discrete, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models import encoders
from rlpyt.models.ensemble import Ensemble, Masks
from rlpyt.models.layers import plain_attributes
from rlpyt.models.options import ActorQOptions
from rlpyt.models.parallel import Chosen
from rlpyt.models.trunk import Trunk
from rlpyt.returns import Returns
from rlpyt.rows import Inputs


@final
class Critics(nn.Module):
    """The returns of an action, as each of C critics sees them.

    Critics have a trunk (encoder and memory) in common and hidden layers of their own, which read
    its features and the action. A vector is its own features. Of one Discrete choice they read the
    features alone, and give the returns of all n actions. With `value_network` there is a V, which
    reads the features alone, too.

    Args:
        env_spec: observations, actions, frame stack.
        returns: how many numbers describe a return.
        count: C.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features].
    """

    noise = 0

    def __init__(
        self,
        env_spec: EnvSpec,
        returns: Returns,
        count: int,
        options: ActorQOptions,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        space = env_spec.action
        self.choices = space.n if isinstance(space, Discrete) else 0
        self.size = 0 if self.choices else prod(bounded(env_spec).shape)
        self.trunk = trunk(env_spec, options, encoder)
        outputs = max(1, self.choices) * returns.outputs
        sizes = options.hidden_sizes if options.critic_sizes is None else options.critic_sizes
        widths = (self.trunk.features + self.size, *sizes, outputs)
        self.ensemble = Ensemble(count, widths, options)
        self.joint, self.values_states = options.batch_norm, options.value_network
        alone = (self.trunk.features, *sizes, 1)
        self.value: Any = Ensemble(1, alone, options) if options.value_network else None
        self.reads = self.trunk.reads
        plain_attributes(self)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        return self.trunk.initial_state(batch)

    def __call__(self, *args: Any) -> tuple[Tensor, Any]:
        """`forward`, without nn.Module's search for hooks."""
        return self.forward(*args)

    def forward(
        self,
        inputs: Inputs,
        state: Any,
        action: Tensor | None,
        frozen: bool = False,
        chosen: Chosen = None,
        masks: Masks | None = None,
        counted: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The numbers z [C, ..., K] of each critic, and the state of the row after.

        Of one Discrete choice [C, ..., n, K].

        Args:
            inputs: [T, B, ...] or [B, ...]; without memory any leading dimensions.
            state: as fed at the first row.
            action: [..., *shape] of each row, in units in which bounds are -1 and 1; None: of one
                Discrete choice.
            frozen: whether gradients reach the action alone, and no weights.
            chosen: of which critics.
            masks: of `Ensemble.masks` for these rows and the chosen critics; None drops nothing.
            counted: [...] bool, rows that batch normalization is of; None: of those before.
        """
        if frozen:
            with torch.no_grad():
                features, state = self.trunk.forward(inputs, state)
        else:
            features, state = self.trunk.forward(inputs, state)
        return self.values(features, action, frozen, chosen, masks, counted), state

    def features(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """What the critics read of rows beside the action, [..., F], and the next state."""
        return self.trunk.forward(inputs, state)

    def valued(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """V of rows, [..., 1], and the state of the row after the last."""
        features, state = self.trunk.forward(inputs, state)
        return self.value.forward(features.flatten(0, -2)).view(*features.shape[:-1], 1), state

    def acting(self) -> tuple[nn.Module, ...]:
        """The modules that `features` runs."""
        return (self.trunk,)

    def masks(self, count: int, rows: tuple[int, ...], generator: torch.Generator) -> Masks | None:
        """Draw which units stay; see `Ensemble.masks`."""
        return self.ensemble.masks(count, rows, generator)

    def values(
        self,
        features: Tensor,
        action: Tensor | None,
        frozen: bool = False,
        chosen: Chosen = None,
        masks: Masks | None = None,
        counted: Tensor | None = None,
    ) -> Tensor:
        """z of features [..., F] and action [..., *shape]; see `forward`."""
        leading = features.shape[:-1]
        x, before = features.flatten(0, -2), None
        if action is not None:
            numbers = action.reshape(-1, self.size)
            if frozen:
                x, before = numbers, x
            else:
                x = torch.cat([x, numbers], -1)
        if masks is not None and len(leading) > 1:
            masks = tuple(mask.flatten(1, -2) for mask in masks)
        if counted is not None:
            counted = counted.flatten()
        z = self.ensemble.forward(x, frozen, chosen, before, masks, counted)
        if self.choices:
            z = z.unflatten(-1, (self.choices, -1))
        return z.unflatten(1, leading) if len(leading) > 1 else z


def trunk(env_spec: EnvSpec, options: ActorQOptions, encoder: nn.Module | None) -> Trunk:
    """What an actor or critics have below the layers that `hidden_sizes` names."""
    return Trunk(env_spec, replace(options, hidden_sizes=options.encoder_sizes), encoder)


def shares_trunk(env_spec: EnvSpec, options: ActorQOptions) -> bool:
    """Whether the actor reads the critics' trunk instead of one of its own."""
    share = options.share_trunk
    return encoders.has_images(env_spec.observation, options) if share is None else share


def bounded(env_spec: EnvSpec) -> Box:
    """The actions, of an environment that has numbers with bounds for actions."""
    space = env_spec.action
    if not isinstance(space, Box):
        raise UsageError(
            f"{env_spec.id} has actions of {space!r}; DDPG, TD3, D4PG and SAC choose numbers of a "
            "Box: choose ppo or a2c, which act in any space, or dqn or sac for one Discrete choice"
        )
    if not np.isfinite([space.low, space.high]).all() or not prod(space.shape):
        raise UsageError(
            f"{env_spec.id} has actions of shape {space.shape} from {space.low.tolist()} to "
            f"{space.high.tolist()}; DDPG, TD3, D4PG and SAC squash actions between two finite "
            "bounds: give it some (gymnasium.wrappers.TransformAction(env, lambda action: action, "
            f"Box(-1, 1, {space.shape})), by --wrapper), or choose ppo or a2c"
        )
    return space
