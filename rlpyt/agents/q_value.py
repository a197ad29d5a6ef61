"""The agents of Q-value policy gradients: an actor, critics of its actions, and their targets."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from math import prod
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.calls import call, read
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.algos.options import QValueOptions
from rlpyt.arrays import tree_leaves
from rlpyt.envs.spec import EnvSpec
from rlpyt.models.critics import bounded
from rlpyt.models.q_value import ActorModel, CriticsModel, Networks, QValueState
from rlpyt.returns import Returns
from rlpyt.rows import Inputs


class Draw(NamedTuple):
    """What is random about the answer to one row."""

    action: Tensor | None  # [B, *shape] taken in place of the actor's; None: the actor answers
    noise: Tensor | None  # [B, d] normals, of a deterministic policy times their std; None: none


NOTHING = Draw(None, None)


class QValueAgent(nn.Module, ABC):
    """Acts by an actor, and values actions with critics and with their targets.

    Actions are in units in which bounds are -1 and 1, or one Discrete choice. Until
    `options.warm_up` environment steps they are uniform there, whatever the actor says. What learns
    is given inputs that are read() already; a state is fed to networks in the parts that `states`
    finds.

    Args:
        env_spec: of the environments; actions must be what the agent's kind chooses.
        actor: gives the numbers that actions follow from.
        critics: give returns of actions.
        returns: what the critics' outputs mean.
        options: exploration.
        normalizer: of observations, or None.
        precision: "bf16" runs the networks in autocast; what they give is float32 all the same.
    """

    actor: Any
    critics: Any
    outputs: int
    """Numbers that the actor gives for one action."""
    drawn: tuple[int, int]
    """Of its `uniforms` and `normals`, those that exploring takes beyond the warm-up."""

    def __init__(
        self,
        env_spec: EnvSpec,
        actor: ActorModel,
        critics: CriticsModel,
        returns: Returns,
        options: QValueOptions,
        normalizer: ObservationNormalizer | None = None,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        self._take_actions(env_spec)
        self.returns, self.normalizer, self.precision = returns, normalizer, precision
        self.shares_trunk = bool(getattr(actor, "shares_trunk", False))
        self.device = torch.device("cpu")
        self._plain = normalizer is None  # what is read is given as it is: on the CPU, too
        self._warm_up = options.warm_up
        self.model: Any = Networks(actor, critics, self._make_policy(options))
        target_actor, target_critics = self._targets(actor, critics)
        self.target_actor: Any = target_actor  # None, where targets are made with the actor itself
        self.target_critics: Any = target_critics  # None, where the critics are their own
        self._valued = bool(tree_leaves(critics.initial_state(1)))  # critics remember
        self._recurrent = self._valued or bool(tree_leaves(actor.initial_state(1)))
        vars(self).update(  # found without nn.Module.__getattr__: faster
            model=self.model,
            actor=actor,
            critics=critics,
            target_actor=target_actor,
            target_critics=target_critics,
        )
        self.set_exploration(0)

    def _take_actions(self, env_spec: EnvSpec) -> None:
        """Take up what actions are."""
        self.action_shape: tuple[int, ...] = bounded(env_spec).shape
        self.uniforms = self.normals = prod(self.action_shape)
        self.drawn = 0, self.normals

    @abstractmethod
    def _make_policy(self, options: QValueOptions) -> int:
        """Make what actions follow from; returns the elements of a process that it goes by, or
        0."""

    @abstractmethod
    def _targets(self, actor: Any, critics: Any) -> tuple[Any, Any]:
        """Copies of the networks that targets are made with."""

    @abstractmethod
    def _noise(self, normals: np.ndarray) -> np.ndarray:
        """What `_answer` is given of normals [T, B, d]."""

    @abstractmethod
    def _answer(
        self, output: Tensor, noise: Tensor | None, process: Any, inputs: Inputs
    ) -> tuple[Tensor, Any]:
        """The action [B, *shape] that follows from the actor's numbers; the process after it."""

    def acting(self) -> list[nn.Module]:
        """What answers follow from, and states that rows keep; see `samplers.published`.

        The critics act by what the actor shares with them, and by a memory of their own.
        """
        found = [self.actor]
        if self.shares_trunk or self._valued:
            reading = getattr(self.critics, "acting", None)
            found += [self.critics] if reading is None else reading()
        return found if self.normalizer is None else [*found, self.normalizer]

    def example_kept(self) -> Any:
        """What a row keeps beside the action: nothing."""
        return ()

    def to_device(self, device: torch.device) -> None:
        self.device = device
        self._plain = self.normalizer is None and device.type == "cpu"
        self.to(device)

    def read(self, inputs: Inputs) -> Inputs:
        """The inputs on the agent's device, observations normalized."""
        return inputs if self._plain else read(inputs, self.normalizer, self.device)

    def set_exploration(self, env_steps: int) -> None:
        """Whether the window that begins at so many environment steps is answered at random.

        Nothing of it is saved: a resumed run asks with its environment steps and goes on.
        """
        self._random = env_steps < self._warm_up

    def draws(self, noise: np.ndarray, columns: slice | None = None) -> list[Draw]:
        """What `act` takes at each row of a window, made for all rows at once.

        Args:
            noise: [T, B, d uniforms + d normals] (`noise.Noise`).
            columns: whose noise it is; of no matter, all environments are answered alike.
        """
        if not self._random:
            return self.explored(noise[..., self.uniforms :])
        drawn = 2 * noise[..., : self.uniforms] - 1
        drawn = drawn.reshape(*drawn.shape[:2], *self.action_shape)
        return [Draw(x, None) for x in torch.from_numpy(drawn).unbind()]

    def explored(self, normals: np.ndarray) -> list[Draw]:
        """The same where the actor answers; of normals [T, B, d]."""
        noise = torch.from_numpy(self._noise(normals)).to(self.device)
        return [Draw(None, x) for x in noise.unbind()]

    def act(
        self, inputs: Inputs, state: Any, draw: Draw | None, *, learns: bool = True
    ) -> tuple[Tensor, Any, Any]:
        """Answer one row.

        Args:
            inputs: [B, ...].
            state: as fed at this row; the networks reset it where `first`.
            draw: of `draws`; None takes the action that the policy is centred on.
            learns: whether the critics' state is brought up to date, too: sequences begin with it.

        Returns:
            action [B, *shape], () to keep beside it, the state fed next.
        """
        action, noise = NOTHING if draw is None else draw
        if action is not None:
            action = self._at_random(action, inputs)
            if not self._recurrent:
                return action, (), state
        if not self._plain:
            inputs = self.read(inputs)
        fed, valued = self.states(state)
        process = state.process if state else ()
        output, fed = self._run(self.actor, inputs, fed)
        if action is None:
            action, process = self._answer(output, noise, process, inputs)
        if not state:
            return action, (), ()
        if self.shares_trunk:
            fed, valued = (), fed
        elif learns and self._valued:
            _, valued = self._run(self.critics.features, inputs, valued)
        return action, (), QValueState(fed, valued, process)

    def _at_random(self, drawn: Tensor, inputs: Inputs) -> Tensor:
        """The action of a row that is answered at random."""
        return drawn

    def evaluation(self, stochastic: bool) -> EvaluatedAgent:
        """Who answers others than the training environments.

        Args:
            stochastic: explore as in training; else the action that the policy is centred on.
        """
        return EvaluatedAgent(self, stochastic)

    def kept_state(self, state: Any) -> Any:
        """What of a state a replay keeps: all but the process of the exploration, which no update
        reads."""
        kept = state.replace(process=()) if state else ()
        return kept if tree_leaves(kept) else ()

    def states(self, state: Any) -> tuple[Any, Any]:
        """What of a state the actor is fed, and what the critics."""
        if not state:
            return (), ()
        return (state.critics if self.shares_trunk else state.actor), state.critics

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
        """What each of C critics says of the return of an action.

        Args:
            inputs: [T, B, ...] or [B, ...].
            state: the critics', as fed at the first row.
            action: [..., *shape] of each row.
            frozen: whether gradients reach the action alone: for the loss of the actor.
            count: of so many critics, the first ones; None: of all C.
            masks: which units of these critics stay, where others are dropped
                (`models.ensemble`); None: all.
            counted: [...] bool, rows that batch normalization is of; None: of those before.

        Returns:
            z [C, ..., K], and the state fed at the row after the last.
        """
        given = () if masks is None and counted is None else (masks, counted)
        return self._run(self.critics, inputs, state, action, frozen, count, *given)

    def target_z(
        self,
        inputs: Inputs,
        state: Any,
        action: Tensor | None,
        subset: Tensor | None = None,
        masks: Any = None,
    ) -> tuple[Tensor, Any]:
        """The same of the target critics: of all, or of those with the numbers [M] int64."""
        given = () if masks is None else (masks,)
        return self._run(self.target_critics, inputs, state, action, False, subset, *given)

    def state_value(self, inputs: Inputs, state: Any, target: bool = False) -> Tensor:
        """V of rows [..., 1], the critics' or the target critics'; inputs and state as `z`'s."""
        critics = self.target_critics if target else self.critics
        return self._run(critics.valued, inputs, state)[0]

    def _run(self, network: Any, *inputs: Any) -> Any:
        if self.precision == "float32":
            return network(*inputs)
        return call(network, self.precision, self.device, *inputs)


@final
class EvaluatedAgent:
    """Answers any number of environments, at any number of environment steps without warm-up.

    Args:
        agent: answers.
        stochastic: whether it explores, if it is given noise.
    """

    def __init__(self, agent: QValueAgent, stochastic: bool) -> None:
        self.agent, self.model = agent, agent.model
        self.precision, self.acting = agent.precision, agent.acting
        self.uniforms, self.normals = agent.drawn if stochastic else (0, 0)

    def draws(self, noise: np.ndarray) -> list[Draw | None]:
        """What `act` takes at each row, of noise [T, B, uniforms + normals]."""
        drawn = self.uniforms + self.normals
        return [*self.agent.explored(noise)] if drawn else [None] * len(noise)

    def act(self, inputs: Inputs, state: Any, draw: Draw | None) -> tuple[Tensor, Any, Any]:
        """Answer one row; see `QValueAgent.act`."""
        return self.agent.act(inputs, state, draw, learns=False)


def copies(networks: tuple[Any, ...]) -> tuple[Any, ...]:
    """Networks of the same weights, which no gradient reaches."""
    copies = copy.deepcopy(networks)
    for network in copies:
        for parameter in network.parameters():
            parameter.requires_grad_(False)
    return copies
