"""Whole runs of two ranks: the rows of all, one folder, one end; resumed as if never stopped."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from small_runs import fingerprint, make
from together import in_ranks

from rlpyt import checkpoint, training
from rlpyt.algos.options import ReplayOptions
from rlpyt.distributions import for_action
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions
from rlpyt.one_run import of_all
from rlpyt.ranks import world
from rlpyt.run import Run
from rlpyt.runner import Hooks, Runner

KINDS = ("normalized", "lstm", "rainbow", "r2d1", "td3", "crossq", "sac-discrete")


def run_of(kind: str, runs: Path, ranks: int = 2, **loop: Any) -> Run:
    """A run whose environments are divided among the ranks."""
    run = make(kind, runs, name=kind, **loop)
    env = dataclasses.replace(run.env, num_envs=run.env.num_envs // ranks)
    algo = run.algo
    if isinstance(algo, ReplayOptions):  # per rank
        algo = dataclasses.replace(algo, replay_size=algo.replay_size // ranks)
    return dataclasses.replace(run, env=env, algo=algo)


def train(kinds: Sequence[str], runs: Path, stop: float = inf, **loop: Any) -> list[str]:
    """Train each kind; asked to end by a signal of the second rank after so many steps of all."""

    def on_window(runner: Runner) -> bool:
        if runner.episodes.env_steps >= stop and not world().first:
            runner.stop.name = "interrupted"
        return False

    ends = []
    for kind in kinds:
        run = run_of(kind, runs, **loop)
        ends.append(training.train(run, hooks=Hooks(on_window=on_window), mode="quiet").status)
    return ends


def whole_and_in_two(whole: Path, cut: Path) -> tuple[list[str], ...]:
    """How runs of each kind end: those that nothing stops, those that stop, and these resumed."""
    short: dict[str, Any] = {"env_steps": 1200, "eval_max_steps": 100}
    first, stopped = train(KINDS, whole, **short), train(KINDS, cut, 600, **short)
    if world().first:
        shutil.copytree(cut, cut.with_name("stopped"))
    world().totals(1.0)  # the second waits for that
    return first, stopped, [training.resume(cut / kind, mode="quiet").status for kind in KINDS]


def test_a_resumed_run_of_two_ranks_equals_one_that_never_stopped(tmp_path: Path) -> None:
    """Also where only one of them had the signal: both end after the same window."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    ends = [[end] * len(KINDS) for end in ("finished", "interrupted", "finished")]
    assert in_ranks(2, whole_and_in_two, whole, cut, seconds=200) == [tuple(ends)] * 2
    for kind in KINDS:
        stopped = fingerprint(tmp_path / "stopped" / kind)
        assert fingerprint(cut / kind) == fingerprint(whole / kind) != stopped, kind


def agent_of(folder: Path) -> dict[str, torch.Tensor]:
    state, _ = checkpoint.load(folder / "checkpoints")
    return state["agent"]


@pytest.mark.parametrize("kind", ["a2c", "impala"])
def test_two_ranks_train_as_one_with_the_environments_of_both(kind: str, tmp_path: Path) -> None:
    """Columns are numbered over all ranks: the same starts, the same noise, the same rows."""
    in_ranks(2, train_short, kind, tmp_path / "two", 2)
    train_short(kind, tmp_path / "one", 1)
    two, one = agent_of(tmp_path / "two" / kind), agent_of(tmp_path / "one" / kind)
    for name, x in one.items():
        torch.testing.assert_close(two[name], x, rtol=1e-3, atol=2e-5, msg=name)
    lines = [(tmp_path / x / kind / "progress.csv").read_text() for x in ("one", "two")]
    assert columns(lines[0], "rollout/episodes") == columns(lines[1], "rollout/episodes")
    assert columns(lines[0], "env_steps") == columns(lines[1], "env_steps")


def train_short(kind: str, runs: Path, ranks: int) -> None:
    training.train(run_of(kind, runs, ranks, env_steps=400, eval_interval=0), mode="quiet")


def columns(text: str, name: str) -> list[str]:
    header, *lines = (line.split(",") for line in text.splitlines())
    return [line[header.index(name)] for line in lines]


def test_each_rank_has_seeds_of_its_own_and_the_weights_of_all(tmp_path: Path) -> None:
    """B203; the numbers of environments, those of evaluation among them, are unique (B070)."""
    first, second = in_ranks(2, first_rows, tmp_path)
    assert first["weights"] == second["weights"]
    assert first["numbers"] == [0, 1] and second["numbers"] == [2, 3]
    assert first["evaluation"] == 4
    assert first["observation"] != second["observation"]
    assert first["noise"] != second["noise"] and first["shuffle"] != second["shuffle"]
    assert first["epsilon"] + second["epsilon"] == sorted(first["epsilon"] + second["epsilon"])
    assert len(set(first["epsilon"] + second["epsilon"])) == 4


NUMBERS: list[int] = []


def numbered(rank: int = -1) -> Any:
    """Writes down which environment of the job it is."""
    NUMBERS.append(rank)
    return gymnasium.make("CartPole-v1")


def first_rows(runs: Path) -> dict[str, Any]:
    from rlpyt.build import build

    run = run_of("dqn", runs, eval_episodes=1)
    run = dataclasses.replace(run, env=dataclasses.replace(run.env, env=numbered))
    algo = dataclasses.replace(run.algo, epsilon_ladder="log", epsilon_steps=0, epsilon_start=0.5)
    parts = build(dataclasses.replace(run, algo=algo))
    parts.sampler.reset()
    agent: Any = parts.agent
    sampler: Any = parts.sampler
    algorithm: Any = parts.algorithm
    agent.set_exploration(10**6)
    found = {
        "weights": float(sum(p.double().sum() for p in agent.model.parameters())),
        "numbers": NUMBERS[-2:],
        "evaluation": (parts.evaluator.sampler, NUMBERS[-1])[1],
        "observation": sampler.window.slots[-1].row.observation.tolist(),
        "noise": sampler.noise.rows(0, 1).tolist(),
        "shuffle": algorithm.generator.initial_seed(),
        "epsilon": agent.epsilon.tolist(),
    }
    parts.close()
    return found


def test_all_ranks_go_on_from_a_checkpoint_that_is_whole_on_all(tmp_path: Path) -> None:
    """The newest one's replay is damaged on the second rank alone."""
    in_ranks(2, train, ["dqn"], tmp_path, 640)
    newest, before = checkpoint.names(tmp_path / "dqn" / "checkpoints")[:2]
    last = max((tmp_path / "dqn" / "replay-rank-1").iterdir(), key=lambda x: x.stat().st_mtime)
    last.write_bytes(last.read_bytes()[:-1] + b"x")
    assert set(in_ranks(2, resumed_at, tmp_path / "dqn")) == {int(before)} != {int(newest)}


def resumed_at(folder: Path) -> int:
    warnings.simplefilter("ignore")
    done = training.resume(folder, mode="quiet")
    return done.runner.episodes.env_steps - done.runner.steps_here


def test_all_ranks_end_at_the_step_at_which_the_goal_is_reached(tmp_path: Path) -> None:
    """The first one evaluates; the others stop with it, with the same weights."""
    first, second = in_ranks(2, ended_at, tmp_path, 5.0)
    assert first == second and 400 <= first[0] < 600
    assert in_ranks(2, ended_at, tmp_path / "control", None)[0][0] >= 2000


def ended_at(runs: Path, goal: float | None) -> tuple[int, float]:
    """Environment steps, and a sum of the weights."""
    run = run_of("ppo", runs, stop_at_return=goal, eval_interval=400, eval_episodes=1)
    done = training.train(run, mode="quiet").runner
    return done.episodes.env_steps, weight_of(done)


def weight_of(runner: Runner) -> float:
    return float(sum(x.detach().double().sum() for x in runner.parts.agent.parameters()))


@pytest.mark.parametrize("kind", ["ppo", "dqn"])
def test_environments_that_one_rank_has_dropped_are_learned_without(
    kind: str, tmp_path: Path
) -> None:
    """Ranks then have unequally many rows; what is counted and logged is of all."""
    (steps, weight), other = in_ranks(2, train_with_a_crash, kind, tmp_path)
    assert (steps, weight) == other and steps >= 1200
    text = (tmp_path / kind / "progress.csv").read_text()
    assert columns(text, "workers/dropped")[-1] in ("1", "1.0")
    assert int(columns(text, "env_steps")[-1]) == steps


def train_with_a_crash(kind: str, runs: Path) -> tuple[int, float]:
    """The last environment of the second rank fails."""
    run = run_of(kind, runs, env_steps=1200, eval_interval=0, eval_episodes=0)
    faulty: dict[str, Any] = {"env": "small_workers:Faulty", "num_envs": 2}
    env = dataclasses.replace(run.env, **faulty, env_kwargs=("column=3", "k=40", "how=raise"))
    sampler = dataclasses.replace(run.sampler, workers=2, on_worker_failure="drop")
    run = dataclasses.replace(run, env=env, sampler=sampler)
    runner = training.train(run, mode="quiet").runner
    return runner.episodes.env_steps, weight_of(runner)


@pytest.mark.parametrize("what", ["weights", "environment"])
def test_ranks_with_code_of_their_own_are_refused_before_a_run_begins(
    what: str, tmp_path: Path
) -> None:
    told = in_ranks(2, refusal_of_other_code, what, tmp_path)
    name = {"weights": "the sum of", "environment": "what environments observe"}[what]
    assert all(name in text and "with the same code" in text for text in told), told
    assert not (tmp_path / "ppo").exists()


def refusal_of_other_code(what: str, runs: Path) -> str:
    run = run_of("ppo", runs)
    if what == "environment":
        run = dataclasses.replace(run, env=dataclasses.replace(run.env, env=of_this_rank))

    def model(spec: EnvSpec) -> ActorCritic:
        network = ActorCritic(spec, for_action(spec.action), ActorCriticOptions())
        with torch.no_grad():
            next(network.parameters()).add_(1e-3 * world().rank)
        return network

    try:
        training.train(run, model=model if what == "weights" else None, mode="quiet")
    except UsageError as error:
        return str(error)
    return "nothing was refused"


def of_this_rank() -> Any:
    return gymnasium.make(("CartPole-v1", "Acrobot-v1")[world().rank])


def test_what_a_line_says_of_samplers_is_of_all_ranks() -> None:
    (first, second) = in_ranks(2, line_of_samplers)
    assert (
        first
        == second
        == {
            "workers/dropped": 3.0,
            "workers/slowest": 5.0,
            "workers/slowest_share": 0.4,
            "sampler/version_lag": 2.0,
            "sampler/version_lag_max": 7.0,
            "time/env": 0.25,
        }
    )


def line_of_samplers() -> dict[str, float]:
    second = world().rank
    own = {"workers/dropped": 1.0 + second, "workers/slowest": 5.0 * second, "time/env": second / 2}
    own |= {"workers/slowest_share": 0.4 * second, "sampler/version_lag_max": 7.0 - second}
    return of_all(own | ({"sampler/version_lag": 2.0} if second else {}))


def test_ranks_with_options_of_their_own_are_refused(tmp_path: Path) -> None:
    for text in in_ranks(2, refusal_of_another_lr, tmp_path):
        assert "algo.lr is " in text and "with the same options" in text


def refusal_of_another_lr(runs: Path) -> str:
    run = run_of("ppo", runs)
    algo = dataclasses.replace(run.algo, lr=1e-3 * (1 + world().rank))
    try:
        training.train(dataclasses.replace(run, algo=algo), mode="quiet")
    except UsageError as error:
        return str(error)
    return "nothing was refused"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loop": {"compile": "on"}}, ["compile=on with 2 ranks", "--compile off"]),
        ({"sampler": {"asynchronous": True}}, ["asynchronous with 2 ranks", "impala"]),
        (
            {"model": {"batch_norm": True}, "loop": {"compile": "on"}},
            ["compile=on with 2 ranks", "batch_norm"],
        ),
    ],
)
def test_what_ranks_cannot_do_together_is_refused(
    changes: dict[str, dict[str, Any]], words: list[str], tmp_path: Path
) -> None:
    for text in in_ranks(2, refusal, changes, tmp_path):
        assert all(word in text for word in words), text


def refusal(changes: dict[str, dict[str, Any]], runs: Path) -> str:
    kind = {"sampler": "impala", "model": "sac"}.get(next(iter(changes)), "ppo")
    run = run_of(kind, runs)
    parts = {name: dataclasses.replace(getattr(run, name), **x) for name, x in changes.items()}
    try:
        training.train(dataclasses.replace(run, **parts), mode="quiet")
    except UsageError as error:
        return str(error)
    return "nothing was refused"


def test_asynchronous_samplers_of_ranks_learn_in_step(tmp_path: Path) -> None:
    """Each rank has windows of its own length; both make as many updates, and stop together."""
    (first, second) = in_ranks(2, train_meanwhile, tmp_path)
    assert first == second
    status, steps, updates, ratio = first
    assert status == "finished" and 2000 <= steps < 2400 and updates > 100
    assert abs(ratio / 4.0 - 1) < 0.05


def train_meanwhile(runs: Path) -> tuple[str, int, int, float]:
    run = run_of("dqn", runs)
    sampler = dataclasses.replace(run.sampler, asynchronous=True)
    done = training.train(dataclasses.replace(run, sampler=sampler), mode="quiet")
    algorithm: Any = done.runner.parts.algorithm
    ratio = algorithm.metrics()["replay/ratio"]
    return done.status, done.runner.episodes.env_steps, algorithm.updates, ratio
