"""Agents that choose numbers between bounds: by a deterministic policy, or by a stochastic one."""

from __future__ import annotations

from math import log
from typing import Any, final

import numpy as np
from torch import Tensor

from rlpyt.agents.action_noise import exploration_noise
from rlpyt.agents.categorical import CategoricalAgent
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.q_value import QValueAgent, copies
from rlpyt.algos.options import DDPGOptions, QValueOptions, SACOptions
from rlpyt.arrays import tree_leaves
from rlpyt.distributions.squashed import SquashedGaussian
from rlpyt.envs.spec import Discrete, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models.q_value import ActorModel, CriticsModel
from rlpyt.returns import Returns
from rlpyt.rows import Inputs


@final
class DeterministicAgent(QValueAgent):
    """Takes one action for each row, tanh of the actor's numbers, and explores with noise on it."""

    def _make_policy(self, options: QValueOptions) -> int:
        assert isinstance(options, DDPGOptions)
        self.exploration = exploration_noise(options)
        self.outputs = self.normals
        return self.normals if self.exploration.remembers else 0

    def _targets(self, actor: Any, critics: Any) -> tuple[Any, Any]:
        if getattr(critics, "joint", False):
            raise UsageError(
                "joint critics (batch_norm) are of sac, which then makes targets without target "
                "networks; choose sac, or --layer-norm"
            )
        if getattr(critics, "values_states", False):
            raise UsageError(
                "value_network is of sac, whose state values count entropy; choose sac, or "
                "--no-value-network"
            )
        return copies((actor, critics))  # together: the copies share the trunk that both share

    def _noise(self, normals: np.ndarray) -> np.ndarray:
        return self.exploration.std * normals

    def _answer(
        self, output: Tensor, noise: Tensor | None, process: Any, inputs: Inputs
    ) -> tuple[Tensor, Any]:
        action = output.tanh()
        if noise is not None:
            action, process = self.exploration.add(action, noise, process, inputs.first)
        return self._shaped(action), process

    def action(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """The policy's actions [..., *shape], and the state fed at the row after the last.

        Args:
            inputs: [T, B, ...] or [B, ...].
            state: the actor's, as fed at the first row.
        """
        output, state = self._run(self.actor, inputs, state)
        return self._shaped(output.tanh()), state

    def target_action(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        """The same of the target actor."""
        output, state = self._run(self.target_actor, inputs, state)
        return self._shaped(output.tanh()), state

    def _shaped(self, action: Tensor) -> Tensor:
        shape = self.action_shape
        return action if len(shape) == 1 else action.reshape(*action.shape[:-1], *shape)


@final
class SquashedAgent(QValueAgent):
    """Draws actions from a squashed Gaussian; the most it tells of itself is its median."""

    def _make_policy(self, options: QValueOptions) -> int:
        assert isinstance(options, SACOptions)
        if options.temperature is None:
            _check_entropy(options, self.normals)
        self.distribution = SquashedGaussian(self.action_shape)
        self.outputs = self.distribution.outputs
        return 0

    def _targets(self, actor: Any, critics: Any) -> tuple[Any, Any]:
        if not getattr(critics, "joint", False):
            return None, copies((critics,))[0]
        if tree_leaves(actor.initial_state(1)) or tree_leaves(critics.initial_state(1)):
            raise UsageError(
                "joint critics (batch_norm) and a memory: rows and those that they bootstrap from "
                "are read as one batch, and a memory reads them as one sequence; choose --memory "
                "none, or --layer-norm"
            )
        return None, None

    def _noise(self, normals: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(normals)

    def _answer(
        self, output: Tensor, noise: Tensor | None, process: Any, inputs: Inputs
    ) -> tuple[Tensor, Any]:
        distribution = self.distribution
        parameters = distribution.parameters(output)
        if noise is None:
            return distribution.mode(parameters), process
        return distribution.sample(parameters, noise), process

    def sample(
        self, inputs: Inputs, state: Any, noise: Tensor, counted: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Any]:
        """Actions of the policy, through which gradients flow.

        Args:
            inputs: [T, B, ...] or [B, ...].
            state: the actor's, as fed at the first row.
            noise: [..., d] or [..., *shape] normals.
            counted: [...] bool, rows that batch normalization is of; None: of those before.

        Returns:
            action [..., *shape], its log-density [...], and the state fed at the row after the
            last.
        """
        given = () if counted is None else (counted,)
        output, state = self._run(self.actor, inputs, state, *given)
        distribution = self.distribution
        action, log_prob = distribution.sample_log_prob(distribution.parameters(output), noise)
        return action, log_prob, state


def _check_entropy(options: SACOptions, size: int) -> None:
    """Refuse a target entropy that no policy of `size` numbers between -1 and 1 has."""
    wanted, most = options.target_entropy, size * log(2)
    if wanted is not None and wanted >= most:
        raise UsageError(
            f"target_entropy={wanted} of actions between -1 and 1 in {size} dimensions, whose "
            f"entropy is at most {most:.3f}: the temperature would rise without end; choose less"
        )
    if wanted is None and options.entropy_fraction != SACOptions.entropy_fraction:
        raise UsageError(
            f"entropy_fraction={options.entropy_fraction} is of one Discrete choice, and actions "
            "are numbers here; choose --target-entropy, or a preset of continuous actions such as "
            "--preset default"
        )


def make_agent(
    env_spec: EnvSpec,
    networks: tuple[ActorModel, CriticsModel],
    returns: Returns,
    algo: QValueOptions,
    normalizer: ObservationNormalizer | None = None,
    precision: str = "float32",
) -> QValueAgent:
    """The agent of these options: deterministic, or for SAC stochastic, of a Discrete choice too.

    Args:
        networks: of `make_networks`, or the user's.
        returns, algo, normalizer, precision: as `QValueAgent` takes them.
    """
    kind: Any = DeterministicAgent if isinstance(algo, DDPGOptions) else SquashedAgent
    if kind is SquashedAgent and isinstance(env_spec.action, Discrete):
        kind = CategoricalAgent
    return kind(env_spec, *networks, returns, algo, normalizer, precision)
