"""A policy and a value: encoder, memory and heads put together."""

from __future__ import annotations

import copy
from typing import Any, final

from torch import Tensor, nn

from rlpyt.distributions import Distribution
from rlpyt.envs.spec import EnvSpec
from rlpyt.models import encoders
from rlpyt.models.heads import PolicyHead, ValueHead
from rlpyt.models.layers import plain_attributes
from rlpyt.models.options import ActorCriticOptions
from rlpyt.models.trunk import Trunk
from rlpyt.rows import Inputs


@final
class ActorCritic(nn.Module):
    """A policy and a value with a trunk (encoder and memory) each, or a shared one.

    The state is () without memory; with memory that of the shared trunk, a tuple of tensors
    [B, size], or the pair of the actor's and the critic's. While acting only the actor's trunk
    runs: `policy` hands the critic's state on as it was, and `join` puts the one that the learner
    found in its place.

    Args:
        env_spec: observations, actions, frame stack.
        distribution: of the actions.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features]. If trunks are separate, the critic gets a copy.
    """

    def __init__(
        self,
        env_spec: EnvSpec,
        distribution: Distribution,
        options: ActorCriticOptions,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        share = options.share_trunk
        if share is None:
            share = encoder is not None or encoders.has_images(env_spec.observation, options)
        self.actor = Trunk(env_spec, options, encoder)
        self.critic = None if share else Trunk(env_spec, options, copy.deepcopy(encoder))
        self.policy_head = PolicyHead(distribution, self.actor.features, options)
        self.value_head = ValueHead(self.actor.features, options)
        self.reads = self.actor.reads
        plain_attributes(self)
        self.shares_trunk = bool(share)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        state = self.actor.initial_state(batch)
        if self.critic is None or not state:
            return state
        return state, self.critic.initial_state(batch)

    def policy(self, inputs: Inputs, state: Any) -> tuple[Any, Any]:
        """What acting needs: the parameters of the policy's distribution.

        Args:
            inputs: [B, ...]; without memory any leading dimensions.
            state: as fed at this row.

        Returns:
            The parameters, and the state of the next row.
        """
        # (forward, here and below it: nn.Module.__call__ looks for hooks, 2 % of sampling CartPole
        # a time)
        if self.critic is None or not state:
            features, state = self.actor.forward(inputs, state)
        else:
            features, actor_state = self.actor.forward(inputs, state[0])
            state = (actor_state, state[1])
        return self.policy_head.forward(features), state

    def acting(self) -> tuple[nn.Module, ...]:
        """The modules that `policy` runs."""
        return self.actor, self.policy_head

    def forward(self, inputs: Inputs, state: Any) -> tuple[Any, Tensor, Any]:
        """What learning needs: policy and value.

        Args:
            inputs: [T, B, ...]; without memory any leading dimensions.
            state: as fed at the first row.

        Returns:
            The policy's parameters, the value [T, B], and the state of the row after the last.
        """
        if self.critic is None:
            features, state = self.actor(inputs, state)
            return self.policy_head(features), self.value_head(features), state
        actor_state, critic_state = state or ((), ())
        features, actor_state = self.actor(inputs, actor_state)
        parameters = self.policy_head(features)
        features, critic_state = self.critic(inputs, critic_state)
        value = self.value_head(features)
        return parameters, value, (actor_state, critic_state) if state else ()

    def join(self, acted: Any, learned: Any) -> Any:
        """The state with the actor's part from `acted` and the critic's from `learned`."""
        if self.critic is None or not acted:
            return acted
        return acted[0], learned[1]
