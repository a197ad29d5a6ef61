"""From a window of rows to what a policy-gradient loss reads: values, advantages, samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.options import A2COptions, PPOOptions
from rlpyt.algos.outcomes import OutcomeReader
from rlpyt.arrays import NamedArrayTuple, tree_map
from rlpyt.functional import gae
from rlpyt.rows import Inputs, Window
from rlpyt.storage import to_device

T = TypeVar("T")


class Sample(NamedArrayTuple):
    """What the loss reads, [T, B, ...]; as chunks of L rows [L, N, ...]."""

    inputs: Any
    action: Any
    log_prob: Any  # under the policy that acted
    value: Any  # of the critic that assessed
    advantage: Any
    target: Any  # of the value: advantage + value
    live: Any  # rows with a transition


class WindowReader:
    """Turns each window that the present weights collected into a Sample.

    Args:
        agent: assesses the rows.
        options: discount, lambda, what is done to rewards.
        num_envs: B.
    """

    def __init__(
        self, agent: PolicyGradientAgent, options: PPOOptions | A2COptions, num_envs: int
    ) -> None:
        self.agent, self.options = agent, options
        self.outcomes = OutcomeReader(options, num_envs)

    @torch.no_grad()
    def sample(self, window: Window) -> Sample:
        """Log-probabilities, values and advantages of a window, under the weights that acted.

        Also writes what only the learner knows of recurrent states (the critic's) into the
        window: at the kept rows and at the boundary row.
        """
        self.outcomes.merge(window)
        device = self.agent.device
        inputs = self.agent.read(window.inputs())
        action = to_device(window.tensors.action[:-1], device)
        if self.agent.keeps:
            log_prob, value = self._kept(window, inputs)
        else:
            log_prob, value = self._assess(window, inputs, action)
        advantage = self._advantage(window, value)
        sample = Sample(
            inputs=inputs[:-1],
            action=action,
            log_prob=log_prob,
            value=value[:-1],
            advantage=advantage,
            target=advantage + value[:-1],
            live=to_device(~window.tensors.last[:-1], device),
        )
        return silence(sample, ~sample.live)

    @torch.no_grad()
    def renew(self, sample: Sample, window: Window) -> Sample:
        """The sample with values and advantages under the present weights."""
        inputs = self.agent.read(window.inputs())
        value, _, _ = self._unroll(window, inputs, sample.action)
        advantage = self._advantage(window, value)
        target = advantage + value[:-1]
        sample = sample.replace(value=value[:-1], advantage=advantage, target=target)
        return silence(sample, ~sample.live)

    def _kept(self, window: Window, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """log_prob [T, B] and value [T+1, B] as acting kept them, and the boundary row's value."""
        kept, state = to_device((window.tensors.info[:-1], window.state), self.agent.device)
        return kept.log_prob, torch.cat([kept.value, self.agent.value(inputs[-1:], state)])

    def _assess(self, window: Window, inputs: Inputs, action: Any) -> tuple[Tensor, Tensor]:
        """log_prob [T, B] and value [T+1, B] under the weights that acted; completes states."""
        value, log_prob, states = self._unroll(window, inputs, action)
        for c, state in enumerate(states[:-1]):
            tree_map(lambda old, new: old.copy_(new), window.kept_state(c), state)
        window.state = states[-1]
        return log_prob, value

    def _unroll(
        self, window: Window, inputs: Inputs, action: Any
    ) -> tuple[Tensor, Tensor, list[Any]]:
        """Values [T+1, B], log_prob [T, B], and the states fed at every chunk and after the last.

        The actor's part of each state is the one that acting kept, the critic's is found here.
        """
        agent, length = self.agent, window.state_interval
        acted = [window.kept_state(c) for c in range(window.horizon // length)] + [window.state]
        states = [to_device(acted[0], agent.device)]
        log_probs, values = [], []
        for c, begin in enumerate(range(0, window.horizon, length)):
            rows = slice(begin, begin + length)
            assessed, learned = agent.assess(inputs[rows], states[c], action[rows])
            states.append(agent.join(to_device(acted[c + 1], agent.device), learned))
            log_probs.append(assessed.log_prob)
            values.append(assessed.value)
        values.append(agent.value(inputs[-1:], states[-1]))
        return torch.cat(values), torch.cat(log_probs), states

    def _advantage(self, window: Window, value: Tensor) -> Tensor:
        of = self.outcomes.read(window, value.device)
        return gae(of.reward, of.discount, of.last, value, self.options.gae_lambda)


def fold(rows: T, length: int) -> T:
    """Chunks of `length` rows: [T, B, ...] to [L, N, ...], N = T // L * B, chunk by chunk."""

    def chunk(x: Tensor) -> Tensor:
        chunks = x.unflatten(0, (-1, length)).transpose(0, 1)  # [L, C, B, ...]
        return chunks.flatten(1, 2)

    return tree_map(chunk, rows)


def minibatches(
    chunks: Sample, states: Any, count: int, generator: torch.Generator
) -> Iterator[tuple[Sample, Any]]:
    """Each chunk once, in `count` minibatches of nearly equal size and number of live rows.

    Args:
        chunks: [L, N, ...].
        states: [N, ...] as fed at the chunks' first rows.
    """
    order = shuffled(chunks.live, generator)
    for j in range(count):
        index = order[j::count]
        yield (
            tree_map(lambda x, i=index: x.index_select(1, i), chunks),
            tree_map(lambda x, i=index: x.index_select(0, i), states),
        )


def shuffled(live: Tensor, generator: torch.Generator) -> Tensor:
    """An order of chunks in which those with more live rows come first, random among equals.

    So minibatch j = order[j::M] has as many live rows as any other, to one chunk.

    Args:
        live: [L, N].
    """
    uniform = torch.rand(live.shape[1], generator=generator).to(live.device)
    return torch.argsort(uniform + (~live).sum(0))


def silence(rows: T, quiet: Tensor) -> T:
    """Zeros for numbers where nothing reads them: 0 times the slope of a NaN is NaN.

    Args:
        rows: [T, B, ...].
        quiet: [T, B] bool.
    """

    def zeroed(x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        return torch.where(quiet.view(*quiet.shape, *[1] * (x.dim() - 2)), 0.0, x)

    return tree_map(zeroed, rows)
