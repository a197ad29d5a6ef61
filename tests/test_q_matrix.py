"""Q-learning with every kind of observation, values, draw and number, in a covering subset.

Short runs with endings in them: the environment asserts that its actions are contained in its space
and allowed, and every metric is finite. `test_matrix.py` does it for policy gradients.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_parts import ChanceEnv
from small_q import FEW, SMALL
from test_matrix import IMAGE, OBSERVATIONS, covering
from toys import SpaceZooEnv

from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import QNetworkOptions
from rlpyt.run import LoopOptions, Run

SEEN = {
    **OBSERVATIONS,
    "channels first": spaces.Box(0, 255, (3, 8, 8), np.uint8),
    "not square": spaces.Box(0, 255, (40, 52, 1), np.uint8),
    "multi-discrete": spaces.MultiDiscrete([3, 2], start=[1, -1]),
}
ALGOS: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "dqn": (DQNOptions, {"n_step": 3}, {"dueling": True}),
    "dqn noisy": (DQNOptions, {"double": False}, {"noisy": True, "head_sizes": (5,)}),
    "r2d1": (R2D1Options, {}, {}),
    "r2d1 lstm": (R2D1Options, {}, {"memory": "lstm", "dueling": True}),
    "r2d1 gru": (R2D1Options, {"zero_state": True}, {"memory": "gru", "noisy": True}),
}
SEQUENCES = {"n_step": 2, "burn_in": 2, "train_rows": 4, "state_interval": 3, "value_rescale": 0.0}
FRACTIONS = {name: FEW[name] for name in ("num_fractions", "greedy_fractions")}
VALUES: dict[str, dict[str, Any]] = {
    "expected": {},
    "error on entry": {"priority_entry": "td"},
    "categorical": {"values": "categorical", "num_atoms": FEW["num_atoms"]},
    "quantile": {"values": "quantile", "num_quantiles": FEW["num_quantiles"]},
    "implicit": {"values": "implicit", **FRACTIONS},
}
AXES = (
    tuple(ALGOS),
    tuple(SEEN),
    tuple(VALUES),
    ("uniform", "prioritized"),
    ("free", "masked"),
    ("float32", "bf16"),
    ("raw", "normalized"),
)
CELLS = covering(AXES)


class MaskedZoo(SpaceZooEnv):
    """A zoo that allows some of its actions at every step, sometimes one, and refuses others."""

    def _arrival(self) -> dict[str, Any]:
        mask = self.np_random.random(int(self.action_space.n)) < 0.4
        mask[self.np_random.integers(len(mask))] = True
        self.mask = mask.astype(np.int8)
        return {"action_mask": self.mask.copy()}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        observation, _ = super().reset(seed=seed)
        return observation, self._arrival()

    def step(self, action: Any) -> Any:
        assert self.mask[action - self.action_space.start], f"{action} of {self.mask}"
        return (*super().step(action)[:-1], self._arrival())


def parts_of(
    env: Any,
    algo: str,
    *,
    num_envs: int = 2,
    env_options: dict[str, Any] | None = None,
    precision: Any = "float32",
    seed: int = 0,
    **options: Any,
) -> Parts:
    kind, own, model = ALGOS[algo]
    small = {
        "horizon": 4,
        "batch_size": 8,
        "replay_size": 80,
        "learning_starts": 24,
        "replay_ratio": 4.0,
        "target_update_updates": 3,
        "lr": 1e-3,
        "epsilon_steps": 60,
    }
    sequences = SEQUENCES if kind is R2D1Options else {}
    given = {**small, **sequences, **own, **options}
    loop = LoopOptions(seed=seed, env_steps=10_000, precision=precision)
    network = QNetworkOptions(**{**SMALL, **model})
    return build(
        Run(EnvOptions(env, num_envs=num_envs, **(env_options or {})), kind(**given), network, loop)
    )


def test_every_two_values_of_the_axes_meet():
    met = {pair for cell in CELLS for pair in combinations(enumerate(cell), 2)}
    for (i, one), (j, two) in combinations(enumerate(AXES), 2):
        assert {((i, x), (j, y)) for x in one for y in two} <= met
    assert len(CELLS) <= 60


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_trains_to_finite_numbers(cell):
    algo, seen, values, draws, mask, precision, reading = cell
    made: list[SpaceZooEnv] = []

    def factory() -> SpaceZooEnv:
        zoo = MaskedZoo if mask == "masked" else SpaceZooEnv
        made.append(zoo(SEEN[seen], spaces.Discrete(4, start=-2), n=3))
        return made[-1]

    parts = parts_of(
        factory,
        algo,
        env_options={"frame_stack": 4} if seen == "stack" else {},
        precision=precision,
        normalize_observation=reading == "normalized",
        prioritized=draws == "prioritized",
        **VALUES[values],
    )
    learning: Any = parts.algorithm
    before = [x.clone() for x in (learning.learner.parameters.vector, learning.target.vector)]
    parts.sampler.reset()
    steps, metrics = 0, {}
    while steps < 120:  # the ring of 40 rows an environment is written over
        parts.agent.set_exploration(steps)
        window = parts.sampler.collect()
        metrics = parts.algorithm.update(window, steps)
        assert all(np.isfinite(float(value)) for value in metrics.values()), metrics
        steps += int((~window.rows.last[:-1]).sum())
    assert metrics["replay/rows"] == 80 and learning.learner.updates >= 3
    assert "loss/gradient_norm" in metrics and metrics["replay/ratio"] == pytest.approx(4, rel=0.5)
    for old, now in zip(before, (learning.learner.parameters, learning.target), strict=True):
        assert now.vector.isfinite().all() and not now.vector.equal(old)
    assert {x.dtype for x in parts.agent.state_dict().values()} <= {
        *(torch.float32, torch.float64, torch.int64)
    }
    assert (parts.agent.normalizer is not None) == (reading == "normalized")
    assert sum(len(env.acted) for env in made) == steps
    acted = {int(action) for env in made for action in env.acted}
    assert acted == {-2, -1, 0, 1}
    assert set(np.unique(window.rows.action)) <= {0, 1, 2, 3}
    evaluation = parts.evaluator.evaluate()
    assert evaluation.mean == 3.0
    parts.close()


@pytest.mark.parametrize("algo", ["dqn", "r2d1"])
@pytest.mark.parametrize(
    "action",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.MultiBinary([2, 2]),
        spaces.Box(-1.0, 1.0, (2,)),
        spaces.Dict({"a": spaces.Discrete(2)}),
    ],
    ids=repr,
)
def test_other_actions_are_refused_when_the_run_is_built(algo, action):
    """B026: by the space's name and what takes it, never as a shape error in a run."""
    with pytest.raises(UsageError, match="choose ppo or a2c"):
        parts_of(lambda: SpaceZooEnv(IMAGE, action), algo)


def rows_of(parts: Parts, windows: int) -> Any:
    """Answered rows [T, B] of so many windows, without learning."""
    parts.sampler.reset()
    parts.agent.set_exploration(54)  # epsilon is a half
    rows = []
    for _ in range(windows):
        window = parts.sampler.collect()
        rows.append(tree_map(lambda x: x[:-1].copy(), window.rows))
    parts.close()
    return tree_map(lambda *x: np.concatenate(x), rows[0], *rows[1:])


@pytest.mark.parametrize("algo", ["dqn", "r2d1 lstm", "r2d1 gru"])
def test_neither_cuts_nor_neighbours_change_what_an_environment_is_answered(algo):
    """D1, at fixed weights: 2 windows of 10 rows are 5 of 4, and 4 columns the first of 8."""
    four = rows_of(parts_of(ChanceEnv, algo, num_envs=4, replay_size=400), 5)
    for other in (
        rows_of(parts_of(ChanceEnv, algo, num_envs=4, replay_size=400, horizon=10), 2),
        tree_map(
            lambda x: x[:, :4],
            rows_of(parts_of(ChanceEnv, algo, num_envs=8, replay_size=800), 5),
        ),
    ):
        for x, y in zip(tree_leaves(four), tree_leaves(other), strict=True):
            np.testing.assert_array_equal(x, y)
    assert len(np.unique(four.action)) == 3


@pytest.mark.parametrize("algo", list(ALGOS))
def test_a_run_twice_is_the_same_run(algo):
    """D0: rows, priorities, networks and draws, bit for bit; another seed's are others."""

    def after(seed: int) -> list[Any]:
        options = {"prioritized": True, "priority_entry": "td", "seed": seed}
        parts = parts_of(ChanceEnv, algo, **options)
        parts.sampler.reset()
        for w in range(12):
            parts.agent.set_exploration(8 * w)
            parts.algorithm.update(parts.sampler.collect(), 8 * w)
        state = {"agent": dict(parts.agent.state_dict()), "algorithm": parts.algorithm.state()}
        kept = [np.asarray(x) for x in tree_leaves((state, parts.replay.ring.rows))]
        parts.close()
        return kept

    one, two, other = after(0), after(0), after(1)
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))
    assert not all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
