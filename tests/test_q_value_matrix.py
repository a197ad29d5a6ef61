"""Actors and critics with every kind of observation, values, draw and number, in a covering subset.

Short runs with endings in them: the environment asserts that its actions are contained in its
space, and every metric is finite. `test_q_matrix.py` does it for Q-learning.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from small_parts import ChanceEnv
from small_q_value import FEW
from test_matrix import covering
from test_q_matrix import SEEN
from toys import BoundsEnv, SpaceZooEnv

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.build import Parts, build
from rlpyt.cli import main
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorQOptions
from rlpyt.run import ALGORITHMS, LoopOptions, Run

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "memory_size": 6, "activation": "tanh"}
SEQUENCES: dict[str, Any] = {"burn_in": 2, "train_rows": 4, "n_step": 2, "state_interval": 3}
ALGOS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ddpg": ("ddpg", {"n_step": 3}, {}),
    "ddpg process": ("ddpg", {"exploration": "ou"}, {"layer_norm": True}),
    "td3": ("td3", {"critics": 3}, {"critic_sizes": (6, 5)}),
    "sac": ("sac", {}, {}),
    "crossq fixed": (
        "sac",
        {"temperature": 0.1, "n_step": 2},
        {"state_dependent_std": False, "batch_norm": True, "batch_norm_warm_up": 2},
    ),
    "redq dropout": (
        "sac",
        {"critics": 4, "policy_delay": 3},
        {"critic_dropout": 0.2, "critic_layer_norm": True},
    ),
    "d4pg": ("d4pg", {"n_step": 5}, {}),
    "ddpg lstm": ("ddpg", {**SEQUENCES, "exploration": "ou"}, {"memory": "lstm"}),
    "td3 gru": ("td3", {**SEQUENCES, "zero_state": True}, {"memory": "gru"}),
    "sac lstm": ("sac", SEQUENCES, {"memory": "lstm", "encoder_sizes": (7,)}),
    "sac lstm shared": ("sac", SEQUENCES, {"memory": "lstm", "share_trunk": True}),
    "d4pg sequences": ("d4pg", SEQUENCES, {"share_trunk": True}),
    "discrete sac": ("sac", {"critics": 3, "n_step": 2}, {"critic_dropout": 0.1}),
    "discrete sac gru": ("sac", SEQUENCES, {"memory": "gru", "layer_norm": True}),
}
VALUES: dict[str, dict[str, Any]] = {
    "expected": {"values": "expected"},
    "categorical": {"values": "categorical", "num_atoms": FEW["num_atoms"]},
    "quantile": {"values": "quantile", "num_quantiles": FEW["num_quantiles"]},
}
BOUNDS: dict[str, tuple[Any, Any]] = {
    "unit": (-1.0, 1.0),
    "one-sided": (np.zeros(3), np.array([5.0, 0.4, 1e3])),
    "of any kind": (np.array([-2.0, -2.0]), np.array([1.0, 3.0])),
    "matrix": (np.full((2, 2), -0.4), np.full((2, 2), 0.4)),
}
# What the same cells are of one Discrete choice.
CHOICES = {
    "unit": spaces.Discrete(2),
    "one-sided": spaces.Discrete(3, start=5),
    "of any kind": spaces.Discrete(7, start=-3),
    "matrix": spaces.Discrete(1),
}
CHOICE_VALUES: dict[str, dict[str, Any]] = {
    "expected": {},
    "categorical": {"critic_loss": "huber", "temperature": 0.1},
    "quantile": {"actor_judge": "least", "entropy_fraction": 0.5},
}
AXES = (
    tuple(ALGOS),
    tuple(SEEN),
    tuple(VALUES),
    ("uniform", "prioritized"),
    tuple(BOUNDS),
    ("float32", "bf16"),
    ("raw", "normalized"),
)
CELLS = covering(AXES)


def box(bounds: str) -> spaces.Box:
    low, high = (np.atleast_1d(np.asarray(x, np.float32)) for x in BOUNDS[bounds])
    return spaces.Box(low, high)


def parts_of(
    env: Any,
    algo: str,
    *,
    num_envs: int = 2,
    env_options: dict[str, Any] | None = None,
    precision: Any = "float32",
    seed: int = 0,
    model: dict[str, Any] | None = None,
    **options: Any,
) -> Parts:
    kind, own, network = ALGOS[algo]
    small = {
        "horizon": 4,
        "batch_size": 8,
        "replay_size": 80,
        "learning_starts": 24,
        "replay_ratio": 8.0,
        "lr": 1e-3,
    }
    loop = LoopOptions(seed=seed, env_steps=10_000, precision=precision)
    return build(
        Run(
            EnvOptions(env, num_envs=num_envs, **(env_options or {})),
            ALGORITHMS[kind](**{**small, **own, **options}),
            ActorQOptions(**{**SMALL, **network, **(model or {})}),
            loop,
        )
    )


def test_every_two_values_of_the_axes_meet():
    met = {pair for cell in CELLS for pair in combinations(enumerate(cell), 2)}
    for (i, one), (j, two) in combinations(enumerate(AXES), 2):
        assert {((i, x), (j, y)) for x in one for y in two} <= met
    assert len(CELLS) <= 170


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_trains_to_finite_numbers(cell):
    algo, seen, values, draws, bounds, precision, reading = cell
    made: list[SpaceZooEnv] = []
    discrete = algo.startswith("discrete")
    space = CHOICES[bounds] if discrete else box(bounds)

    def factory() -> SpaceZooEnv:
        made.append(SpaceZooEnv(SEEN[seen], space, n=3))
        return made[-1]

    parts = parts_of(
        factory,
        algo,
        env_options={"frame_stack": 4} if seen == "stack" else {},
        precision=precision,
        normalize_observation=reading == "normalized",
        prioritized=draws == "prioritized",
        replay_ratio=3.0,
        **(CHOICE_VALUES if discrete else VALUES)[values],
    )
    learning: Any = parts.algorithm
    flats = [
        learning.learner.parameters,
        learning.actor_learner.parameters,
        *learning.targets,
    ]
    before = [flat.vector.clone() for flat in flats]
    parts.sampler.reset()
    steps, metrics, seen_tags = 0, {}, set()
    while steps < 100:  # the ring of 40 rows an environment is written over
        parts.agent.set_exploration(steps)
        window = parts.sampler.collect()
        metrics = parts.algorithm.update(window, steps)
        assert all(np.isfinite(float(value)) for value in metrics.values()), metrics
        seen_tags |= metrics.keys()
        steps += int((~window.rows.last[:-1]).sum())
    assert {"loss/q", "loss/gradient_norm", "loss/actor", "loss/actor_gradient_norm"} <= seen_tags
    assert metrics["replay/rows"] == 80 and learning.updates >= 3
    idle = {1} if space == spaces.Discrete(1) else set()  # of one action no policy has a slope
    for i, (old, now) in enumerate(zip(before, flats, strict=True)):
        assert now.vector.isfinite().all() and now.vector.equal(old) == (i in idle)
    assert sum(len(env.acted) for env in made) == steps
    if not discrete:
        assert (np.abs(window.rows.action) <= 1).all()
    assert parts.evaluator.evaluate().mean == 3.0
    parts.close()


@pytest.mark.parametrize("algo", ["ddpg", "td3", "d4pg"])
def test_one_discrete_choice_is_sacs_alone(algo):
    with pytest.raises(UsageError, match="dqn or sac for one Discrete choice"):
        parts_of(lambda: SpaceZooEnv(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(3)), algo)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "d4pg"])
@pytest.mark.parametrize(
    "action",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.MultiBinary([2, 2]),
        spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,))}),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Box(0.0, np.inf, (2,)),
    ],
    ids=repr,
)
def test_other_actions_are_refused_when_the_run_is_built(algo, action):
    """B019, B020, B026: by the space and what takes it, never as a shape error in a run."""
    with pytest.raises(UsageError, match="choose ppo\\s+or a2c"):
        parts_of(lambda: SpaceZooEnv(spaces.Box(-1.0, 1.0, (3,)), action), algo)


@pytest.mark.parametrize("algo", ["ddpg", "ddpg process", "td3", "sac", "d4pg"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_policies_reach_both_ends_of_every_dimension_and_no_further(algo, sign):
    """B017: the environment asserts that what it gets is in its space."""
    made: list[BoundsEnv] = []

    def factory() -> BoundsEnv:
        made.append(BoundsEnv(np.array([-2.0, -2.0]), np.array([1.0, 3.0])))
        return made[-1]

    parts = parts_of(factory, algo, num_envs=1, learning_starts=0)
    bias = parts.agent.actor.linear.bias
    bias.data[:2] = 30.0 * sign
    if algo == "sac":
        bias.data[2:] = -5.0
    parts.sampler.reset()
    for _ in range(10):
        parts.sampler.collect()
    if sign > 0:
        np.testing.assert_array_equal(made[-1].most, [1.0, 3.0])
    else:
        np.testing.assert_array_equal(made[-1].least, [-2.0, -2.0])
    parts.close()


@pytest.mark.parametrize("algo", ["td3", "sac lstm"])
def test_warm_up_is_uniform_in_the_space_and_stored_as_the_policys_actions_are(algo):
    """B022, B025: of bounds from 0 to 5, every environment and dimension by itself."""
    made: list[SpaceZooEnv] = []

    def factory() -> SpaceZooEnv:
        space = spaces.Box(np.zeros(2, np.float32), np.full(2, 5.0, np.float32))
        made.append(SpaceZooEnv(spaces.Box(-1.0, 1.0, (3,)), space, n=50))
        return made[-1]

    parts = parts_of(factory, algo, replay_size=4000, learning_starts=9000)
    parts.sampler.reset()
    stored = []
    for _ in range(100):
        window = parts.sampler.collect()
        rows = tree_map(lambda x: x[:-1].copy(), window.rows)
        stored.append(rows.action[~rows.last])
    acted = np.concatenate([env.acted for env in made if env.acted])
    units = np.sort(2 * acted / 5 - 1, axis=0)
    np.testing.assert_allclose(units, np.sort(np.concatenate(stored), axis=0), atol=1e-6)
    assert len(np.unique(acted)) > 0.99 * acted.size
    assert (
        np.abs(acted.mean(0) - 2.5).max() < 0.3 and np.abs(acted.std(0) - 5 / 12**0.5).max() < 0.2
    )
    parts.close()


def rows_of(parts: Parts, windows: int, env_steps: int) -> Any:
    """Answered rows [T, B] of so many windows, without learning."""
    parts.sampler.reset()
    parts.agent.set_exploration(env_steps)
    rows = []
    for _ in range(windows):
        window = parts.sampler.collect()
        rows.append(tree_map(lambda x: x[:-1].copy(), window.rows))
    parts.close()
    return tree_map(lambda *x: np.concatenate(x), rows[0], *rows[1:])


def chance_of(algo: str) -> Any:
    if algo.startswith("discrete"):
        return lambda: ChanceEnv(spaces.Discrete(9, start=-2))
    return lambda: ChanceEnv(spaces.Box(-2.0, 1.0, (2,)))


@pytest.mark.parametrize("env_steps", [0, 100], ids=["warm-up", "policy"])
@pytest.mark.parametrize(
    "algo",
    ["ddpg", "ddpg process", "sac", "ddpg lstm", "sac lstm shared", "discrete sac gru"],
)
def test_neither_cuts_nor_neighbours_change_what_an_environment_is_answered(algo, env_steps):
    """D1, at fixed weights: 2 windows of 10 rows are 5 of 4, and 4 columns the first of 8."""
    chance = chance_of(algo)
    four = rows_of(parts_of(chance, algo, num_envs=4, replay_size=400), 5, env_steps)
    for other in (
        rows_of(parts_of(chance, algo, num_envs=4, replay_size=400, horizon=10), 2, env_steps),
        tree_map(
            lambda x: x[:, :4],
            rows_of(parts_of(chance, algo, num_envs=8, replay_size=800), 5, env_steps),
        ),
    ):
        for x, y in zip(tree_leaves(four), tree_leaves(other), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert len(np.unique(four.action)) > (5 if algo.startswith("discrete") else 50)


@pytest.mark.parametrize("algo", list(ALGOS))
def test_a_run_twice_is_the_same_run(algo):
    """D0: rows, priorities, networks and draws, bit for bit; another seed's are others."""

    def after(seed: int) -> list[Any]:
        parts = parts_of(chance_of(algo), algo, prioritized=True, seed=seed)
        parts.sampler.reset()
        for w in range(10):
            parts.agent.set_exploration(8 * w)
            parts.algorithm.update(parts.sampler.collect(), 8 * w)
        state = {"agent": dict(parts.agent.state_dict()), "algorithm": parts.algorithm.state()}
        kept = [np.asarray(x) for x in tree_leaves((state, parts.replay.ring.rows))]
        parts.close()
        return kept

    one, two, other = after(0), after(0), after(1)
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))
    assert not all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "d4pg"])
@pytest.mark.parametrize("memory", ["lstm", "gru", "none"])
def test_recurrent_runs_begin_at_the_command_line(algo, memory, tmp_path):
    """Position-only Pendulum, by the preset for memory tasks; then they are loaded and play."""
    short = "--env-steps 260 --learning-starts 200 --replay-size 2k --eval-episodes 1 --quiet"
    where = f"--env rlpyt/PendulumPositions-v0 --seed 0 --runs {tmp_path} --name run"
    command = f"train {algo} {where} {short} --memory {memory} --eval-max-steps 40"
    assert main(command.split()) == 0
    assert main(["eval", str(tmp_path / "run"), "--episodes", "1"]) == 0
