"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018, algorithm 1)."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.deterministic import DeterministicLearning
from rlpyt.algos.q_value import Draws
from rlpyt.algos.q_value_batch import Batch
from rlpyt.algos.replay_learning import Items


@final
class TD3(DeterministicLearning):
    """DDPG with the lesser of two critics, an actor that is updated less often, and targets of
    actions that are smoothed. See `TD3Options`."""

    def draw(self, items: Items) -> Draws:
        return super().draw(items).replace(following=self.following_normals(items))

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """min_i Q_i'(s', mu'(s') + clip(noise)), the action clipped to its bounds (eq. 10, 14)."""
        options = self.options
        clip = options.target_noise_clip
        noise = (options.target_noise * draws.following).clamp(-clip, clip)
        # Unit coordinates span [low, high].
        action = (self.target_action(batch) + noise).clamp(-1, 1)
        return self.target_returns(batch, action, draws), None
