"""rlpyt train: one run from the command line, from a preset's defaults."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from tyro.conf import FlagCreatePairsOff, arg

from rlpyt import presets
from rlpyt.cli.output import one_object, profiled, report
from rlpyt.cli.parsing import Given, OptionError, read, scan, wants_help
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.flags import Flag, flags_of
from rlpyt.run import ALGORITHMS, LoopOptions, Run
from rlpyt.samplers.options import SamplerOptions
from rlpyt.suggest import did_you_mean

Algo = TypeVar("Algo")
Network = TypeVar("Network")

# What other libraries call it, where the name would mean something else or nothing here.
_REFUSED = {
    "--n-steps": "--n-steps is a rollout's length to some and a run's to others; use --horizon "
    "(rows per environment before each update) or --env-steps (the run's length)",
    "--n-step": "--n-step belongs to replay algorithms (dqn, sac, …); use --horizon (rows per "
    "environment before each update)",
    "--batch-size": "--batch-size is what replay algorithms draw (dqn, sac, …); use "
    "--minibatch-size (ppo), or --horizon and --num-envs (all rows of an update)",
}


@dataclass(frozen=True)
class StartOptions:
    """Where a run's defaults come from, and what is shown of it."""

    preset: Annotated[str | None, arg(metavar="NAME")] = None
    """Defaults to start from: atari, say (`rlpyt presets`), a .json file, none; unset: by --env."""

    total_frames: Annotated[int | None, arg(metavar="INT")] = None
    """Atari: the run's length in emulator frames, in place of --env-steps."""

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""

    quiet: bool = False
    """Show nothing but the outcome."""

    profile: bool = False
    """Say at the end where the time went."""


@dataclass(frozen=True)
class TrainOptions(Generic[Algo, Network]):
    """Options of a run in the order in which help lists them."""

    start: Annotated[StartOptions, FlagCreatePairsOff]
    environment: EnvOptions
    algorithm: Algo
    network: Network
    run: LoopOptions
    sampling: SamplerOptions


def main(argv: Sequence[str]) -> int:
    """Train as the arguments say; returns the exit code."""
    if wants_help(argv):
        _help(argv)
        return 0
    run, start = parse(argv)
    with one_object(start.json) as print_object:
        from rlpyt.training import train

        with profiled(start.profile) as profiler:
            outcome = train(run, mode="quiet" if start.quiet else "auto", guarded=True)
        return report(outcome, print_object, quiet=start.quiet, profiler=profiler)


def parse(argv: Sequence[str]) -> tuple[Run, StartOptions]:
    """The run that a command line describes, and how to show it."""
    given = scan(_all_flags(), argv, refused=_REFUSED, words=tuple(ALGORITHMS))
    algo = _algorithm(given.words)
    given.words.remove(algo)
    _refuse_other_algorithms(given, algo)
    env = given.text("env")
    if env is None:
        raise UsageError(
            "--env is missing: which environment? `rlpyt envs` lists what can be made here"
        )
    run = presets.choose(algo, env, given.text("preset"))
    options = read(_options(run), given)
    start, loop = options.start, options.run
    if start.total_frames is not None:
        if given.text("env_steps") is not None:
            raise UsageError("--env-steps and --total-frames both give the length; choose one")
        steps = start.total_frames // _frames_per_step(options.environment)
        loop = dataclasses.replace(loop, env_steps=steps)
    run = Run(
        options.environment,
        options.algorithm,
        options.network,
        loop,
        run.preset,
        sampler=options.sampling,
    )
    idle = run.without_effect()
    for flag, (spelling, _) in given.options.items():
        if flag.name in idle:
            raise UsageError(f"{spelling} has no effect beside the rest; {idle[flag.name]}")
    return run, start


def _options(run: Run) -> TrainOptions[Any, Any]:
    start = StartOptions(preset=None)
    return TrainOptions(start, run.env, run.algo, run.model, run.loop, run.sampler)


def _all_flags() -> list[Flag]:
    """The flags of every algorithm, each once."""
    return list(
        {flag.name: flag for algo in reversed(ALGORITHMS) for flag in _flags(algo)}.values()
    )


@functools.cache
def _flags(algo: str) -> list[Flag]:
    return list(flags_of(_options(Run(EnvOptions(""), ALGORITHMS[algo]()))))


def _algorithm(words: Sequence[str]) -> str:
    known = ", ".join(ALGORITHMS)
    if not words:
        raise UsageError(f"which algorithm? rlpyt train ALGORITHM --env ID, with one of {known}")
    chosen = [word for word in words if word in ALGORITHMS]
    if len(words) > 1 and chosen:
        other = next((word for word in words if word != chosen[0]), chosen[0])
        raise UsageError(f"{other!r} is one too many beside {chosen[0]}; options begin with --")
    if not chosen:
        raise UsageError(
            f"{words[0]!r} is no algorithm{did_you_mean(words[0], ALGORITHMS)}; there are {known}"
        )
    return chosen[0]


def _refuse_other_algorithms(given: Given, algo: str) -> None:
    own = {flag.name for flag in _flags(algo)}
    for flag, (spelling, _) in given.options.items():
        if flag.name not in own:
            owners = [name for name in ALGORITHMS if flag.name in {f.name for f in _flags(name)}]
            raise OptionError(
                _REFUSED.get(spelling)
                or f"{spelling} has no effect on {algo}; it is of {', '.join(owners)}"
            )


def _frames_per_step(env: EnvOptions) -> int:
    from rlpyt.envs.make import is_atari, probe

    if not is_atari(env):
        raise UsageError(
            f"--total-frames counts the frames of Atari's emulator, and {env.env} has none; "
            "use --env-steps"
        )
    return probe(env).frames_per_step


def _help(argv: Sequence[str]) -> None:
    from tyro import MISSING

    from rlpyt.cli.help import print_help
    from rlpyt.cli.screens import TRAIN

    algo = next((word for word in argv if word in ALGORITHMS), None)
    if algo is None:
        print(TRAIN)
        return
    env = _after(argv, "--env", "--env-id")
    run = presets.choose(algo, env, _after(argv, "--preset"))
    if env is None:
        run = dataclasses.replace(run, env=dataclasses.replace(run.env, env=MISSING))
    summary = (ALGORITHMS[algo].__doc__ or "").partition("\n")[0]
    print_help(
        TrainOptions[ALGORITHMS[algo], type(run.model)],  # type: ignore[misc]  # bound at run time
        _options(run),
        f"rlpyt train {algo} --env ID",
        f"{summary}\n\nDefaults: preset {run.preset}; --env and --preset choose another.",
    )


def _after(argv: Sequence[str], *spellings: str) -> str | None:
    """The text after an option, without reading the rest."""
    for i, token in enumerate(argv):
        spelling, equals, text = token.partition("=")
        if spelling in spellings:
            return text if equals else (argv[i + 1] if i + 1 < len(argv) else None)
    return None
