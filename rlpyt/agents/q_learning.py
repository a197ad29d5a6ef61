"""The agent of Q-learning: epsilon-greedy on the returns of every action, with a target network."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.calls import call, read
from rlpyt.agents.exploration import Epsilon
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.algos.options import QLearningOptions
from rlpyt.arrays import NamedArrayTuple
from rlpyt.functional.q_values import masked_q
from rlpyt.returns import Returns
from rlpyt.rows import Inputs

UNIFORMS = 2
"""Uniform numbers that one action takes: whether it is random, and which it is then."""


class Model(Protocol):
    """What the agent asks of its network: `models.QNetwork`, or a module of the user's.

    Without noise it has its mean weights; without fractions those that choose an action.
    """

    reads: frozenset[str]
    noise: int  # normal numbers that one draw of its noisy layers takes; 0 without any

    def initial_state(self, batch: int) -> Any: ...
    def __call__(
        self, inputs: Inputs, state: Any, noise: Tensor | None, fractions: Tensor | None, /
    ) -> tuple[Tensor, Any]: ...


class Draw(NamedTuple):
    """What is random about the answer to one row."""

    random: tuple[Tensor, Tensor] | None  # [B] who explores, [B] in [0, 1) how; None: nobody does
    normals: Tensor | None  # [B, normals] of the noisy layers; None: their mean weights


GREEDY = Draw(None, None)


class QKept(NamedArrayTuple):
    """What acting keeps where new items get their error as priority."""

    taken: Any  # [B] value of the action that was taken
    best: Any  # [B] greatest value of an allowed action


@final
class QLearningAgent(nn.Module):
    """Acts epsilon-greedily and values actions, with the trained network and with its target.

    Args:
        model: gives the returns of every action.
        returns: what its outputs mean.
        num_envs: B, the training environments, each with an epsilon of its own.
        options: exploration, and how new items get their priority.
        normalizer: of observations, or None.
        precision: "bf16" runs the networks in autocast; what they give is float32 all the same.
    """

    epsilon: np.ndarray
    """[B] float32 probability of a random action; a function of env steps, so it is not saved."""

    uniforms = UNIFORMS

    def __init__(
        self,
        model: Model,
        returns: Returns,
        num_envs: int,
        options: QLearningOptions,
        normalizer: ObservationNormalizer | None = None,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.target: Any = copy.deepcopy(model)
        for parameter in self.target.parameters():
            parameter.requires_grad_(False)
        self.returns, self.options, self.normalizer = returns, options, normalizer
        self.precision = precision
        self.normals = model.noise
        self.keeps = options.prioritized and options.priority_entry == "td"
        self.device = torch.device("cpu")
        self._plain = normalizer is None  # what is read is given as it is: on the CPU, too
        self.__dict__ |= {"model": self.model, "target": self.target}  # without __getattr__: faster
        self.share(num_envs, range(num_envs))

    def share(self, num_envs: int, columns: range) -> None:
        """Explore as these columns among the environments of all ranks, num_envs in all."""
        self._schedule, self._own = Epsilon(self.options, num_envs), columns
        self.set_exploration(0)

    def acting(self) -> list[nn.Module]:
        """What answers follow from: all but the target; see `samplers.published`."""
        return [self.model] if self.normalizer is None else [self.model, self.normalizer]

    def example_kept(self) -> Any:
        """What a row keeps beside the action, without leading dimensions."""
        zero = np.zeros((), np.float32)
        return QKept(zero, zero) if self.keeps else ()

    def kept_state(self, state: Any) -> Any:
        """What of a state a replay keeps: all."""
        return state

    def to_device(self, device: torch.device) -> None:
        self.device = device
        self._plain = self.normalizer is None and device.type == "cpu"
        self.to(device)

    def read(self, inputs: Inputs) -> Inputs:
        """The inputs on the agent's device, observations normalized."""
        return inputs if self._plain else read(inputs, self.normalizer, self.device)

    def set_exploration(self, env_steps: int) -> None:
        """Take up the epsilons of the window that begins at so many environment steps."""
        self._everywhere = self._schedule(env_steps)
        self.epsilon = self._everywhere[self._own.start : self._own.stop]

    @property
    def mean_epsilon(self) -> float:
        """Over the environments of all ranks."""
        return float(self._everywhere.mean())

    def draws(self, noise: np.ndarray, columns: slice | None = None) -> list[Draw | None]:
        """What `act` takes at each row of a window, at the epsilons of now.

        Args:
            noise: [T, B, 2 + normals] (`noise.Noise`), of the training environments.
            columns: which of those it is of; None: of all.
        """
        epsilon = self.epsilon if columns is None else self.epsilon[columns]
        return draws(noise, epsilon, self.normals, self.device)

    def act(self, inputs: Inputs, state: Any, draw: Draw | None) -> tuple[Tensor, Any, Any]:
        """Answer one row.

        Args:
            inputs: [B, ...].
            state: as fed at this row; the model resets it where `first`.
            draw: of `draws`; None is greedy, with the mean weights.

        Returns:
            action [B] int64, what to keep beside it (`QKept` or nothing), the state fed next.
        """
        if not self._plain:
            inputs = self.read(inputs)
        random, normals = draw or GREEDY
        z, state = self.z(inputs, state, normals)
        value = masked_q(self.returns.value(z), inputs.mask)  # [B, A]
        action = value.argmax(-1)
        if random is not None:
            explores, uniform = random
            drawn = random_action(uniform, value.shape[1], inputs.mask)
            action = torch.where(explores, drawn, action)
        if not self.keeps:
            return action, (), state
        taken = value.gather(1, action.unsqueeze(1)).squeeze(1)
        return action, QKept(taken, value.amax(1)), state

    def evaluation(self, stochastic: bool) -> EvaluatedAgent:
        """Who answers others than the training environments.

        Args:
            stochastic: with training's mean epsilon and with noise; else with `eval_epsilon` alone.
        """
        return EvaluatedAgent(self, None if stochastic else self.options.eval_epsilon)

    def z(
        self,
        inputs: Inputs,
        state: Any,
        noise: Tensor | None = None,
        fractions: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """What the trained network says of every action's return.

        Args:
            inputs: [T, B, ...] or [B, ...], already read().
            state: as fed at the first row.
            noise: [normals] one draw of the noisy layers for all rows, or [B, normals] one for
                each; None takes their mean weights.
            fractions: [..., K] of implicit quantiles; None takes those of a greedy choice.

        Returns:
            z [..., A, N], and the state fed at the row after the last.
        """
        return call(self.model, self.precision, self.device, inputs, state, noise, fractions)

    def target_z(
        self,
        inputs: Inputs,
        state: Any,
        noise: Tensor | None = None,
        fractions: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The same of the target network."""
        return call(self.target, self.precision, self.device, inputs, state, noise, fractions)


@final
class EvaluatedAgent:
    """Answers any number of environments with one epsilon, and keeps nothing beside actions.

    Args:
        agent: answers.
        epsilon: probability of a random action, with the mean weights of noisy layers; None: the
            mean of training's, with noise.
    """

    uniforms = UNIFORMS

    def __init__(self, agent: QLearningAgent, epsilon: float | None) -> None:
        self.agent, self.epsilon = agent, epsilon
        self.model, self.precision, self.acting = agent.model, agent.precision, agent.acting
        self.normals = agent.normals if epsilon is None else 0

    def draws(self, noise: np.ndarray) -> list[Draw | None]:
        """What `act` takes at each row, of noise [T, B, 2 + normals]."""
        agent = self.agent
        epsilon = agent.mean_epsilon if self.epsilon is None else self.epsilon
        return draws(noise, epsilon, self.normals, agent.device)

    def act(self, inputs: Inputs, state: Any, draw: Draw | None) -> tuple[Tensor, Any, Any]:
        """Answer one row; see `QLearningAgent.act`."""
        action, _, state = self.agent.act(inputs, state, draw)
        return action, (), state


def draws(
    noise: np.ndarray, epsilon: np.ndarray | float, normals: int, device: torch.device
) -> list[Draw | None]:
    """What is random about each row of a window; None where nothing is.

    Looked at for all rows at once: row by row it would take as long as a small network does.

    Args:
        noise: [T, B, 2 or more]: who explores, which action it is then, normals.
        epsilon: [B] or a number.
        normals: how many the noisy layers take.
    """
    explore: np.ndarray = noise[..., 0] < epsilon  # [T, B]
    if not normals and not np.count_nonzero(explore):
        return [None] * len(noise)
    given, explores = torch.from_numpy(noise).to(device), torch.from_numpy(explore).to(device)
    made: list[Draw | None] = []
    for t, some in enumerate(np.any(explore, axis=1).tolist()):
        random = (explores[t], given[t, :, 1]) if some else None
        own = given[t, :, UNIFORMS:] if normals else None
        made.append(Draw(random, own) if some or normals else None)
    return made


def random_action(uniform: Tensor, actions: int, mask: Tensor | None) -> Tensor:
    """The action that a uniform number draws among those allowed, each as likely.

    u < 1 gives floor(u k) < k, also when rounded: k - k 2^-24 is never rounded up to k.

    Args:
        uniform: [...] float32 in [0, 1).
        actions: A.
        mask: [..., A] allowed actions; where none is (an episode's final row), all are. None: all.

    Returns:
        [...] int64.
    """
    if mask is None:
        return (uniform * actions).long()
    allowed = mask | ~mask.any(-1, keepdim=True)
    place = (uniform * allowed.sum(-1)).long()  # 0-based, among the allowed
    return (allowed.cumsum(-1) <= place.unsqueeze(-1)).sum(-1)
