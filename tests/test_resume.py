"""A run that stops goes on as if it had not: parameters and metrics equal by hash."""

import csv
import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from rlpyt import checkpoint
from rlpyt.algos.options import A2COptions, PPOOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.models.options import ModelOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks, Runner
from rlpyt.training import Outcome, resume, train

PPO = PPOOptions(horizon=32, minibatch_size=64, update_epochs=2, lr_schedule="linear")
RUNS = {
    "ppo": (PPO, ModelOptions(), "CartPole-v1"),
    "normalized": (
        dataclasses.replace(PPO, normalize_observation=True, normalize_reward=True),
        ModelOptions(),
        "Pendulum-v1",
    ),
    "lstm": (PPO, ModelOptions(memory="lstm", memory_size=16), "CartPole-v1"),
    "gru-chunks": (
        dataclasses.replace(PPO, state_interval=8),
        ModelOptions(memory="gru", memory_size=16, share_trunk=True),
        "CartPole-v1",
    ),
    "a2c": (A2COptions(), ModelOptions(), "Acrobot-v1"),
}


def make(kind: str, runs: Path, env_steps: int = 2000) -> Run:
    algo, model, env = RUNS[kind]
    loop = LoopOptions(
        env_steps=env_steps,
        seed=3,
        runs=str(runs),
        eval_episodes=4,
        eval_interval=700,
        eval_max_steps=300,
        checkpoint_interval=400,
        log_interval=150,
        keep_checkpoints=9,
    )
    return Run(EnvOptions(env, num_envs=4), algo, model, loop)


def fingerprint(outcome: Outcome) -> str:
    """Hash of everything that a checkpoint holds, and of the metrics without their times."""
    state, _ = checkpoint.load(outcome.folder / "checkpoints")
    digest = hashlib.sha256()
    absorb(digest, state)
    lines = (outcome.folder / "progress.csv").read_text().splitlines()
    for row in csv.DictReader(lines):
        digest.update(repr([(k, v) for k, v in row.items() if "time/" not in k]).encode())
    return digest.hexdigest()


def absorb(digest: Any, tree: Any) -> None:
    if isinstance(tree, dict):
        for key in sorted(tree):
            if not key.startswith("time/"):
                digest.update(key.encode())
                absorb(digest, tree[key])
    elif isinstance(tree, list | tuple):
        for part in tree:
            absorb(digest, part)
    elif hasattr(tree, "numpy"):
        digest.update(tree.numpy().tobytes())
    elif hasattr(tree, "tobytes"):
        digest.update(tree.tobytes())
    else:
        digest.update(repr(tree).encode())


def stopped_at(windows: int) -> Hooks:
    """Ask for the end as Ctrl-C does, after so many windows of this process."""
    count = iter(range(1, 1_000_000))

    def on_window(runner: Runner) -> bool:
        if next(count) == windows:
            runner.stop.name = "interrupted"
        return False

    return Hooks(on_window=on_window)


@pytest.mark.parametrize("kind", RUNS)
def test_a_resumed_run_equals_one_that_never_stopped(kind, tmp_path):
    whole = train(make(kind, tmp_path / "whole"), mode="quiet")
    part = train(make(kind, tmp_path / "part"), hooks=stopped_at(5), mode="quiet")
    assert part.status == "interrupted"
    for _ in range(2):  # stopped once more on the way
        part = resume(part.folder, hooks=stopped_at(3), mode="quiet")
    part = resume(part.folder, mode="quiet")
    assert (whole.status, part.status) == ("finished", "finished")
    assert fingerprint(whole) == fingerprint(part)


def test_another_seed_has_another_fingerprint(tmp_path):
    run = make("ppo", tmp_path)
    other = dataclasses.replace(run, loop=dataclasses.replace(run.loop, seed=4))
    prints = [fingerprint(train(r, mode="quiet")) for r in (run, run, other)]
    assert prints[0] == prints[1] != prints[2]
