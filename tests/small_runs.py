"""Runs of a second, their fingerprints, and signals that strike at a given place in them."""

import csv
import dataclasses
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlpyt import checkpoint, faultpoints, noise, training
from rlpyt.algos.learner import Learner
from rlpyt.algos.options import (
    A2COptions,
    APPOOptions,
    D4PGOptions,
    DDPGOptions,
    DQNOptions,
    IMPALAOptions,
    PPOOptions,
    R2D1Options,
    SACOptions,
    TD3Options,
)
from rlpyt.envs.options import EnvOptions
from rlpyt.logging.recorder import Recorder
from rlpyt.models.options import ActorCriticOptions, ActorQOptions, QNetworkOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks, Runner
from rlpyt.vector.in_process import InProcess

PPO = PPOOptions(horizon=32, minibatch_size=64, update_epochs=2, lr_schedule="linear")
SMALL_REPLAY: dict[str, Any] = {
    "learning_starts": 200,
    "replay_size": 600,  # so that it is full within the run
    "replay_ratio": 4.0,
    "target_update_updates": 20,
    "epsilon_steps": 1000,
}
DQN = DQNOptions(**SMALL_REPLAY, batch_size=16)
SMALL_Q_VALUE: dict[str, Any] = {
    "horizon": 4,
    "learning_starts": 200,
    "random_steps": 500,  # so that some runs stop within them
    "replay_size": 600,
    "replay_ratio": 4.0,
    "batch_size": 16,
}
SMALL_SEQUENCES: dict[str, Any] = {
    "burn_in": 4,
    "train_rows": 8,
    "state_interval": 4,
    "n_step": 2,
}
SMALL_NETWORKS = ActorQOptions(hidden_sizes=(16,), memory_size=8)
LSTM = dataclasses.replace(SMALL_NETWORKS, memory="lstm")
RUNS: dict[str, tuple[Any, Any, str]] = {
    "ppo": (PPO, ActorCriticOptions(), "CartPole-v1"),
    "normalized": (
        dataclasses.replace(PPO, normalize_observation=True, normalize_reward=True),
        ActorCriticOptions(),
        "Pendulum-v1",
    ),
    "lstm": (PPO, ActorCriticOptions(memory="lstm", memory_size=16), "CartPole-v1"),
    "gru-chunks": (
        dataclasses.replace(PPO, state_interval=8),
        ActorCriticOptions(memory="gru", memory_size=16, share_trunk=True),
        "CartPole-v1",
    ),
    "ppo-pixels": (
        dataclasses.replace(PPO, update_epochs=1),
        ActorCriticOptions(encoder="nature"),
        "toy_tasks:LargeFrames",
    ),
    "a2c": (A2COptions(), ActorCriticOptions(), "Acrobot-v1"),
    "impala": (IMPALAOptions(normalize_reward=True), ActorCriticOptions(), "CartPole-v1"),
    "appo-lstm": (
        APPOOptions(horizon=32, state_interval=16, minibatch_size=64, update_epochs=2),
        ActorCriticOptions(memory="lstm", memory_size=16),
        "CartPole-v1",
    ),
    "dqn": (DQN, QNetworkOptions(), "CartPole-v1"),
    "dqn-frames": (DQN, QNetworkOptions(), "toy_tasks:Frames"),
    "rainbow": (
        dataclasses.replace(
            DQN, prioritized=True, values="categorical", v_max=50.0, v_min=0.0, n_step=3
        ),
        QNetworkOptions(dueling=True, noisy=True, head_sizes=(16,)),
        "CartPole-v1",
    ),
    "iqn": (
        dataclasses.replace(DQN, values="implicit", num_fractions=8, greedy_fractions=8),
        QNetworkOptions(),
        "Acrobot-v1",
    ),
    "r2d1": (
        R2D1Options(
            **SMALL_REPLAY,
            batch_size=4,
            burn_in=4,
            train_rows=8,
            state_interval=4,
            n_step=2,
            prioritized=True,
            priority_entry="td",
        ),
        QNetworkOptions(memory="lstm", memory_size=16),
        "CartPole-v1",
    ),
    "ddpg": (DDPGOptions(**SMALL_Q_VALUE, exploration="ou"), SMALL_NETWORKS, "Pendulum-v1"),
    "td3": (
        TD3Options(**SMALL_Q_VALUE, policy_delay=3, normalize_observation=True),
        SMALL_NETWORKS,
        "Pendulum-v1",
    ),
    "sac": (SACOptions(**SMALL_Q_VALUE, prioritized=True), SMALL_NETWORKS, "Pendulum-v1"),
    "redq-dropout": (
        SACOptions(**SMALL_Q_VALUE, critics=4, n_step=2, policy_delay=2),
        dataclasses.replace(SMALL_NETWORKS, critic_dropout=0.1, critic_layer_norm=True),
        "Pendulum-v1",
    ),
    "crossq": (
        SACOptions(**SMALL_Q_VALUE, adam_beta1=0.5, policy_delay=3),
        dataclasses.replace(SMALL_NETWORKS, batch_norm=True, batch_norm_warm_up=100),
        "Pendulum-v1",
    ),
    "sac-values": (
        SACOptions(**SMALL_Q_VALUE, n_step=2, temperature=1.0, reward_scale=5.0),
        dataclasses.replace(SMALL_NETWORKS, value_network=True),
        "Pendulum-v1",
    ),
    "sac-discrete": (
        SACOptions(**SMALL_Q_VALUE, n_step=2, prioritized=True),
        SMALL_NETWORKS,
        "CartPole-v1",
    ),
    "d4pg": (
        D4PGOptions(**SMALL_Q_VALUE, v_min=-80.0, v_max=0.0, reward_scale=0.1),
        SMALL_NETWORKS,
        "Pendulum-v1",
    ),
    "sac-lstm": (
        SACOptions(**{**SMALL_Q_VALUE, **SMALL_SEQUENCES, "batch_size": 4}, prioritized=True),
        LSTM,
        "rlpyt/PendulumPositions-v0",
    ),
    "ddpg-lstm": (
        DDPGOptions(**{**SMALL_Q_VALUE, **SMALL_SEQUENCES, "batch_size": 4}, exploration="ou"),
        LSTM,
        "rlpyt/PendulumPositions-v0",
    ),
}


def make(kind: str, runs: Path, **loop: Any) -> Run:
    """A run of 2000 steps: 16 windows (PPO), evaluations, checkpoints and lines between them."""
    algo, model, env = RUNS[kind]
    given = {
        "env_steps": 2000,
        "seed": 3,
        "runs": str(runs),
        "eval_episodes": 4,
        "eval_interval": 700,
        "eval_max_steps": 300,
        "checkpoint_interval": 400,
        "log_interval": 150,
        "keep_checkpoints": 9,
    }
    frames = 3 if kind == "dqn-frames" else None
    options = EnvOptions(env, num_envs=4, frame_stack=frames)
    return Run(options, algo, model, LoopOptions(**given | loop))


def fingerprint(folder: Path) -> str:
    """Hash of everything that the newest checkpoint holds, and of the metrics without times."""
    state, _ = checkpoint.load(folder / "checkpoints")
    digest = hashlib.sha256()
    absorb(digest, state)
    lines = (folder / "progress.csv").read_text().splitlines()
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


def strike(number: int, place: str, n: int, patch: Callable[[Any, str, Any], None]) -> None:
    """Send this process a signal before `place` is entered for the n-th time, counted from 1.

    Args:
        patch: sets an attribute, as pytest's monkeypatch does.
    """
    left = [n]

    def counted() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), number)

    def before(owner: Any, name: str, role: int | None = None) -> None:
        original = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            if role is None or args[0]._seeds.role == role:
                counted()
            return original(*args, **kwargs)

        patch(owner, name, called)

    match place:
        case "build":
            before(training, "build")
        case "collect":
            before(InProcess, "send", noise.TRAINING_RESETS)
        case "update":
            before(Learner, "step")
        case "evaluate":
            before(InProcess, "send", noise.EVALUATION_RESETS)
        case "save":
            patch(faultpoints, "plan", lambda name: counted())
        case "log":
            before(Recorder, "write")


def child(name: str, place: str, n: int, kind: str, runs: Path) -> None:
    """In a process of its own: go on with the run named "run", or begin it, until it is struck."""
    strike(getattr(signal, name), place, n, setattr)
    if (runs / "run").exists():
        training.resume(runs / "run", mode="quiet")
    else:
        training.train(make(kind, runs, name="run"), mode="quiet")
