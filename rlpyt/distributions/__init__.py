"""Probability distributions over actions: pure functions of parameters and given noise."""

from rlpyt.distributions.bernoulli import Bernoulli
from rlpyt.distributions.categorical import Categorical
from rlpyt.distributions.composite import Composite
from rlpyt.distributions.distribution import Distribution
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.envs import spec as specs
from rlpyt.errors import UsageError

__all__ = [
    "Bernoulli",
    "Categorical",
    "Composite",
    "Distribution",
    "Gaussian",
    "MultiCategorical",
    "for_action",
]


def for_action(spec: specs.Spec) -> Distribution:
    """The distribution over the actions of a space."""
    match spec:
        case specs.Discrete():
            return Categorical(spec.n)
        case specs.MultiDiscrete():
            return MultiCategorical(spec.nvec)
        case specs.MultiBinary():
            return Bernoulli(spec.shape)
        case specs.Box():
            return Gaussian(spec.shape)
        case specs.Composite() if spec.parts:
            return Composite([for_action(part) for part in spec.parts], spec.names)
    raise UsageError(
        f"there is no distribution over actions of {spec!r}; "
        "use Discrete, MultiDiscrete, MultiBinary, Box, or a non-empty Dict or Tuple of these"
    )
