"""rlpyt eval: play episodes with a trained agent, as its run evaluated it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from rlpyt.cli.output import one_object
from rlpyt.cli.parsing import parse_or_help
from rlpyt.errors import UsageError


@dataclass(frozen=True)
class EvalOptions:
    """Play episodes with a trained agent."""

    run: Annotated[str, Positional, arg(metavar="RUN")] = ""
    """A run's folder, one of its checkpoints, or what `agent.save` wrote."""

    episodes: int = 20
    """Episodes to play."""

    stochastic: bool = False
    """Take sampled actions instead of the most likely ones."""

    best: bool = False
    """The checkpoint with the best evaluation instead of the newest."""

    seed: Annotated[int | None, arg(metavar="INT")] = None
    """Seed of the starts; unset: the run's own, which gives its final evaluation again."""

    device: str = "cpu"
    """Where the network lives: cpu, cuda, cuda:1, mps."""

    video: bool = False
    """Film the first episode, beside the run's checkpoints or below the working directory."""

    video_path: Annotated[str | None, arg(metavar="FILE")] = None
    """Film the first episode to this file (.mp4, .webp or .gif)."""

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""


def main(argv: Sequence[str]) -> int:
    """Evaluate as the arguments say; returns the exit code."""
    options = parse_or_help(EvalOptions(), argv, "rlpyt eval")
    if options is None:
        return 0
    if options.episodes < 1:
        raise UsageError(f"--episodes={options.episodes} must be at least 1")
    with one_object(options.json) as print_object:
        from rlpyt.api import load

        if options.video or options.video_path:
            from rlpyt.logging.video import check_format, default_suffix

            check_format(Path(options.video_path or f"video{default_suffix()}"))
        agent = load(Path(options.run), best=options.best, seed=options.seed, device=options.device)
        evaluation = agent.evaluate(options.episodes, stochastic=options.stochastic)
        print(
            f"return {evaluation.mean:.1f} ± {evaluation.std:.1f}   "
            f"min {evaluation.returns.min():.1f}   max {evaluation.returns.max():.1f}   "
            f"length {evaluation.lengths.mean():.0f}\n"
            f"  {len(evaluation.returns)} episodes, "
            f"{_actions(agent.run.algo, options.stochastic)}, "
            f"weights of {agent.env_steps:,} env steps"
        )
        if evaluation.alike:
            print(
                "  all episodes are alike, so that ± 0.0 says nothing of chance"
                + ("" if options.stochastic else "; --stochastic samples actions")
            )
        outcome = {
            "run_dir": options.run,
            "algo": agent.run.algo_name,
            "env": agent.run.env_name,
            "seed": agent.run.loop.seed,
            "env_steps": agent.env_steps,
            "eval_return": evaluation.mean,
            "eval_return_std": evaluation.std,
            "eval_episodes": len(evaluation.returns),
            "returns": evaluation.returns.tolist(),
            "lengths": evaluation.lengths.tolist(),
        }
        if options.video or options.video_path:
            from rlpyt.cli.film import film

            path = Path(options.video_path) if options.video_path else None
            outcome["video"] = str(film(agent, path, stochastic=options.stochastic))
            print(f"video  {outcome['video']}")
        print_object(outcome)
    return 0


def _actions(algo: Any, stochastic: bool) -> str:
    """Which actions an evaluation took."""
    epsilon = getattr(algo, "eval_epsilon", 0.0)
    if stochastic:
        return "sampled actions"
    return "most likely actions" + (f" ({epsilon:g} of them at random)" if epsilon else "")
