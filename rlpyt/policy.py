"""An agent outside of a run: it answers observations in the environment's own form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.envs.actions import action_reader
from rlpyt.envs.masks import MASK, valid_actions
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spec import Composite, EnvSpec, Spec, example, not_finite
from rlpyt.errors import EnvironmentFault, UsageError
from rlpyt.rows import Inputs, is_image
from rlpyt.storage import as_arrays, as_tensors, to_device, zeros


class Actor(Protocol):
    """Who answers rows."""

    uniforms: int
    normals: int

    def draws(self, noise: np.ndarray, /) -> Sequence[Any]: ...
    def act(self, inputs: Inputs, state: Any, draw: Any, /) -> tuple[Any, Any, Any]: ...


class Agent(Protocol):
    """What is asked of an agent, whatever its algorithm."""

    model: Any  # has `reads` and `initial_state`

    def evaluation(self, stochastic: bool) -> Actor: ...


class PolicyState(NamedTuple):
    """What `predict` needs of the calls before: hand it back, and look no further."""

    memory: Any  # of the model, [B, ...]
    action: Any  # the last one, as it is stored
    frames: Any  # the last observation as it was read, images stacked; () without stacks


class Policy:
    """Predicts actions one call at a time.

    Args:
        agent: answers rows.
        spec: what it observes and how it acts.
        observation_space, action_space: the environment's own.
        seed: of sampled actions.
    """

    def __init__(
        self,
        agent: Agent,
        spec: EnvSpec,
        observation_space: Any,
        action_space: Any,
        seed: int,
    ) -> None:
        self.agent, self.spec = agent, spec
        self._actor = agent.evaluation(stochastic=True)  # without noise it is deterministic
        self._space = observation_space
        self._write = observation_writer(observation_space, spec.observation)
        self._read = action_reader(action_space, spec.action)
        self._generator = torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        first: Any = None,
        deterministic: bool = True,
        *,
        reward: Any = None,
        mask: Any = None,
    ) -> tuple[Any, PolicyState]:
        """The answer to an observation, or to a batch of them."""
        _refuse_pair(self.spec.observation, observation)
        single = _extra_dims(self._space, self.spec.observation, observation) == 0
        values = [observation] if single else _split(self._space, observation)
        size = len(values)
        if not size:
            raise UsageError("a batch of no observations has no answer; give one at least")
        stored = zeros(example(self.spec.observation), (size,))
        for b, value in enumerate(values):
            self._write(stored, b, value)
        if wrong := not_finite(self.spec.observation, stored, "observation"):
            raise EnvironmentFault(
                f"{', '.join(wrong)} holds NaN or an infinity, from which no action follows; mend "
                "what observes, or end the episode before it does so"
            )
        if not isinstance(state, PolicyState | None):
            raise UsageError(
                f"state is a {type(state).__name__}; hand back what predict returned beside the "
                "action, or None to begin an episode"
            )
        begins = np.empty(size, np.bool_)
        begins[:] = state is None if first is None else first
        state = state or self._initial(size)
        before = len(tree_leaves(state.action)[0])
        if before != size:
            raise UsageError(
                f"the state is one of {before} observations, and {size} are given; keep one state "
                "for each batch, or pass state=None to begin"
            )
        if self.spec.frame_stack > 1:
            stored = tree_map(lambda x, y: _stacked(x, y, begins), stored, state.frames)
        inputs = self._inputs(as_tensors(stored), begins, state.action, reward, mask, values)
        action, _, memory = self._actor.act(
            inputs, state.memory, None if deterministic else self._draw(size)
        )
        action = to_device(action, "cpu")
        answers = list(self._read(as_arrays(action)))
        after = PolicyState(memory, action, stored if self.spec.frame_stack > 1 else ())
        return (answers[0] if single else _joined(answers)), after

    def _initial(self, size: int) -> PolicyState:
        frames: Any = ()
        if self.spec.frame_stack > 1:
            k = self.spec.frame_stack
            frames = tree_map(
                lambda x: np.stack([x] * k, 1) if is_image(x, leading=1) else x,
                zeros(example(self.spec.observation), (size,)),
            )
        action = as_tensors(zeros(example(self.spec.action), (size,)))
        return PolicyState(self.agent.model.initial_state(size), action, frames)

    def _inputs(
        self, observation: Any, first: np.ndarray, action: Any, reward: Any, mask: Any, values: list
    ) -> Inputs:
        size, reads = len(first), self.agent.model.reads
        rewards = None
        if "reward" in reads:
            if reward is None and not first.all():
                raise UsageError(
                    "this agent reads the reward that arrived with an observation; give it: "
                    "predict(observation, state, reward=reward)"
                )
            rewards = torch.zeros(size)
            rewards[:] = torch.as_tensor(0.0 if reward is None else reward, dtype=torch.float32)
            rewards[torch.from_numpy(first)] = 0.0
            if not torch.isfinite(rewards).all():
                raise EnvironmentFault(f"reward={reward} is not finite; mend what gives it")
        return Inputs(
            observation=observation,
            reward=rewards,
            first=torch.from_numpy(first) if "first" in reads else None,
            previous_action=action if "previous_action" in reads else None,
            mask=self._mask(mask, values),
        )

    def _mask(self, mask: Any, values: list[Any]) -> torch.Tensor | None:
        if self.spec.mask is None:
            return None
        size = self.spec.mask_size
        if self.spec.mask == "observation":
            masks = np.stack([valid_actions(value[MASK], size) for value in values])
            return torch.from_numpy(masks)
        if mask is None:
            return torch.ones((len(values), size), dtype=torch.bool)
        needed = len(values), size
        if np.size(mask) != len(values) * size:
            raise UsageError(f"mask has shape {np.shape(mask)}; give one of shape {needed}")
        return torch.from_numpy(valid_actions(mask, len(values) * size).reshape(needed))

    def _draw(self, size: int) -> Any:
        """What is random about an answer, drawn here."""
        uniforms = torch.rand((size, self._actor.uniforms), generator=self._generator)
        normals = torch.randn((size, self._actor.normals), generator=self._generator)
        return self._actor.draws(torch.cat((uniforms, normals), -1)[None].numpy())[0]


def _stacked(frame: np.ndarray, before: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Images [B, *frame] behind the stacks [B, k, *frame] before; other leaves as they are.

    Args:
        first: [B]; where an episode begins, older frames are read as zero.
    """
    if not is_image(frame, leading=1):
        return frame
    older = before[:, 1:].copy()
    older[first] = 0
    return np.concatenate((older, frame[:, None]), 1)


def _refuse_pair(spec: Spec, observation: Any) -> None:
    """Raise where an info is given beside the observation, as reset() returns them."""
    tuples = isinstance(spec, Composite) and spec.kind != "dict"
    pair = isinstance(observation, tuple) and len(observation) == 2
    if pair and isinstance(observation[1], dict) and not tuples:
        raise UsageError(
            "predict was given (observation, info), which is what reset() returns; give the "
            "observation alone"
        )


def _extra_dims(space: Any, spec: Spec, value: Any) -> int:
    """Leading dimensions of an observation: 0 for one, 1 for a batch."""
    while isinstance(spec, Composite):
        if not spec.parts:
            return 0
        space, value, spec = space[spec.keys[0]], value[spec.keys[0]], spec.parts[0]
    extra = np.ndim(value) - len(space.shape)
    if extra not in (0, 1):
        raise UsageError(
            f"an observation of shape {np.shape(value)} is neither one of shape {space.shape} nor "
            "a batch of such"
        )
    return extra


def _split(space: Any, batch: Any) -> list[Any]:
    """The observations of a batch: a dict or tuple of batches becomes many dicts or tuples."""
    if isinstance(batch, Mapping):
        parts = {key: _split(space[key], batch[key]) for key in space}
        return [dict(zip(parts, one, strict=True)) for one in zip(*parts.values(), strict=True)]
    if (
        isinstance(batch, tuple)
        and not space.shape
        and len(batch) == len(getattr(space, "spaces", ()))
    ):
        return list(zip(*(_split(space[i], part) for i, part in enumerate(batch)), strict=True))
    return list(np.asarray(batch))


def _joined(answers: list[Any]) -> Any:
    """Arrays and numbers as one array [B, ...]; dicts and tuples as a list."""
    return answers if isinstance(answers[0], dict | tuple) else np.stack(answers)
