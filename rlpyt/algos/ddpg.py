"""Deep deterministic policy gradient (Lillicrap et al., 2016, algorithm 1)."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rlpyt.algos.deterministic import DeterministicLearning
from rlpyt.algos.q_value import Draws
from rlpyt.algos.q_value_batch import Batch


@final
class DDPG(DeterministicLearning):
    """One critic; the actor climbs it (eq. 6). See `DDPGOptions`."""

    def following(self, batch: Batch, draws: Draws) -> tuple[Tensor, None]:
        """Q'(s', mu'(s')): the target critic's returns of the target actor's actions (eq. 5)."""
        return self.target_returns(batch, self.target_action(batch), draws), None
