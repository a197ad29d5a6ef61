"""A video of one episode of a trained agent."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpyt import noise
from rlpyt.envs.exits import no_exit
from rlpyt.envs.make import make
from rlpyt.envs.masks import MASK
from rlpyt.envs.registry import missing
from rlpyt.errors import UsageError
from rlpyt.logging.video import default_suffix, write_video

if TYPE_CHECKING:
    from rlpyt.api import TrainedAgent

MAX_FRAMES = 3000


def film(agent: TrainedAgent, path: Path | None, *, stochastic: bool = False) -> Path:
    """Play the first episode of the agent's evaluation and write what is rendered.

    Args:
        agent: plays.
        path: of the file; None puts it into the run's folder, or the working directory.
    """
    run = agent.run
    if path is None:
        name = f"{agent.env_steps:012d}{default_suffix()}"
        path = agent.folder / "videos" / name if agent.folder else Path(name)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory: no display needed
    env = make(run.env, role="evaluation", render_mode="rgb_array")
    with no_exit(f"env={run.env_name}, while it was filmed,"), closing(env):
        seeds = noise.ResetSeeds(agent.seed, noise.EVALUATION_RESETS)
        observation, info = env.reset(seed=seeds(0, 0))
        frames: list[Any] = [_first_frame(env, run.env_name)]
        state, reward, over = None, 0.0, False
        while not over and len(frames) < MAX_FRAMES:
            action, state = agent.predict(
                observation,
                state,
                deterministic=not stochastic,
                reward=reward,
                mask=info.get(MASK),
            )
            observation, reward, terminated, truncated, info = env.step(action)
            frames.append(env.render())
            over = terminated or truncated
        return write_video(path, frames, env.metadata.get("render_fps") or 30)


def _first_frame(env: Any, name: str) -> Any:
    """What the environment renders; where it lacks a package for that, a UsageError says which."""
    try:
        return env.render()
    except NotImplementedError:
        raise UsageError(f"{name} cannot be filmed: it has no render()") from None
    except Exception as error:
        if isinstance(error.__cause__ or error, ImportError):
            raise missing(name, error) from error
        raise
