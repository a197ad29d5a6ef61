"""rlpyt sweep: many runs, queued on this machine's cores and GPUs. Also `rlpyt.sweep` in Python."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

from rlpyt.cli import train
from rlpyt.cli.output import one_object
from rlpyt.cli.parsing import Given, parse_or_help, read, scan, wants_help
from rlpyt.errors import UsageError
from rlpyt.flags import Flag, flags_of
from rlpyt.launch.options import QueueOptions
from rlpyt.run import ALGORITHMS, Run
from rlpyt.suggest import did_you_mean

if TYPE_CHECKING:
    from rlpyt.launch.jobs import Axis, Job
    from rlpyt.launch.outcome import Sweep
    from rlpyt.logging.displays import Mode

_OWN = ("profile", "total_frames")  # of `rlpyt train`, and without a meaning here


@dataclass(frozen=True)
class SweepOptions:
    """Make a run of every algorithm on every environment with every setting and seed."""

    algos: Annotated[tuple[str, ...], Positional, arg(metavar="ALGO ...")] = ()
    """Algorithms; or `status FOLDER`, `retry FOLDER [options]`."""

    env: Annotated[tuple[str, ...], arg(name="env-id", aliases=["--env"], metavar="ID ...")] = ()
    """Environments."""

    seeds: tuple[int, ...] = ()
    """How many seeds, counted from 0, or several seeds themselves; unset: seed 0 alone."""

    grid: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE,VALUE ...")] = ()
    """Options to vary, each with each: learning-rate=1e-4,3e-4. Varied together:
    learning-rate/horizon=1e-4/32,3e-4/16. Several values of one option: hidden-sizes='64 64,256'.
    Switches: dueling=true,false."""

    dry_run: bool = False
    """Print the runs' commands, each of which stands alone, and run nothing."""

    name: Annotated[str | None, arg(metavar="STR")] = None
    """Name of the sweep's folder; a sweep of the same name is added to. Unset: by what is asked."""

    runs: str = "runs"
    """Folder in which the sweep's folder is made."""

    backend: Literal["local", "ray", "slurm"] = "local"
    """Where runs have their place: on this machine, on the nodes of a Ray cluster (needs the extra
    `ray`), or in Slurm (needs the extra `slurm`)."""

    ray_address: Annotated[str | None, arg(metavar="HOST:PORT")] = None
    """The Ray cluster; unset: the one that this machine is a node of (RAY_ADDRESS)."""

    slurm: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Settings of sbatch, with underscores: time=240 (minutes; needed) partition=gpu mem=8GB."""

    queue: QueueOptions = field(default_factory=QueueOptions)

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""

    quiet: bool = False
    """Show nothing but failures."""

    def __post_init__(self) -> None:
        if self.slurm and self.backend != "slurm":
            raise UsageError(f"--slurm {self.slurm[0]} has no effect; add --backend slurm")
        if self.ray_address is not None and self.backend != "ray":
            raise UsageError(f"--ray-address {self.ray_address} has no effect; add --backend ray")
        for setting in self.slurm:
            if not all(setting.partition("=")):
                raise UsageError(f"--slurm {setting}: write NAME=VALUE, such as time=240")


@dataclass(frozen=True)
class StatusOptions:
    """Show what became of a sweep so far."""

    folder: Annotated[str, Positional, arg(metavar="FOLDER")] = ""
    """The sweep's folder."""

    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class RetryOptions:
    """Go on with a sweep, and try again what failed, however often it did. What is not given of
    the queue is as it was."""

    folder: Annotated[str, Positional, arg(metavar="FOLDER")] = ""
    """The sweep's folder."""

    queue: QueueOptions = field(default_factory=QueueOptions)

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""

    quiet: bool = False
    """Show nothing but failures."""


def main(argv: Sequence[str]) -> int:
    """Sweep as the arguments say; returns the exit code."""
    if argv[:1] == ["status"]:
        return _status(argv[1:])
    if argv[:1] == ["retry"]:
        return _retry(argv[1:])
    if wants_help(argv):
        _help()
        return 0
    folder, jobs, options = parse(argv)
    if options.dry_run:
        return _show(folder, jobs, as_json=options.json)
    with one_object(options.json) as print_object:
        done = _run(folder, jobs, options)
        print_object(done.as_dict())
        return done.code


def _run(folder: Path, jobs: Sequence[Job], options: SweepOptions) -> Sweep:
    if options.backend != "slurm":
        from rlpyt.launch.sweep import place_of, run_sweep

        settings = {"address": options.ray_address or "auto"}
        place = place_of(folder, options.queue, options.backend, settings)
        return run_sweep(folder, jobs, options.queue, mode=_mode(options.quiet), place=place)
    try:
        from rlpyt.launch.slurm import submit
    except ModuleNotFoundError as error:
        if error.name != "submitit":
            raise
        raise UsageError(
            "backend=slurm needs submitit, which is not installed: pip install 'rlpyt[slurm]'"
        ) from None
    settings = dict(setting.split("=", 1) for setting in options.slurm)
    return submit(folder, jobs, options.queue, settings)


def parse(argv: Sequence[str]) -> tuple[Path, list[Job], SweepOptions]:
    """The folder and the jobs that a command line asks for, each job checked."""
    from rlpyt.launch.jobs import read_axis

    own, flags = list(flags_of(SweepOptions())), run_flags(SweepOptions())
    given = scan([*own, *flags], argv, words=tuple(ALGORITHMS))
    mine = {flag: texts for flag, texts in given.options.items() if flag in own}
    options = read(SweepOptions(), Given(mine, given.words))
    fixed = {flag: texts for flag, texts in given.options.items() if flag not in own}
    seeded = any(flag.name == "seed" for flag in fixed)
    axes = [read_axis(text) for text in options.grid]
    folder, jobs = expanded(
        options, axes, [token for given in fixed.values() for token in typed(*given)], seeded
    )
    return folder, jobs, options


def expanded(
    options: SweepOptions, axes: Sequence[Axis], fixed: Sequence[str], seeded: bool
) -> tuple[Path, list[Job]]:
    """The folder and the jobs of a sweep.

    Args:
        fixed: options that all runs have, as they are typed.
        seeded: whether the seed is one of them.
    """
    from rlpyt.launch.jobs import expand, sweep_name

    if not options.algos:
        raise UsageError(
            "which algorithm? rlpyt sweep ALGORITHM ... --env ID ..., with some of "
            f"{', '.join(ALGORITHMS)}"
        )
    for algo in options.algos:
        if algo not in ALGORITHMS:
            raise UsageError(
                f"{algo!r} is no algorithm{did_you_mean(algo, [*ALGORITHMS, 'status', 'retry'])}; "
                f"there are {', '.join(ALGORITHMS)}"
            )
    if not options.env:
        raise UsageError("--env is missing: which environments?")
    varied = {name.replace("_", "-") for axis in axes for name in axis.names}
    for flag in flags_of(SweepOptions()):
        if taken := varied & {spelling[2:] for spelling in flag.spellings}:
            raise UsageError(f"--grid {taken.pop()}=...: it is the sweep's own; give {flag.text}")
    if options.seeds and (seeded or "seed" in varied):
        raise UsageError("--seeds and --seed both give the seed; choose one")
    few = range(options.seeds[0]) if len(options.seeds) == 1 else options.seeds
    seeds = None if seeded or "seed" in varied else list(few or [0])
    if options.seeds == (0,):
        raise UsageError("--seeds=0 are no runs; for seed 0 alone give --seed 0")
    if negative := [seed for seed in options.seeds if seed < 0]:
        raise UsageError(f"--seeds {negative[0]} must not be negative")
    if empty := ["/".join(axis.names) for axis in axes if not axis.points]:
        raise UsageError(f"grid: {empty[0]} has no values, which are no runs; give it one")
    flags = run_flags(options)
    jobs = expand(options.algos, options.env, seeds, axes, fixed, flags, run_of)
    name = options.name or sweep_name(jobs, options.algos, options.env)
    return Path(options.runs) / name, jobs


def run_flags(own: Any) -> list[Flag]:
    """The options of `rlpyt train` that a command with options of its own takes beside them."""
    taken = {spelling for flag in flags_of(own) for spelling in flag.spellings}
    every = train._all_flags()
    return [flag for flag in every if not taken & set(flag.spellings) and flag.name not in _OWN]


def typed(spelling: str, texts: Sequence[str]) -> list[str]:
    """An option as it was typed."""
    if len(texts) == 1 and texts[0].startswith("-"):
        return [f"{spelling}={texts[0]}"]
    return [spelling, *texts]


def negated(flag: Flag) -> list[str]:
    """How a switch is turned off."""
    return [f"--no-{spelling[2:]}" for spelling in flag.spellings] if flag.hint is bool else []


def run_of(options: Sequence[str]) -> Run:
    """The run that `rlpyt train` would make."""
    return train.parse(options)[0]


def _show(folder: Path, jobs: Sequence[Job], *, as_json: bool) -> int:
    from rlpyt.launch.outcome import planned

    if as_json:
        print(json.dumps(planned(folder, jobs).as_dict()))
    else:
        print("\n".join(job.command(folder) for job in jobs))
    return 0


def _status(argv: Sequence[str]) -> int:
    options = parse_or_help(StatusOptions(), argv, "rlpyt sweep status")
    if options is None:
        return 0
    from rlpyt.launch.sweep import look_at

    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    found, lines = look_at(Path(options.folder), width)
    print(json.dumps(found.as_dict()) if options.json else "\n".join(lines))
    return 0


def _retry(argv: Sequence[str]) -> int:
    if wants_help(argv):
        parse_or_help(RetryOptions(), argv, "rlpyt sweep retry")
        return 0
    given = scan(list(flags_of(RetryOptions())), argv)
    from rlpyt.launch.sweep import go_on, options_of

    folder = read(RetryOptions(), given).folder
    before = RetryOptions(queue=options_of(Path(folder)))  # what is not given is as it was
    options = read(before, given)
    with one_object(options.json) as print_object:
        done = go_on(Path(folder), options.queue, mode=_mode(options.quiet))
        print_object(done.as_dict())
        return done.code


def _mode(quiet: bool) -> Mode:
    return "quiet" if quiet else "auto"


def _help() -> None:
    from rlpyt.cli.help import print_help
    from rlpyt.cli.screens import SWEEP

    kind = Annotated[SweepOptions, FlagCreatePairsOff]
    print_help(kind, SweepOptions(), "rlpyt sweep", SweepOptions.__doc__ or "")
    print(SWEEP)
