"""The agent of policy-gradient methods: a policy and a value, feed-forward or recurrent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.calls import call, read
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.arrays import NamedArrayTuple, tree_leaves
from rlpyt.distributions import Distribution
from rlpyt.rows import Inputs


class Model(Protocol):
    """What the agent asks of its network: `models.ActorCritic`, or a module of the user's.

    It may offer three more. `shares_trunk` = True: acting calls the whole network and keeps values.
    `join(acted, learned)`, where `policy` does not carry all of the state on: the state that it
    returned, completed from the one that the whole network returned for the same rows. `acting()`,
    where `policy` does not run all of the network: the modules that it runs.
    """

    reads: frozenset[str]

    def initial_state(self, batch: int) -> Any: ...
    def policy(self, inputs: Inputs, state: Any) -> tuple[Any, Any]: ...
    def __call__(self, inputs: Inputs, state: Any) -> tuple[Any, Tensor, Any]: ...


class Kept(NamedArrayTuple):
    """What acting keeps beside the action where the value costs nothing more."""

    log_prob: Any  # [B]
    value: Any  # [B]


class Behaviour(NamedArrayTuple):
    """What acting keeps beside the action for a learner whose weights may be newer."""

    log_prob: Any  # [B]


class Assessment(NamedArrayTuple):
    """What the agent thinks of rows and of the actions taken there."""

    log_prob: Any  # [...]
    entropy: Any  # [...]
    value: Any  # [...]
    parameters: Any  # of the policy's distribution


class PolicyGradientAgent(nn.Module):
    """Acts from a policy's distribution and assesses what was done.

    With separate trunks acting computes the action and nothing else; log-probabilities and values
    of a window come from one forward pass of the learner. With a shared trunk, which is most of
    the work with images, acting keeps them and saves that pass.

    A learner whose weights may be newer than those that acted can find neither the behaviour's
    log-probabilities nor what its memories held: acting then keeps the former, and runs all of a
    network that has a memory.

    Args:
        model: gives the distribution's parameters and a value.
        distribution: of the actions.
        normalizer: of observations, or None.
        precision: "bf16" runs the network in autocast; what it gives is float32 all the same.
        behaviour: whether the learner's weights may be newer.
    """

    def __init__(
        self,
        model: Model,
        distribution: Distribution,
        normalizer: ObservationNormalizer | None = None,
        precision: str = "float32",
        behaviour: bool = False,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.distribution = distribution
        self.normalizer = normalizer
        self.precision = precision
        self.uniforms, self.normals = distribution.uniforms, distribution.normals
        shares_trunk = bool(getattr(model, "shares_trunk", False))
        self.behaviour = behaviour
        self.keeps = shares_trunk and not behaviour
        # Of what `join` completes no learner of newer weights knows what it was when acting.
        parted = behaviour and not shares_trunk and hasattr(model, "join")
        self._whole = self.keeps or (parted and bool(tree_leaves(model.initial_state(1))))
        self.device = torch.device("cpu")
        self._plain = normalizer is None  # what is read is given as it is: on the CPU, too
        # Found without nn.Module.__getattr__, which is 4 % of sampling CartPole; so are 3 % below,
        # where what `read` and `call` would do nothing of is not called.
        self.__dict__["model"] = model

    def acting(self) -> list[nn.Module]:
        """What answers follow from; see `samplers.published`."""
        parts = None if self._whole else getattr(self.model, "acting", None)
        found = [self.model] if parts is None else [*parts()]
        return found if self.normalizer is None else [*found, self.normalizer]

    def example_kept(self) -> Any:
        """What a row keeps beside the action, without leading dimensions."""
        zero = np.zeros((), np.float32)
        if self.behaviour:
            return Behaviour(zero)
        return Kept(zero, zero) if self.keeps else ()

    def to_device(self, device: torch.device) -> None:
        self.device = device
        self._plain = self.normalizer is None and device.type == "cpu"
        self.to(device)

    def read(self, inputs: Inputs) -> Inputs:
        """The inputs on the agent's device, observations normalized."""
        return inputs if self._plain else read(inputs, self.normalizer, self.device)

    def set_exploration(self, env_steps: int) -> None:
        """Nothing: a policy explores by what it learned, at any number of environment steps."""

    def evaluation(self, stochastic: bool) -> PolicyGradientAgent:
        """Who acts in evaluations: this agent, given noise if they are stochastic, else none."""
        return self

    def draws(self, noise: np.ndarray, columns: slice | None = None) -> Sequence[Tensor]:
        """What `act` takes at each row of a window, of noise [T, B, uniforms + normals].

        Args:
            columns: whose noise it is; of no matter, all environments are answered alike.
        """
        return torch.from_numpy(noise).to(self.device).unbind()

    def act(self, inputs: Inputs, state: Any, draw: Tensor | None) -> tuple[Any, Any, Any]:
        """Answer one row.

        Args:
            inputs: [B, ...].
            state: as fed at this row; the model resets it where `first`.
            draw: [B, uniforms + normals] of `draws`; None takes the most likely action.

        Returns:
            action [B, ...], what to keep beside it (`Kept`, `Behaviour` or nothing), the state fed
            next.
        """
        inputs = self.read(inputs)
        value: Any = None
        if self._whole and draw is not None:
            parameters, value, state = self._run(self.model, inputs, state)
        else:
            parameters, state = self._run(self.model.policy, inputs, state)
        parameters = self._masked(parameters, inputs)
        action = self.distribution.sample(parameters, draw)
        if draw is None or not (self.keeps or self.behaviour):
            return action, (), state
        log_prob = self.distribution.log_prob(parameters, action)
        return action, Behaviour(log_prob) if self.behaviour else Kept(log_prob, value), state

    def join(self, acted: Any, learned: Any) -> Any:
        """The state as acting left it, with the parts that only learning finds (a critic's)."""
        join = getattr(self.model, "join", None)
        return acted if join is None else join(acted, learned)

    def value(self, inputs: Inputs, state: Any) -> Tensor:
        """Values [T, B] of rows, already read()."""
        return self._run(self.model, inputs, state)[1]

    def assess(self, inputs: Inputs, state: Any, action: Any) -> tuple[Assessment, Any]:
        """Log-probability and entropy of rows' actions and the rows' values.

        Args:
            inputs: [T, B, ...], or [N, ...] without memory; already read().
            state: as fed at the first row.
            action: [T, B, ...] or [N, ...].

        Returns:
            The assessment, and the state fed at the row after the last.
        """
        parameters, value, state = self._run(self.model, inputs, state)
        parameters = self._masked(parameters, inputs)
        log_prob, entropy = self.distribution.log_prob_entropy(parameters, action)
        return Assessment(log_prob, entropy, value, parameters), state

    def _masked(self, parameters: Any, inputs: Inputs) -> Any:
        if inputs.mask is None:
            return parameters
        return self.distribution.mask(parameters, inputs.mask)

    def _run(self, network: Any, inputs: Inputs, state: Any) -> Any:
        if self.precision == "float32":
            return network(inputs, state)
        return call(network, self.precision, self.device, inputs, state)
