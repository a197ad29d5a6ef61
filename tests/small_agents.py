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


def short(kind: Any = A2C, env: Any = "CartPole-v1", **options: Any) -> Any:
    """An agent that has learned for 600 steps."""
    return kind(env, **{**SHORT, **options}).learn(mode="quiet")
