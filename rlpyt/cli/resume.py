"""rlpyt resume: go on with a run that stopped, as if it had not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from rlpyt import torchrun
from rlpyt.cli.output import one_object, profiled, report
from rlpyt.cli.parsing import parse_or_help
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.flags import flags_of
from rlpyt.folder import RunFolder, versions
from rlpyt.run import ALGORITHMS, Run
from rlpyt.samplers.options import Kind, NanPolicy


@dataclass(frozen=True)
class ResumeOptions:
    """Go on with a run from its newest checkpoint, with the options that it began with."""

    run: Annotated[str, Positional, arg(metavar="RUN")] = ""
    """The run's folder."""

    env_steps: Annotated[
        int | None, arg(name="total-timesteps", aliases=["--env-steps"], metavar="INT")
    ] = None
    """A new, greater length; schedules keep the length that they began with."""

    reschedule: bool = False
    """Stretch the schedules over the new length."""

    drop_replay: bool = False
    """Fill a new replay instead of reading the saved one, which may be damaged."""

    sampler: Annotated[Kind | None, arg(metavar="serial|workers|replicated|ray")] = None
    """Go on with another sampler: numbers stay the same, to the last bit where the run is strict,
    else to rounding where forward passes change their size."""

    workers: Annotated[int | None, arg(metavar="INT")] = None
    """Go on with another number of processes."""

    groups: Annotated[int | None, arg(metavar="INT")] = None
    """Go on with another number of groups that take turns."""

    nan_policy: Annotated[NanPolicy | None, arg(metavar="raise|drop|ignore")] = None
    """Go on with another answer to a NaN or an infinity of an environment."""

    device: Annotated[str | None, arg(metavar="cpu|cuda|cuda:1|mps")] = None
    """Go on on another device; numbers then differ by rounding."""

    force: bool = False
    """Go on under other versions of packages, though numbers may then differ."""

    json: bool = False
    """Print one JSON object with the outcome on stdout, and everything else on stderr."""

    quiet: bool = False
    """Show nothing but the outcome."""

    profile: bool = False
    """Say at the end where the time went."""


def main(argv: Sequence[str]) -> int:
    """Resume as the arguments say; returns the exit code."""
    options = parse_or_help(ResumeOptions(), argv, "rlpyt resume", _of_training())
    if options is None:
        return 0
    folder = RunFolder(Path(options.run))
    record = folder.read()
    if record["status"] != "saved":  # of which nothing goes on, as `resume` says
        _check(record, options)
    with one_object(options.json) as print_object:
        from rlpyt.training import resume

        with profiled(options.profile) as profiler:
            outcome = resume(
                Path(options.run),
                env_steps=options.env_steps,
                reschedule=options.reschedule,
                drop_replay=options.drop_replay,
                mode="quiet" if options.quiet else "auto",
                sampler=_sampler(options),
                device=options.device,
                guarded=True,
            )
        return report(outcome, print_object, quiet=options.quiet, profiler=profiler)


def _of_training() -> dict[str, str]:
    """What is said of the options that a run began with, by spelling."""
    runs = [Run(EnvOptions("CartPole-v1"), kind()) for kind in ALGORITHMS.values()]
    found = [(flag, text) for run in runs for flag in flags_of(run) for text in flag.spellings]
    spellings = [text for _, text in found]
    spellings += [f"--no-{text[2:]}" for flag, text in found if flag.hint is bool]
    return {
        text: f"{text} is of training, and a run goes on with the options that it began with; "
        "begin one from its weights: rlpyt train … --init-from RUN"
        for text in spellings
    }


def _sampler(options: ResumeOptions) -> dict[str, Any]:
    """What of the sampler is to be another: with its kind, processes and groups are chosen anew."""
    given = {name: getattr(options, name) for name in ("sampler", "workers", "groups")}
    if not options.sampler:
        given = {name: x for name, x in given.items() if x is not None}
    return given | ({"nan_policy": options.nan_policy} if options.nan_policy else {})


def _check(record: dict[str, Any], options: ResumeOptions) -> None:
    """Refuse what would do nothing, and what could not be exact."""
    done, length = record["env_steps"], record["options"]["loop"]["env_steps"]
    if record["status"] == "finished" and options.env_steps is None:
        raise UsageError(
            f"{options.run} has finished ({done:,} of {length:,} env steps); "
            f"--env-steps {2 * length} makes it twice as long"
        )
    if options.reschedule and options.env_steps is None:
        raise UsageError("--reschedule has no effect without a new length; add --env-steps")
    if (
        options.env_steps is not None
        and not options.reschedule
        and record["options"]["algo"]["lr_schedule"] == "linear"
        and torchrun.speaks()
    ):
        print(
            f"note: the linear schedules end at {record.get('schedule_steps') or length:,} env "
            "steps, and nothing is learned after that; --reschedule stretches them",
            file=sys.stderr,
        )
    here, then = versions(), record.get("versions", {})
    other = [f"{name} {then[name]} -> {here.get(name, 'not installed')}" for name in then
             if then[name] != here.get(name)]  # fmt: skip
    if other and not options.force:
        raise UsageError(
            f"{options.run} began under other versions ({', '.join(other)}), so that it would not "
            "go on exactly; install those, or go on all the same with --force"
        )
