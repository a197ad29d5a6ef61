"""What is said of a run before it begins; above all, that it will learn nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces
from small_parts import ChanceEnv
from torch import nn
from toys import SpaceZooEnv

from rlpyt.algos.options import (
    A2COptions,
    DQNOptions,
    QValueOptions,
    R2D1Options,
    ReplayOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.build import build
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder
from rlpyt.header import header
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.training import train

SMALL: dict[str, Any] = {"replay_size": 900, "learning_starts": 50, "target_update_updates": 10}
DQN = DQNOptions(**SMALL, batch_size=16, replay_ratio=0.5)  # an update every 32 steps
R2D1 = R2D1Options(  # items of 14 rows, an update of 48 rows every 24 steps
    **SMALL, batch_size=4, burn_in=4, train_rows=8, n_step=2, state_interval=4, replay_ratio=2.0
)
SHORT = dataclasses.replace(DQN, learning_starts=0)


def endless() -> ChanceEnv:
    return ChanceEnv(end=0.0)


def endless_numbers() -> ChanceEnv:
    return ChanceEnv(spaces.Box(-1.0, 1.0, (1,)), end=0.0)


def run_of(algo: Any, num_envs: int, env_steps: int, runs: Path) -> Run:
    memory = "gru" if isinstance(algo, R2D1Options) else "none"
    replays = isinstance(algo, ReplayOptions)
    model = QNetworkOptions(hidden_sizes=(8,), memory=memory, memory_size=8)
    loop = LoopOptions(env_steps=env_steps, seed=0, runs=str(runs), eval_episodes=0)
    if isinstance(algo, QValueOptions):
        env = EnvOptions(endless_numbers, num_envs=num_envs)
        return Run(env, algo, ActorQOptions(hidden_sizes=(8,)), loop)
    env = EnvOptions(endless, num_envs=num_envs)
    return Run(env, algo, model if replays else ActorCriticOptions(), loop)


def trained(run: Run, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Updates made, and what was shown in one line."""
    runner = train(run, mode="plain").runner
    return runner.parts.algorithm.learner.updates, " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("algo", "num_envs", "env_steps"),
    [
        (DQN, 1, 81),  # 50 and 32: one step too few for an update
        (DQN, 1, 82),
        (DQN, 4, 81),  # the last window is rounded up to all environments
        (DQN, 3, 500),
        (dataclasses.replace(DQN, replay_ratio=0.01), 2, 700),
        (dataclasses.replace(DQN, n_step=30, horizon=7), 5, 154),  # items of 31 rows
        (dataclasses.replace(DQN, n_step=30, horizon=7), 5, 155),
        (dataclasses.replace(SHORT, n_step=30, horizon=7), 5, 250),
        (R2D1, 8, 103),
        (R2D1, 8, 104),
        (R2D1, 8, 112),
        (R2D1, 2, 73),
        (R2D1, 2, 74),
        (R2D1, 5, 300),
        (dataclasses.replace(R2D1, horizon=3), 8, 130),
    ],
)
def test_a_run_that_learns_nothing_says_so_and_no_other_does(
    algo: ReplayOptions, num_envs: int, env_steps: int, tmp_path: Path, capsys: Any
) -> None:
    """By the number of updates, which is foreseen where no episode ends."""
    updates, shown = trained(run_of(algo, num_envs, env_steps, tmp_path), capsys)
    assert updates == algo.updates(num_envs, env_steps)
    assert ("nothing is learned:" in shown) == (updates == 0)


def test_what_is_said_of_a_run_that_learns_nothing(tmp_path: Path, capsys: Any) -> None:
    _, shown = trained(run_of(DQN, 1, 70, tmp_path), capsys)
    assert "rows are counted from step 50 on" in shown
    assert "the first update is due at 82, and the run ends at 70" in shown
    _, shown = trained(run_of(R2D1, 8, 100, tmp_path), capsys)
    assert "an item of the replay is 14 rows of one environment" in shown
    assert "100 steps are 13 for each of 8" in shown


def test_learning_that_would_start_after_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="learning_starts=50 is not before the run's end"):
        run_of(DQN, 1, 50, tmp_path)


@pytest.mark.parametrize(("starts", "said"), [(399, False), (400, False), (401, True)])
def test_learning_starts_beyond_what_the_replay_holds_is_said_and_learns_all_the_same(
    starts: int, said: bool, tmp_path: Path, capsys: Any
) -> None:
    algo = dataclasses.replace(DQN, replay_size=403, learning_starts=starts)
    updates, shown = trained(run_of(algo, 4, 600, tmp_path), capsys)
    assert updates == algo.updates(4, 600) > 0
    assert ("the replay holds the newest 400 rows" in shown) == said


@pytest.mark.parametrize(
    ("every", "tau", "says"),
    [
        (10, 1.0, ""),
        (11, 1.0, "stays as it began: it follows by --target-tau 1 every 11 updates"),
        (1, 0.05, "moves 40% of its way in all the run: it follows by --target-tau 0.05 every 1"),
        (1, 0.07, ""),
    ],
)
def test_a_target_network_that_hardly_moves_is_said(
    every: int, tau: float, says: str, tmp_path: Path
) -> None:
    """Of ten updates: a small tau beside an interval made for copies, or one longer than all."""
    algo = dataclasses.replace(DQN, target_update_updates=every, target_tau=tau)
    run = run_of(algo, 1, 370, tmp_path)
    found = [x for x in header(run, build(run), RunFolder(tmp_path)) if "target network" in x]
    assert (says in found[0]) if says else not found
    assert not found or "updates, and the run makes 10; raise --env-steps" in found[0]
    assert not found or ("lower --target-update-updates" in found[0]) == (every > 1)


def test_critics_without_target_networks_are_told_nothing_of_them(tmp_path: Path) -> None:
    algo = SACOptions(learning_starts=50, batch_size=8, replay_ratio=8.0)
    for batch_norm in (True, False):
        run = run_of(algo, 1, 60, tmp_path)
        run = dataclasses.replace(run, model=dataclasses.replace(run.model, batch_norm=batch_norm))
        lines = header(run, build(run), RunFolder(tmp_path))
        assert any("target network" in line for line in lines) != batch_norm


@pytest.mark.parametrize(("horizon", "said"), [(125, False), (126, True)])
def test_that_a_signal_waits_for_the_many_updates_of_a_window_is_said(
    horizon: int, said: bool, tmp_path: Path, capsys: Any
) -> None:
    algo = dataclasses.replace(DQN, horizon=horizon, replay_ratio=32.0, learning_starts=0)
    run = run_of(algo, 4, 4000, tmp_path)
    lines = header(run, build(run), RunFolder(tmp_path))
    found = [line for line in lines if "Ctrl-C waits" in line]
    assert bool(found) == said
    assert not said or "each window of 504 rows is followed by 1,008 updates" in found[0]


@pytest.mark.parametrize(("delay", "said"), [(32, False), (33, True)])
def test_an_actor_that_is_never_updated_is_said(
    delay: int, said: bool, tmp_path: Path, capsys: Any
) -> None:
    """32 updates of the critics, one a step from the fiftieth on."""
    algo = TD3Options(
        horizon=1, learning_starts=50, batch_size=8, replay_ratio=8.0, policy_delay=delay
    )
    run = run_of(algo, 1, 82, tmp_path)
    updates, shown = trained(run, capsys)
    assert updates == 32
    assert ("the actor learns nothing: --policy-delay 33 is more than the 32" in shown) == said


def test_algorithms_without_a_replay_are_told_nothing_of_it(tmp_path: Path, capsys: Any) -> None:
    _, shown = trained(run_of(A2COptions(), 4, 100, tmp_path), capsys)
    assert "nothing is learned" not in shown and "replay" not in shown


@pytest.mark.parametrize(("interval", "said"), [(8, False), (9, True)])
def test_rows_that_are_never_learned_from_are_said(
    interval: int, said: bool, tmp_path: Path
) -> None:
    run = run_of(dataclasses.replace(R2D1, state_interval=interval), 1, 900, tmp_path)
    lines = header(run, build(run), RunFolder(tmp_path))
    assert any("of every 9 rows 8 are learned from" in line for line in lines) == said


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (spaces.Box(-1.0, 1.0, (3,)), False),
        (spaces.Dict(a=spaces.Box(-1.0, 1.0, (3,)), b=spaces.Discrete(2)), False),
        (spaces.Box(-9, 9, (3,), "int32"), True),
        (spaces.Box(0, 255, (36, 36, 3), "uint8"), True),
        (spaces.Box(0, 255, (36, 36, 3), "float32"), True),  # the network scales it
        (spaces.Discrete(5), True),
    ],
)
def test_that_nothing_is_normalized_is_said(space: Any, said: bool, tmp_path: Path) -> None:
    env = EnvOptions(lambda: SpaceZooEnv(space, spaces.Discrete(2)), num_envs=1)
    for wished in (True, False):
        algo = dataclasses.replace(DQN, normalize_observation=wished)
        run = dataclasses.replace(run_of(algo, 1, 900, tmp_path), env=env)
        lines = header(run, build(run), RunFolder(tmp_path))
        found = any("--normalize-observation changes nothing" in line for line in lines)
        assert found == (said and wished)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (spaces.Box(-9, 9, (3,), "int32"), True),
        (spaces.Box(0, 1, (3,), "uint8"), True),
        (spaces.Box(0, 200, (3,), "uint8"), False),  # the network divides by 200
        (spaces.Box(0, 1, (3,), "bool"), False),
        (spaces.MultiDiscrete([9, 9]), False),
    ],
)
def test_amounts_that_are_not_normalized_beside_others_are_said(
    part: Any, said: bool, tmp_path: Path
) -> None:
    space = spaces.Dict(a=spaces.Box(-1.0, 1.0, (3,)), b=part)
    env = EnvOptions(lambda: SpaceZooEnv(space, spaces.Discrete(2)), num_envs=1)
    algo = dataclasses.replace(DQN, normalize_observation=True)
    run = dataclasses.replace(run_of(algo, 1, 900, tmp_path), env=env)
    lines = header(run, build(run), RunFolder(tmp_path))
    assert any("leaves observation.b (" in line for line in lines) == said


class Remembering(nn.Module):
    """A user's network with a memory, which adds up what it sees."""

    def __init__(self, reads: set[str]) -> None:
        super().__init__()
        self.reads, self.layer = frozenset({"observation"} | reads), nn.Linear(3, 3)

    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, 3)

    def policy(self, inputs: Any, state: Any) -> Any:
        state = state + inputs.observation
        return self.layer(state), state


def test_a_memory_that_is_not_told_of_beginnings_is_said(tmp_path: Path) -> None:
    run = run_of(A2COptions(), 1, 100, tmp_path)
    for reads, said in ((set(), True), ({"first"}, False)):
        parts = build(run, model=lambda spec, reads=reads: Remembering(reads))
        lines = header(run, parts, RunFolder(tmp_path))
        assert any("Remembering has a memory and does not read" in x for x in lines) == said
    plain = header(run, build(run), RunFolder(tmp_path))
    assert not any("has a memory" in x for x in plain)
