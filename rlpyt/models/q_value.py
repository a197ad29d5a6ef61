"""An actor and critics: what DDPG, TD3, D4PG and SAC train."""

from __future__ import annotations

from math import prod
from typing import Any, Protocol, final

from torch import Tensor, nn

from rlpyt.algos.options import DDPGOptions, QValueOptions
from rlpyt.arrays import NamedArrayTuple, tree_leaves
from rlpyt.envs.spec import Discrete, EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models.actor import Actor
from rlpyt.models.critics import Critics, bounded, shares_trunk
from rlpyt.models.options import ActorQOptions
from rlpyt.models.parallel import Chosen
from rlpyt.returns import CategoricalReturn, Expected, QuantileReturn, Returns
from rlpyt.rows import Inputs


class ActorModel(Protocol):
    """What the agent asks of its actor: `models.Actor`, or a module of the user's.

    It may offer `shares_trunk` = True: its state is the critics', and is fed to it with theirs.
    Beside joint critics it takes the rows that its normalization is of, as `models.Actor` does.
    """

    reads: frozenset[str]

    def initial_state(self, batch: int) -> Any: ...
    def __call__(self, inputs: Inputs, state: Any, /) -> tuple[Tensor, Any]: ...


class CriticsModel(Protocol):
    """What the agent asks of its critics: `models.Critics`, or a module of the user's.

    Of one Discrete choice no action is given, and the returns are of all n, [C, ..., n, K]. What
    `models.Critics` takes beyond this goes with what it offers: `masks`, which draws what its
    dropout drops, `joint` = True, by which there is no copy of it for targets, and `values_states`
    = True, by which targets are made of `valued`. `acting()` gives the modules that `features`
    runs, where those are not all.
    """

    reads: frozenset[str]

    def initial_state(self, batch: int) -> Any: ...
    def features(self, inputs: Inputs, state: Any, /) -> tuple[Tensor, Any]: ...
    def __call__(
        self, inputs: Inputs, state: Any, action: Tensor | None, frozen: bool, chosen: Chosen, /
    ) -> tuple[Tensor, Any]: ...


class QValueState(NamedArrayTuple):
    """What is fed to the next row; each is () where there is nothing to remember."""

    actor: Any  # of its memory; () also where it shares the critics'
    critics: Any  # of theirs
    process: Any  # [B, d] of an Ornstein-Uhlenbeck process


@final
class Networks(nn.Module):
    """An actor and critics, as acting and saving see them.

    Args:
        actor, critics: of which it consists.
        process: elements of a process of the exploration, or 0.
    """

    def __init__(self, actor: Any, critics: Any, process: int) -> None:
        super().__init__()
        self.actor, self.critics, self._process = actor, critics, process
        self._shared = bool(getattr(actor, "shares_trunk", False))
        self.reads = actor.reads | critics.reads | ({"first"} if process else set())

    def initial_state(self, batch: int) -> Any:
        """The state before the first row, leading dimension [batch]; () without any memory."""
        zeros = next(self.parameters()).new_zeros
        state = QValueState(
            actor=() if self._shared else self.actor.initial_state(batch),
            critics=self.critics.initial_state(batch),
            process=zeros(batch, self._process) if self._process else (),
        )
        return state if tree_leaves(state) else ()


def make_networks(
    env_spec: EnvSpec, returns: Returns, algo: QValueOptions, options: ActorQOptions
) -> tuple[Actor, Critics]:
    """The actor and the critics that these options ask for.

    Args:
        returns: what the critics' outputs mean.
        algo, options: of the algorithm, and of the networks.
    """
    squashed, space = not isinstance(algo, DDPGOptions), env_spec.action
    outputs = constant = 0
    if squashed and isinstance(space, Discrete):
        if not options.state_dependent_std:
            raise UsageError(
                "state_dependent_std=False and one Discrete choice, whose policy has probabilities "
                "and no deviation; leave it out"
            )
        outputs = space.n
    else:
        size = prod(bounded(env_spec).shape)
        outputs = 2 * size if squashed else size
        constant = size if squashed and not options.state_dependent_std else 0
    critics = Critics(env_spec, returns, algo.critics, options)
    shared = critics.trunk if shares_trunk(env_spec, options) else None
    actor = Actor(env_spec, outputs, options, shared=shared, constant=constant)
    return actor, critics


def make_returns(options: QValueOptions) -> Returns:
    """What critics learn of returns, as these options ask for it."""
    match options.values:
        case "expected":
            return Expected(options.critic_loss, options.huber_delta)
        case "categorical":
            return CategoricalReturn(options.num_atoms, options.v_min, options.v_max)
        case "quantile":
            return QuantileReturn(options.num_quantiles, options.huber_delta)
