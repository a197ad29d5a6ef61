"""From a window of rows to what a policy-gradient loss reads: values, advantages, samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.normalizers import RewardScale
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.options import PolicyGradientOptions
from rlpyt.arrays import NamedArrayTuple, to_device, tree_map
from rlpyt.functional import gae
from rlpyt.rows import Inputs, Window


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
    """Turns each window into a Sample, and keeps the running statistics that this needs.

    Args:
        agent: assesses the rows.
        options: discount, lambda, what is done to rewards.
        num_envs: B.
    """

    def __init__(
        self, agent: PolicyGradientAgent, options: PolicyGradientOptions, num_envs: int
    ) -> None:
        self.agent, self.options = agent, options
        self.reward_scale = (
            RewardScale(num_envs, options.gamma) if options.normalize_reward else None
        )

    @torch.no_grad()
    def sample(self, window: Window) -> Sample:
        """Log-probabilities, values and advantages of a window, under the weights that acted.

        Also writes what only the learner knows of recurrent states (the critic's) into the
        window: at the kept rows and at the boundary row.
        """
        if self.reward_scale is not None:
            self.reward_scale.update(window.rows.reward[1:], window.rows.first[1:])
        device = self.agent.device
        inputs = self.agent.read(window.inputs())
        action = to_device(window.tensors.action[:-1], device)
        if self.agent.keeps:
            log_prob, value = self._kept(window, inputs)
        else:
            log_prob, value = self._assess(window, inputs, action)
        advantage = self._advantage(window, value)
        rows = window.tensors
        return Sample(
            inputs=inputs[:-1],
            action=action,
            log_prob=log_prob,
            value=value[:-1],
            advantage=advantage,
            target=advantage + value[:-1],
            live=to_device(~rows.last[:-1], device),
        )

    @torch.no_grad()
    def renew(self, sample: Sample, window: Window) -> Sample:
        """The sample with values and advantages under the present weights."""
        inputs = self.agent.read(window.inputs())
        _, value = self._assess(window, inputs, sample.action)
        advantage = self._advantage(window, value)
        return sample.replace(
            value=value[:-1], advantage=advantage, target=advantage + value[:-1]
        )

    def observe(self, window: Window) -> None:
        """Merge the window's observations into the normalizer, after the update."""
        if self.agent.normalizer is not None:
            observation = window.inputs().observation
            self.agent.normalizer.update(tree_map(lambda x: x[:-1], observation))

    def state(self) -> dict[str, Any]:
        return {} if self.reward_scale is None else dict(self.reward_scale.state_dict())

    def load(self, state: dict[str, Any]) -> None:
        if self.reward_scale is not None:
            self.reward_scale.load_state_dict(state)

    def _kept(self, window: Window, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """log_prob [T, B] and value [T+1, B] as acting kept them, and the boundary row's value."""
        kept, state = to_device((window.tensors.info[:-1], window.state), self.agent.device)
        return kept.log_prob, torch.cat([kept.value, self.agent.value(inputs[-1:], state)])

    def _assess(self, window: Window, inputs: Inputs, action: Any) -> tuple[Tensor, Tensor]:
        """log_prob [T, B] and value [T+1, B], chunk by chunk from the kept states."""
        agent, length = self.agent, window.state_interval
        state = to_device(window.kept_state(0), agent.device)
        log_probs, values = [], []
        for c, begin in enumerate(range(0, window.horizon, length)):
            rows = slice(begin, begin + length)
            if c:
                kept = window.kept_state(c)
                state = agent.model.join(to_device(kept, agent.device), state)
                tree_map(lambda old, new: old.copy_(new), kept, state)
            assessed, state = agent.assess(inputs[rows], state, action[rows])
            log_probs.append(assessed.log_prob)
            values.append(assessed.value)
        window.state = state = agent.model.join(to_device(window.state, agent.device), state)
        boundary = agent.value(inputs[-1:], state)
        return torch.cat(log_probs), torch.cat([*values, boundary])

    def _advantage(self, window: Window, value: Tensor) -> Tensor:
        rows, options = window.tensors, self.options
        reward = rows.reward.sign() if options.reward_clip == "sign" else rows.reward
        if self.reward_scale is not None:
            reward = self.reward_scale(reward)
        discount = options.gamma * ~rows.terminated
        device = value.device
        reward, discount, last = to_device((reward, discount, rows.last), device)
        return gae(reward, discount, last, value, options.gae_lambda)


def fold(sample: Sample, length: int) -> Sample:
    """Chunks of `length` rows: [T, B, ...] to [L, N, ...], N = T // L * B, chunk by chunk."""

    def chunk(x: Tensor) -> Tensor:
        chunks = x.unflatten(0, (-1, length)).transpose(0, 1)  # [L, C, B, ...]
        return chunks.flatten(1, 2)

    return tree_map(chunk, sample)


def shuffled(live: Tensor, generator: torch.Generator) -> Tensor:
    """A random order of chunks in which those with more live rows come first.

    So minibatch j = order[j::M] has as many live rows as any other, to one chunk.

    Args:
        live: [L, N].
    """
    uniform = torch.rand(live.shape[1], generator=generator).to(live.device)
    return torch.argsort(uniform + (~live).float().mean(0))
