"""Toy environments in columns, and an agent that answers by a function: what tests step with."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

from rlpyt import noise, tree_format
from rlpyt.arrays import tree_map
from rlpyt.envs.make import describe
from rlpyt.envs.options import EnvOptions
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.rows import Row, Window, example_row
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import zeros
from rlpyt.vector.in_process import InProcess

Factory = Callable[[int], gymnasium.Env]  # of a column


def in_process(
    factory: Factory,
    num_envs: int,
    *,
    seed: int = 0,
    role: int = noise.TRAINING_RESETS,
    drop: bool = False,
    **options: Any,
) -> InProcess:
    spec = describe(factory(0), EnvOptions(factory, num_envs=num_envs, **options))
    envs, most = [factory(b) for b in range(num_envs)], options.get("decorrelate", 0)
    return InProcess(envs, spec, ResetSeeds(seed, role), decorrelate=most, drop=drop)


def step(envs: InProcess, steps: int, act: Callable[[int, Row], None] | None = None) -> Row:
    """Rows [steps + 1, B] from a reset on; act(t, row) writes the actions of row t."""
    rows = zeros(example_row(envs.spec), (steps + 1, envs.num_envs))
    envs.reset(rows[0])
    go_on(envs, rows, 0, act)
    return rows


def go_on(
    envs: InProcess, rows: Row, begin: int, act: Callable[[int, Row], None] | None = None
) -> list[tuple[int, int, dict[str, float]]]:
    """Fill the rows after `begin`; returns row, column and numbers of the episodes that ended."""
    found = []
    for t in range(begin, len(rows.reward) - 1):
        if act is not None:
            act(t, rows[t])
        envs.send(rows[t], rows[t + 1])
        found += [(t + 1, b, numbers) for b, numbers in envs.recv(rows[t + 1])]
    return found


def saved(state: Any) -> Any:
    """A state as it comes back from a checkpoint."""
    return tree_format.decode(*tree_format.encode(state))


class Scripted:
    """Answers by a function of (inputs, noise); its state counts the rows that it has answered."""

    def __init__(self, answer: Callable[[Any, Any], Any]) -> None:
        self.answer = answer

    def draws(self, noise: np.ndarray) -> Any:
        return torch.from_numpy(noise).unbind()

    def act(self, inputs: Any, state: Any, drawn: Any) -> tuple[Any, Any, Any]:
        return self.answer(inputs, drawn), (), tree_map(lambda x: x + 1, state)


def sampler_of(
    envs: InProcess,
    answer: Callable[[Any, Any], Any],
    horizon: int,
    *,
    seed: int = 0,
    state: Any = (),
    check: Callable[[], None] | None = None,
    strict_bounds: bool = False,
    state_interval: int | None = None,
    reset: bool = True,
) -> Sampler:
    """A sampler whose noise is one uniform a row."""
    window = Window(
        example_row(envs.spec),
        horizon,
        envs.num_envs,
        reads=frozenset({"observation", "reward", "first", "previous_action"}),
        state=state,
        state_interval=state_interval,
    )
    drawn = Noise(seed, noise.ACTION_NOISE, range(envs.num_envs), 1, 0)
    sampler = Sampler(
        envs, Scripted(answer), window, drawn, check=check, strict_bounds=strict_bounds
    )
    if reset:
        sampler.reset()
    return sampler


def stream(sampler: Sampler, windows: int) -> Row:
    """The rows of consecutive windows as one stream, [windows * T + 1, B]; answers of all but the
    last."""
    parts = []
    for i in range(windows):
        rows = sampler.collect().rows
        parts.append(tree_map(np.copy, rows if i == windows - 1 else rows[:-1]))
    return tree_map(lambda *xs: np.concatenate(xs), *parts)


def zeros_of(inputs: Any, drawn: Any) -> torch.Tensor:
    """Action 0 in every column."""
    return torch.zeros(len(inputs.observation), dtype=torch.int64)


def coin(inputs: Any, drawn: Any) -> torch.Tensor:
    """0 or 1, by the noise alone."""
    return (drawn[:, 0] * 2).long()


def by_row(inputs: Any, drawn: Any) -> torch.Tensor:
    """The parity of the steps observed: an answer that tells which row it is to."""
    return inputs.observation[:, 2].long() % 2
