"""Every algorithm with every memory, kind of observation and kind of action, in a covering subset.

Two windows of each, with endings in them: the environment asserts that its actions are contained in
its space, and every metric is finite.
"""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from small_parts import make
from toys import SpaceZooEnv

from rlpyt.arrays import tree_leaves

IMAGE = spaces.Box(0, 255, (8, 8), np.uint8)
STATE = spaces.Box(-1.0, 1.0, (3,), np.float32)
NESTED = spaces.Dict({"pos": STATE, "n": spaces.Discrete(3)})
BITS = spaces.MultiBinary(3)
BOUNDED = spaces.Box(np.array([-2, 0, -np.inf], np.float32), np.array([1, 3, 5], np.float32))

OBSERVATIONS = {
    "vector": spaces.Box(-np.inf, np.inf, (4,), np.float64),
    "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
    "stack": IMAGE,  # read as a stack of 4
    "dict": spaces.Dict({"camera": IMAGE, "state": NESTED}),
    "tuple": spaces.Tuple((STATE, spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(2))),
    "discrete": spaces.Discrete(5, start=-1),
}
ACTIONS = {
    "discrete": spaces.Discrete(4, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 2], start=[1, -1]),
    "multi-binary": spaces.MultiBinary([2, 2]),
    "box": BOUNDED,
    "dict": spaces.Dict({"turn": BOUNDED, "fire": spaces.Discrete(2), "keys": BITS}),
}
AXES = (
    ("ppo", "a2c", "impala", "appo"),
    ("none", "lstm", "gru"),
    tuple(OBSERVATIONS),
    tuple(ACTIONS),
)


def covering(axes: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
    """Cells such that every two values of different axes meet in one of them, chosen greedily."""
    cells, bits = list(product(*axes)), {}  # one bit for every two values

    def bit(pair: Any) -> int:
        return bits.setdefault(pair, 1 << len(bits))

    pairs = [sum(map(bit, combinations(enumerate(cell), 2))) for cell in cells]
    missing = sum(bits.values())
    chosen = []
    while missing:
        best = max(range(len(cells)), key=lambda i: (pairs[i] & missing).bit_count())
        chosen.append(cells[best])
        missing &= ~pairs[best]
    return chosen


CELLS = covering(AXES)


def test_every_two_values_of_the_axes_meet():
    met = {pair for cell in CELLS for pair in combinations(enumerate(cell), 2)}
    for (i, one), (j, two) in combinations(enumerate(AXES), 2):
        assert {((i, x), (j, y)) for x in one for y in two} <= met
    assert len(CELLS) <= 40


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_two_windows_train_to_finite_numbers(cell):
    algo, memory, observation, action = cell
    made: list[SpaceZooEnv] = []

    def factory() -> SpaceZooEnv:
        made.append(SpaceZooEnv(OBSERVATIONS[observation], ACTIONS[action], n=3))
        return made[-1]

    parts = make(
        algo,
        factory,
        num_envs=2,
        horizon=8,
        model={"memory": memory},
        env_options={"frame_stack": 4} if observation == "stack" else {},
        entropy_coef=0.01,
        **({"minibatch_size": 8, "update_epochs": 1} if algo in ("ppo", "appo") else {}),
    )
    before = parts.algorithm.learner.parameters.vector.clone()
    parts.sampler.reset()
    for w in range(2):
        window = parts.sampler.collect()
        assert window.rows.last.any()
        metrics = parts.algorithm.update(window, 16 * w)
        assert all(value.isfinite() for value in metrics.values()), metrics
    after = parts.algorithm.learner.parameters.vector
    assert after.isfinite().all() and not after.equal(before)
    assert all(np.isfinite(x).all() for x in tree_leaves(window.rows.action))
    assert sum(len(env.acted) for env in made) == int((~window.rows.last[:-1]).sum()) + 12
    parts.close()
