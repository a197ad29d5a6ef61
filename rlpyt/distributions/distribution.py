"""What a policy needs to know of a probability distribution over actions."""

from typing import Any, Protocol

from torch import Tensor


class Distribution(Protocol):
    """A family of distributions over one space of actions; holds sizes, no tensors.

    Everything is a function of `parameters`, which a policy head makes from its outputs:
    logits, or (mean, log_std), or a tuple of these for an action of several parts.
    Actions have the form in which rows store them. `...` are any leading dimensions.
    """

    size: int
    """Outputs of the policy head, [..., size]."""
    scales: int
    """Elements of log_std, which are given beside the outputs; 0 for discrete actions."""
    mask_size: int
    """Elements of an action mask; 0 where nothing can be masked."""
    uniforms: int
    """Uniform numbers that one action takes."""
    normals: int
    """Normal numbers that one action takes."""

    def parameters(self, output: Tensor, log_std: Tensor, /) -> Any:
        """Parameters from output [..., size] and log_std [..., scales] or [scales]."""
        ...

    def sample(self, parameters: Any, noise: Tensor | None, /) -> Any:
        """The action that noise [..., uniforms + normals] draws; without noise the most likely.

        Uniform numbers come first and lie in [0, 1). An action of probability 0 is never drawn.
        """
        ...

    def log_prob(self, parameters: Any, action: Any, /) -> Tensor:
        """Log-probability (density) of the whole action, [...]."""
        ...

    def log_prob_entropy(self, parameters: Any, action: Any, /) -> tuple[Tensor, Tensor]:
        """Log-probability of the action and entropy of the distribution, each [...]."""
        ...

    def kl(self, p: Any, q: Any, /) -> Tensor:
        """Kullback-Leibler divergence of q from p, E_p[log p - log q], [...]."""
        ...

    def mask(self, parameters: Any, mask: Tensor, /) -> Any:
        """Parameters that give probability 0 where mask [..., mask_size] is False."""
        ...
