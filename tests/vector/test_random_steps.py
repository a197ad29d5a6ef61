"""Decorrelated starts: random steps by seed and column before the first row, and never again."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from small_runs import stopped_at
from small_sampling import column, fingerprint, outcome_of, run_of, trained
from stepping import go_on, in_process, saved, step
from toys import CountEnv, MaskEnv, SpaceZooEnv

from rlpyt import training
from rlpyt.arrays import tree_items, tree_map
from rlpyt.build import build
from rlpyt.cli import main
from rlpyt.cli.train import parse
from rlpyt.envs.options import EnvOptions
from rlpyt.noise import TRAINING_RESETS, ResetSeeds
from rlpyt.rows import example_row
from rlpyt.samplers.options import SamplerOptions
from rlpyt.storage import zeros
from rlpyt.vector.choose import choose
from rlpyt.vector.in_process import InProcess

MOST = 40


def never(b: int) -> CountEnv:
    return CountEnv(end="never", column=b)


def starts(envs: InProcess) -> Any:
    row = zeros(example_row(envs.spec), (1, envs.num_envs))[0]
    envs.reset(row)
    return row


def test_each_column_takes_a_number_of_steps_of_its_own_the_same_again():
    envs = in_process(never, 16, decorrelate=MOST)
    row = starts(envs)
    steps = row.observation[:, 2]
    assert row.observation[:, 0].tolist() == list(range(16))
    assert steps.min() >= 1 and steps.max() <= MOST and len(set(steps.tolist())) > 8
    assert row.first.all() and not row.reward.any() and not row.last.any() and not row.cut.any()
    assert np.array_equal(starts(envs).observation[:, 2], steps)
    other = in_process(never, 16, seed=1, decorrelate=MOST)
    assert not np.array_equal(starts(other).observation, row.observation)


def test_some_columns_take_the_steps_that_they_take_among_all():
    whole = starts(in_process(never, 6, decorrelate=MOST)).observation
    spec = in_process(never, 6).spec
    own = [never(b) for b in (2, 3)]
    seeds = ResetSeeds(0, TRAINING_RESETS)
    part = InProcess(own, spec, seeds, columns=range(2, 4), total=6, decorrelate=MOST)
    assert np.array_equal(starts(part).observation, whole[2:4])


def test_control_without_it_all_are_in_step():
    assert not starts(in_process(never, 4)).observation[:, 2].any()


def test_an_episode_that_ends_meanwhile_is_followed_by_the_next_reset():
    envs = in_process(lambda b: CountEnv(3, column=b), 8, decorrelate=MOST)
    row = starts(envs)
    taken = starts(in_process(never, 8, decorrelate=MOST)).observation[:, 2]
    assert np.array_equal(row.observation[:, 1], taken // 3)  # episodes that ended
    assert np.array_equal(row.observation[:, 2], taken % 3)
    assert np.array_equal(envs.resets, 1 + taken // 3)


def test_masked_actions_are_not_taken():
    """MaskEnv asserts that what it is given is allowed."""
    starts(in_process(lambda b: MaskEnv(4, n=5 + b), 3, decorrelate=MOST))
    starts(in_process(lambda b: MaskEnv(actions=1, n=5), 3, decorrelate=MOST))


ACTIONS = {
    "discrete": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    "bits": spaces.MultiBinary((2, 3)),
    "bounded": spaces.Box(np.array([-2.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64),
    "unbounded": spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf]), dtype=np.float64),
    "composite": spaces.Dict(go=spaces.Discrete(2), at=spaces.Tuple([spaces.Box(-1, 1, (2,))])),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_are_of_the_space_and_differ(kind):
    """SpaceZooEnv asserts that they are contained."""
    made: list[SpaceZooEnv] = []

    def factory(b: int) -> SpaceZooEnv:
        made.append(SpaceZooEnv(spaces.Box(-1, 1, (1,)), ACTIONS[kind], n=1000))
        return made[-1]

    starts(in_process(factory, 4, decorrelate=MOST))
    acted = [repr(action) for env in made for action in env.acted]
    assert len(acted) > MOST and len(set(acted)) > 1


def test_what_fails_meanwhile_names_environment_and_call():
    class Failing(CountEnv):
        def step(self, action: Any) -> Any:
            raise ValueError("a fault of its own")

    with pytest.raises(ValueError, match="a fault of its own") as caught:
        starts(in_process(lambda b: Failing(), 2, decorrelate=3))
    assert re.search(r"in environment \d of 2 \(.*step\(", " ".join(caught.value.__notes__))


@pytest.mark.parametrize("at", [0, 2, 9])
def test_an_episode_that_was_open_at_the_start_can_be_brought_back(at):
    def make() -> InProcess:
        return in_process(lambda b: CountEnv(50 + b, column=b), 3, decorrelate=MOST)

    whole = step(make(), 60)
    stopped, rows = make(), tree_map(np.zeros_like, whole)
    stopped.reset(rows[0])
    go_on(stopped, rows[: at + 1], 0)
    resumed = make()
    assert resumed.restore(saved(stopped.snapshot()), rows[at]) == []
    go_on(resumed, rows, at)
    for (path, x), (_, y) in zip(tree_items(whole), tree_items(rows), strict=True):
        assert x.tobytes() == y.tobytes(), path


# Runs -------------------------------------------------------------------------------------------

GIVEN: Any = {"env": {"decorrelate": 30}, "strict": True}
WORKERS: Any = {"sampler": "workers", "workers": 2, "groups": 2}
REPLICAS: Any = {"sampler": "replicated", "workers": 3}


def test_runs_are_bit_equal_under_every_sampler_and_resumed_ones_too(tmp_path):
    alone = trained("dqn", tmp_path, **GIVEN)
    assert trained("dqn", tmp_path, **GIVEN, **WORKERS) == alone
    part = outcome_of("dqn", tmp_path, hooks=stopped_at(3), **GIVEN, **REPLICAS)
    assert fingerprint(training.resume(part.folder, mode="quiet").folder) == alone
    assert trained("dqn", tmp_path, strict=True) != alone  # control


def test_an_asynchronous_run_begins_with_the_same_row(tmp_path):
    run, rows = run_of("dqn", tmp_path), []
    env = EnvOptions("toys:CountEnv", num_envs=4, env_kwargs=("end=never",), decorrelate=30)
    for asynchronous in (False, True):
        options = SamplerOptions(asynchronous=asynchronous)
        parts: Any = build(replace(run, env=env, sampler=options))
        try:
            parts.sampler.reset()
            rows.append(parts.sampler.collect(None, 0).rows.observation[0].copy())
        finally:
            parts.close()
    assert rows[0].all() and np.array_equal(*rows)


def test_steps_are_not_counted_and_the_first_episode_is_not_reported(tmp_path):
    env = {"env": "toys:CountEnv", "env_kwargs": ("n=25",), "decorrelate": 24}
    loop = {"env_steps": 400, "log_interval": 50, "eval_episodes": 4}
    outcome = outcome_of("dqn", tmp_path, env=env, loop=loop)
    assert set(column(outcome.folder, "rollout/length_min")) == {25.0}
    assert 400 <= outcome.runner.episodes.env_steps < 404
    assert 4 <= outcome.runner.episodes.total <= 12  # of 4 columns with 100 steps each
    evaluation: Any = outcome.runner.evaluations.newest
    assert list(evaluation.returns) == [25.0] * 4  # which begin with a reset


def test_pools_that_step_all_at_once_are_not_taken(capsys):
    argv = ["ppo", "--env", "ALE/Pong-v5", "--decorrelate", "100"]
    assert choose(parse(argv)[0].env, cores=2) == "in-process"
    assert choose(parse(argv[:-2])[0].env, cores=2) == "native"
    assert main(["train", *argv, "--vectorization", "native"]) == 2
    says = "decorrelate=100 and vectorization=native.*choose --vectorization in-process"
    assert re.search(says, " ".join(capsys.readouterr().err.split()))
    assert main(["train", "ppo", "--env", "CartPole-v1", "--decorrelate", "-1"]) == 2
    assert "decorrelate=-1 must not be negative" in capsys.readouterr().err
