"""rlpyt bench: how fast environments and an agent are together here, by sampler."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, arg

from rlpyt.cli import train
from rlpyt.cli.output import one_object
from rlpyt.cli.parsing import Given, read, scan, wants_help
from rlpyt.errors import UsageError
from rlpyt.flags import Flag, flags_of
from rlpyt.run import ALGORITHMS, Run

Wanted = Literal["serial", "native", "workers", "replicated"]
SIZES = (2, 8)  # times the preset's number of environments
_EXAMPLES = """\
Options of `rlpyt train ALGO` that say something of the environment, the algorithm, the network or
the device may be given, too. ALGO is ppo where it is left out.

  rlpyt bench sampler --env CartPole-v1
  rlpyt bench sampler dqn --env ALE/Pong-v5 --num-envs 16 64
  rlpyt bench sampler sac --env HalfCheetah-v5 --sampler serial workers --workers 1 2 4
"""


@dataclass(frozen=True)
class BenchOptions:
    """Measure the samplers with an environment and an agent, and say which one to use.

    Nothing is learned and no run is made. What is measured is kept for this machine, and a later
    `rlpyt train` of the same algorithm takes it up (--sampler auto, which is the default).
    """

    env: Annotated[str | None, arg(name="env-id", aliases=["--env"], metavar="ID")] = None
    """A Gymnasium id, module:Id, or module:function that returns a gymnasium.Env."""

    num_envs: Annotated[tuple[int, ...], arg(name="n-envs", aliases=["--num-envs"])] = ()
    """Numbers of environments; none: the preset's, and two and eight times as many."""

    sampler: tuple[Wanted, ...] = ("serial", "native", "workers", "replicated")
    """Which to measure; native: the environments' own vector environment, where there is one."""

    workers: tuple[int, ...] = ()
    """Numbers of processes; none: few of them, half of the allowed cores, all but one, all."""

    groups: tuple[int, ...] = ()
    """Numbers of groups; none: 1 (lock-step) and 2 (alternating)."""

    seconds: float = 3.0
    """How long each is measured, after a fifth of that to warm up."""

    keep: bool = True
    """Keep what was measured, for --sampler auto."""

    json: bool = False
    """Print one JSON object with all that was measured on stdout, and the table on stderr."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise UsageError(f"seconds={self.seconds} must be more than 0, and finite")
        for name in ("num_envs", "workers", "groups"):
            if min(numbers := getattr(self, name), default=1) < 1:
                raise UsageError(f"{name}={numbers}: each must be at least 1")
        if not self.sampler:
            raise UsageError("--sampler names none; leave it out to measure all")


def main(argv: Sequence[str]) -> int:
    """Measure as the arguments say; returns the exit code."""
    if wants_help(argv):
        _help()
        return 0
    options, runs = parse(argv)
    with one_object(options.json) as print_object:
        from rlpyt.cli.bench_table import Table
        from rlpyt.cli.sampling_speed import measured

        table = Table(runs[0], options.seconds)
        try:
            for run in runs:
                measured(run, options, table)
        except KeyboardInterrupt:
            print("interrupted: nothing is kept of what was being measured", file=sys.stderr)
            return 130
        finally:
            table.close()
        print_object(table.as_dict())
    return table.exit_code


def parse(argv: Sequence[str]) -> tuple[BenchOptions, list[Run]]:
    """What to measure, and runs whose environments and agents are meant, by how many."""
    own = list(flags_of(BenchOptions()))
    taken = {flag.name for flag in own}
    others = [flag for flag in train._all_flags() if flag.name not in taken and _matters(flag)]
    given = scan([*own, *others], argv, words=("sampler", *ALGORITHMS))
    words = given.words
    if words[:1] != ["sampler"] or len(words) > 2:
        raise UsageError("what can be measured is the sampler: rlpyt bench sampler [ALGO] --env ID")
    mine = {flag: texts for flag, texts in given.options.items() if flag in own}
    options = read(BenchOptions(), Given(mine, []))
    if not options.env:
        raise UsageError("--env is missing: which environment? `rlpyt envs` lists what there is")
    rest = [
        word
        for flag, (spelling, texts) in given.options.items()
        if flag not in own
        for word in (spelling, *texts)
    ]
    algo = words[1] if len(words) > 1 else "ppo"
    first = ["--num-envs", str(options.num_envs[0])] if options.num_envs else []
    run, _ = train.parse([algo, "--env", options.env, *first, *rest])
    return options, _sizes(options, run)


def _sizes(options: BenchOptions, run: Run) -> list[Run]:
    """The run with each number of environments; one of ours that it cannot have is left out."""
    from rlpyt.cli.sampling_speed import with_envs

    if options.num_envs:
        return [with_envs(run, n) for n in dict.fromkeys(options.num_envs)]
    found = [with_envs(run, run.env.num_envs)]
    for times in SIZES:
        with suppress(UsageError):
            found.append(with_envs(run, times * run.env.num_envs))
    return found


def _matters(flag: Flag) -> bool:
    """Whether an option of `rlpyt train` says something of environments, agent or machine."""
    if flag.path[0] in ("start", "run"):
        return flag.name in ("preset", "seed", "device", "threads", "precision", "allocator")
    return flag.path[0] != "sampling"


def _help() -> None:
    from rlpyt.cli.help import print_help

    kind = Annotated[BenchOptions, FlagCreatePairsOff]
    prog = "rlpyt bench sampler [ALGO] --env ID"
    print_help(kind, BenchOptions(), prog, inspect.cleandoc(BenchOptions.__doc__ or ""))
    print(_EXAMPLES)
