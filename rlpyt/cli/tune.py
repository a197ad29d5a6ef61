"""rlpyt tune: search options for the best return. Also `rlpyt.tune` in Python."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from rlpyt.cli.output import one_object
from rlpyt.cli.parsing import Given, read, scan, wants_help
from rlpyt.cli.sweep import negated, run_flags, run_of, typed
from rlpyt.cli.values import count, number
from rlpyt.errors import UsageError
from rlpyt.flags import flags_of
from rlpyt.launch.options import QueueOptions
from rlpyt.run import ALGORITHMS

if TYPE_CHECKING:
    from rlpyt.launch.tuning import Asked, Tuning
    from rlpyt.logging.displays import Mode

EVALUATIONS = 10  # of a run whose interval is not given


@dataclass(frozen=True)
class TuneOptions:
    """Search the options of an algorithm for those with the best return."""

    algo: Annotated[str, Positional, arg(metavar="ALGO")] = ""
    """The algorithm."""

    env: Annotated[str | None, arg(name="env-id", aliases=["--env"], metavar="ID")] = None
    """The environment."""

    trials: int = 20
    """Settings to try, those of earlier calls included."""

    over: Annotated[tuple[str, ...], arg(metavar="NAME=RANGE ...")] = ()
    """What is searched: gamma=0.9..0.999, learning-rate=log:1e-5..1e-2 (drawn by its logarithm),
    horizon=8..256 (a whole number), num-envs=4,8,16 or dueling=true,false (choices)."""

    seeds: int = 1
    """Runs of a trial, with seeds from 0 on; their mean counts."""

    metric: str = "eval/return_mean"
    """Column of progress.csv whose last value counts."""

    minimize: bool = False
    """The least value is the best."""

    prune: bool = True
    """End a trial whose evaluations are below the median of the others at the same place."""

    sampler_seed: int = 0
    """Seed of what is tried."""

    out: Annotated[str | None, arg(metavar="FILE")] = None
    """Preset that the winner is written to, .json; unset: best.json in the folder."""

    name: Annotated[str | None, arg(metavar="STR")] = None
    """Name of the folder; unset: by what is asked."""

    runs: str = "runs"
    """Folder in which it is made."""

    queue: QueueOptions = field(default_factory=lambda: QueueOptions(retries=0))

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""

    quiet: bool = False
    """Show nothing but failures."""

    def __post_init__(self) -> None:
        for name in ("trials", "seeds"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
        if self.out is not None and not self.out.endswith(".json"):
            raise UsageError(f"out={self.out} must end in .json")


def main(argv: Sequence[str]) -> int:
    """Tune as the arguments say; returns the exit code."""
    if wants_help(argv):
        _help()
        return 0
    options, fixed = parse(argv)
    with one_object(options.json) as print_object:
        tuned = run_tuning(options, fixed)
        print_object(tuned.as_dict())
        return tuned.code


def parse(argv: Sequence[str]) -> tuple[TuneOptions, list[str]]:
    """What a command line asks for, and the options that all runs have, as they were typed."""
    own, flags = list(flags_of(TuneOptions())), run_flags(TuneOptions())
    given = scan([*own, *flags], argv, words=tuple(ALGORITHMS))
    mine = {flag: texts for flag, texts in given.options.items() if flag in own}
    options = read(TuneOptions(), Given(mine, given.words))
    fixed = [x for f, texts in given.options.items() if f not in own for x in typed(*texts)]
    if any(flag.name == "seed" for flag in given.options):
        raise UsageError("--seed: a trial has the seeds from 0 on; say how many with --seeds")
    return options, fixed


@dataclass(frozen=True)
class Tuned:
    """What tuning has found."""

    folder: Path
    status: str  # "finished", "interrupted" (Ctrl-C), "terminated" (SIGTERM)
    trials: int  # that have been drawn
    trial: int | None  # the best one's number; None where none is complete
    value: float | None  # of it
    options: dict[str, str]  # of it, as they are typed
    preset: Path | None  # that they were written to

    @property
    def code(self) -> int:
        """The exit code of the command."""
        from rlpyt.launch.outcome import EXIT_CODES

        return EXIT_CODES.get(self.status, 1 if self.trial is None else 0)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        preset = None if self.preset is None else str(self.preset)
        return dataclasses.asdict(self) | {"folder": str(self.folder), "preset": preset}


def run_tuning(options: TuneOptions, fixed: Sequence[str], mode: Mode = "auto") -> Tuned:
    """Search, and write the winner.

    Args:
        fixed: options that all runs have, as they are typed.
    """
    try:
        from rlpyt.launch.tuning import Tuning
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise UsageError(
            "tune needs Optuna, which is not installed: pip install 'rlpyt[tune]'"
        ) from None
    from rlpyt.launch.sweep import run_sweep

    asked = asked_of(options, fixed)
    digest = hashlib.sha256(asked.content.encode()).hexdigest()[:8]
    shown = re.sub(r"[^\w.\-]+", "-", asked.env)
    folder = Path(options.runs) / (options.name or f"{shown}__{asked.algo}__tune__{digest}")
    tuning = Tuning(asked, folder, run_flags(options), run_of, options.sampler_seed)
    tuning.check()
    done = run_sweep(
        folder,
        [],
        options.queue,
        mode="quiet" if options.quiet else mode,
        source=tuning,
        total=options.trials * options.seeds,
        column=options.metric,
        example=tuning.example(),
    )
    tuned = _written(tuning, folder, done.status, options.out)
    if tuned.preset is not None and mode != "quiet":
        found = " ".join(f"{name}={text}" for name, text in tuned.options.items())
        print(f" best     trial {tuned.trial}: {tuned.value:.6g} · {found}")
        print(f" rlpyt train {asked.algo} --env {asked.env} --preset {tuned.preset}")
    return tuned


def asked_of(options: TuneOptions, fixed: Sequence[str]) -> Asked:
    """What is tuned, each part checked as far as it can be alone."""
    from rlpyt.launch.jobs import tokens
    from rlpyt.launch.space import read_space
    from rlpyt.launch.tuning import Asked

    if options.env is None:
        raise UsageError("--env is missing: which environment?")
    if not options.over:
        raise UsageError(
            "--over is missing: what is searched? Such as learning-rate=log:1e-5..1e-2"
        )
    flags = run_flags(options)
    spaces = tuple(read_space(x, flags, count, number) for x in options.over)
    first = [x for s in spaces for x in tokens(s.name, s.examples()[0], flags)]
    loop = run_of((options.algo, "--env", options.env, *fixed, *first)).loop
    fixed = list(fixed)
    evaluated = options.metric.startswith("eval/")
    if evaluated and not loop.eval_episodes:
        raise UsageError(
            f"metric={options.metric} and eval_episodes=0: nothing is evaluated; give "
            "--metric rollout/return_mean, or episodes"
        )
    interval = loop.eval_interval if evaluated else loop.log_every
    if not interval:
        interval = max(1, loop.env_steps // EVALUATIONS)
        fixed += ["--eval-interval", str(interval)]
    return Asked(
        options.algo,
        options.env,
        spaces,
        tuple(fixed),
        tuple(range(options.seeds)),
        options.trials,
        options.metric,
        options.minimize,
        options.prune,
        interval,
    )


def _written(tuning: Tuning, folder: Path, status: str, out: str | None) -> Tuned:
    """The best trial, written as a preset."""
    from rlpyt.presets import files

    best = tuning.best()
    if best is None:
        return Tuned(folder, status, tuning.drawn, None, None, {}, None)
    trial, job = best
    asked, path = tuning.asked, Path(out) if out else folder / "best.json"
    options = {space.name: space.text(trial.params[space.name]) for space in asked.spaces}
    flags = run_flags(TuneOptions())
    typed_here = {token for token in job.options if token.startswith("--")}
    given = {flag.name for flag in flags if typed_here & {*flag.spellings, *negated(flag)}}
    assert job.run is not None
    about = f"{asked.column} {trial.value:.6g}, trial {trial.number} of {tuning.drawn}"
    files.write(path, job.run, given, env=asked.env, tuned=about)
    return Tuned(folder, status, tuning.drawn, trial.number, trial.value, options, path)


def _help() -> None:
    from rlpyt.cli.help import print_help
    from rlpyt.cli.screens import TUNE

    kind = Annotated[TuneOptions, FlagCreatePairsOff]
    print_help(kind, TuneOptions(), "rlpyt tune", TuneOptions.__doc__ or "")
    print(TUNE)
