"""The agent of discrete soft actor-critic: it draws one of n actions, and values all of them."""

from __future__ import annotations

from math import log
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.q_learning import random_action
from rlpyt.agents.q_value import Draw, QValueAgent, copies
from rlpyt.algos.options import QValueOptions
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.spec import Discrete, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.rows import Inputs


@final
class CategoricalAgent(QValueAgent):
    """Draws actions [B] int64 by their probabilities, none that is masked; the most it tells of
    itself is the likeliest."""

    def _take_actions(self, env_spec: EnvSpec) -> None:
        assert isinstance(env_spec.action, Discrete)
        self.distribution = Categorical(env_spec.action.n)
        self.action_shape, self.uniforms, self.normals = (), 1, 0
        self.drawn = 1, 0

    def _make_policy(self, options: QValueOptions) -> int:
        if options.values != "expected":
            raise UsageError(
                f"values={options.values} and one Discrete choice: sac's targets are then means "
                "over actions, of expected values; choose --values expected"
            )
        most, wanted = log(self.distribution.size), getattr(options, "target_entropy", None)
        if wanted is not None and not 0 <= wanted < most:
            raise UsageError(
                f"target_entropy={wanted} of {self.distribution.size} actions, whose entropy is at "
                f"least 0 and at most {most:.3f}: the temperature would rise or fall without end; "
                "choose one between"
            )
        self.outputs = self.distribution.size
        return 0

    def _targets(self, actor: Any, critics: Any) -> tuple[Any, Any]:
        if getattr(critics, "joint", False):
            raise UsageError(
                "batch_norm and one Discrete choice: CrossQ is of actions that joint critics read; "
                "choose --no-batch-norm, or --layer-norm"
            )
        if getattr(critics, "values_states", False):
            raise UsageError(
                "value_network and one Discrete choice: V is then a mean over its actions, which "
                "is computed; choose --no-value-network"
            )
        return None, copies((critics,))[0]

    def draws(self, noise: np.ndarray, columns: slice | None = None) -> list[Draw]:
        if not self._random:
            return self.explored(noise)
        return [Draw(x, None) for x in torch.from_numpy(noise).unbind()]

    def _noise(self, normals: np.ndarray) -> np.ndarray:
        return normals  # uniforms [T, B, 1], of which there are no others

    def _at_random(self, drawn: Tensor, inputs: Inputs) -> Tensor:
        return random_action(drawn[..., 0], self.distribution.size, inputs.mask)

    def _answer(
        self, output: Tensor, noise: Tensor | None, process: Any, inputs: Inputs
    ) -> tuple[Tensor, Any]:
        return self.distribution.sample(self._allowed(output, inputs), noise), process

    def log_policy(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """The logarithm of every action's probability [..., n], and the state fed at the row after
        the last; far below 0 where an action is masked."""
        output, state = self._run(self.actor, inputs, state)
        return self._allowed(output, inputs).log_softmax(-1), state

    def z(
        self,
        inputs: Inputs,
        state: Any,
        action: Tensor | None,
        frozen: bool = False,
        count: int | None = None,
        masks: Any = None,
        counted: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """As `QValueAgent.z`, of action [...] int64; None: of all actions, [C, ..., n, K]."""
        z, state = super().z(inputs, state, None, frozen, count, masks, counted)
        if action is None:
            return z, state
        at = action[..., None, None].expand(*z.shape[:-2], 1, z.shape[-1])
        return z.gather(-2, at).squeeze(-2), state

    def _allowed(self, logits: Tensor, inputs: Inputs) -> Tensor:
        return logits if inputs.mask is None else self.distribution.mask(logits, inputs.mask)
