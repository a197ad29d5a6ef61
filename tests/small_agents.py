"""Agents that have learned for a moment, by the facade."""

from typing import Any

from rlpyt import A2C

SHORT: dict[str, Any] = {
    "seed": 1,
    "env_steps": 600,
    "eval_episodes": 2,
    "num_envs": 2,
    "horizon": 16,
}
REPLAY = {"horizon": 4, "learning_starts": 200, "replay_size": 1000, "batch_size": 8}
SEQUENCES = {"burn_in": 2, "train_rows": 4, "state_interval": 2, "memory": "gru"}


def short(kind: Any = A2C, env: Any = "CartPole-v1", **options: Any) -> Any:
    """An agent that has learned for 600 steps."""
    return kind(env, **{**SHORT, **options}).learn(mode="quiet")
