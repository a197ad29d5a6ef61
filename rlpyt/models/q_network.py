"""The returns of every action: encoder, memory and a head put together."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor, nn

from rlpyt.envs.spec import Discrete, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models.heads import FractionEmbedding, ReturnsHead
from rlpyt.models.layers import plain_attributes
from rlpyt.models.options import QNetworkOptions
from rlpyt.models.trunk import Trunk
from rlpyt.returns import Returns
from rlpyt.rows import Inputs


@final
class QNetwork(nn.Module):
    """What is returned after each of the actions that there are to choose from.

    Its noise (Fortunato et al., 2018) is that of the head's layers. The state is () without
    memory, else a tuple of tensors [B, size].

    Args:
        env_spec: observations, actions, frame stack.
        returns: how many numbers describe a return, and whether they are at fractions given.
        options: of the network.
        encoder: takes the place of the encoder: any module that maps an observation [N, ...] to
            [N, features].
    """

    greedy: Tensor

    def __init__(
        self,
        env_spec: EnvSpec,
        returns: Returns,
        options: QNetworkOptions,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        actions = _choices(env_spec)
        self.trunk = Trunk(env_spec, options, encoder, options.image_linear)
        features = self.trunk.features
        self.embedding: FractionEmbedding | None = None
        greedy = returns.greedy_fractions()
        if greedy is not None:
            self.embedding = FractionEmbedding(features, options)
            self.register_buffer("greedy", greedy, persistent=False)
        self.head = ReturnsHead(actions, returns.outputs, features, options)
        self.reads = self.trunk.reads
        self.noise = self.head.noise
        plain_attributes(self)

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]."""
        return self.trunk.initial_state(batch)

    def __call__(self, *args: Any) -> tuple[Tensor, Any]:
        """`forward`, without nn.Module's search for hooks, a tenth of a small network's pass."""
        return self.forward(*args)

    def forward(
        self,
        inputs: Inputs,
        state: Any,
        noise: Tensor | None = None,
        fractions: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The numbers z [..., A, N] of N fractions, atoms, ..., and the state of the row after.

        Args:
            inputs: [T, B, ...] or [B, ...]; without memory any leading dimensions.
            state: as fed at the first row.
            noise: normals of the noisy layers; [noise] one draw for all rows, [B, noise] (or
                any that broadcasts over rows) one for each; None: the mean weights.
            fractions: of implicit quantiles, [..., N] or [N] for all rows, in (0, 1); None: evenly
                spaced, those of a greedy choice.
        """
        # (forward, below it too: see ActorCritic.policy)
        features, state = self.trunk.forward(inputs, state)
        if self.embedding is None:
            return self.head.forward(features, noise), state
        fractions = self.greedy if fractions is None else fractions.to(features.device)
        features = self.embedding(features, fractions)
        if noise is not None and noise.dim() > 1:
            noise = noise.unsqueeze(-2)  # a row's fractions share its noise
        z = self.head.forward(features, noise)  # [..., N, A, 1]
        return z.squeeze(-1).transpose(-1, -2), state


def _choices(env_spec: EnvSpec) -> int:
    """A, of an environment whose actions are one choice."""
    match env_spec.action:
        case Discrete(n):
            return n
        case space:
            raise UsageError(
                f"{env_spec.id} has actions of {space!r}, and Q-learning values each of the "
                "choices of a Discrete space; choose ppo or a2c, which act in any space"
            )
