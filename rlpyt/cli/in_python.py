"""Commands as functions: `rlpyt.sweep` and `rlpyt.tune`.

They write what would be typed, which is read as if it had been: a run is a command that stands
alone, wherever it was asked for.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlpyt.cli.sweep import SweepOptions, expanded, run_flags
from rlpyt.cli.tune import Tuned, TuneOptions, run_tuning
from rlpyt.errors import UsageError
from rlpyt.flags import flags_of
from rlpyt.launch.options import QueueOptions

if TYPE_CHECKING:
    from rlpyt.launch.outcome import Sweep
    from rlpyt.logging.displays import Mode


def sweep(
    algos: str | Sequence[str],
    env: Any,
    *,
    seeds: int | Sequence[int] | None = None,
    grid: Mapping[str | tuple[str, ...], Sequence[Any]] | None = None,
    name: str | None = None,
    runs: str | Path = "runs",
    dry_run: bool = False,
    backend: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    mode: Mode = "auto",
    **given: Any,
) -> Sweep:
    """Make a run of every algorithm on every environment with every setting and seed.

    As `rlpyt sweep` does: each run is a command that stands alone, in a process of its own. Called
    again with the same arguments it goes on where it was.

    Args:
        algos: one of them, or several.
        env: an id, module:Id, module:function, a function or class of a module; or several.
        seeds: how many, counted from 0, or the seeds themselves.
        grid: the values of each option that is varied; of options that are varied together, given
            as a tuple of names, a tuple of values each.
        name: of the sweep's folder; None goes by what is asked for.
        runs: folder in which it is made.
        backend: "ray" has the runs on the nodes of a Ray cluster.
        ray_address: of the cluster; None: the one that this machine is a node of.
        dry_run: run nothing; each of the `runs` that are returned has its `command`.
        mode: "quiet" shows nothing, "plain" never redraws.
        **given: options that all runs have, by flat name; those of `QueueOptions` as well.
    """
    from rlpyt.launch.jobs import Axis
    from rlpyt.launch.outcome import planned
    from rlpyt.launch.sweep import place_of, run_sweep

    seeded = "seed" in given
    how, fixed = queue_and_fixed(given, QueueOptions())
    if seeds == [] or seeds == ():
        raise UsageError("seeds=[] are no runs; leave it out for seed 0 alone")
    counts = () if seeds is None else (seeds,) if isinstance(seeds, int) else tuple(seeds)
    options = SweepOptions(
        (algos,) if isinstance(algos, str) else tuple(algos),
        tuple(map(reference, [env] if isinstance(env, str) or callable(env) else env)),
        counts,
        name=name,
        runs=str(runs),
        backend=backend,
        ray_address=ray_address,
        queue=how,
    )
    axes = []
    for names, values in (grid or {}).items():
        several = isinstance(names, tuple)
        points = [tuple(map(text_of, x)) if several else (text_of(x),) for x in values]
        axes.append(Axis(names if several else (names,), tuple(points)))
    folder, jobs = expanded(options, axes, fixed, seeded)
    if dry_run:
        return planned(folder, jobs)
    place = place_of(folder, how, options.backend, {"address": ray_address or "auto"})
    return run_sweep(folder, jobs, how, mode=mode, place=place)


def tune(
    algo: str,
    env: Any,
    *,
    over: Mapping[str, str | Sequence[Any]],
    trials: int = 20,
    seeds: int = 1,
    metric: str = TuneOptions.metric,
    minimize: bool = False,
    prune: bool = True,
    sampler_seed: int = 0,
    out: str | Path | None = None,
    name: str | None = None,
    runs: str | Path = "runs",
    mode: Mode = "auto",
    **given: Any,
) -> Tuned:
    """Search the options of an algorithm for those with the best return.

    As `rlpyt tune` does. Called again with the same arguments it goes on where it was.

    Args:
        algo, env: as for `rlpyt.sweep`, one each.
        over: what is searched: "0.9..0.999", "log:1e-5..1e-2", or a list of choices.
        trials: settings to try, those of earlier calls included.
        seeds: runs of a trial, whose mean counts.
        metric: column of progress.csv whose last value counts.
        minimize: the least value is the best.
        prune: end trials that are below the median of the others.
        sampler_seed: of what is tried.
        out: preset that the winner is written to; None is best.json in the folder.
        name: of the folder; None goes by what is asked for.
        runs: folder in which it is made.
        mode: "quiet" shows nothing, "plain" never redraws.
        **given: options that all runs have, by flat name; those of `QueueOptions` as well.
    """
    how, fixed = queue_and_fixed(given, TuneOptions().queue)
    ranges = [
        f"{key}={value if isinstance(value, str) else ','.join(map(text_of, value))}"
        for key, value in over.items()
    ]
    options = TuneOptions(
        algo,
        reference(env),
        trials,
        tuple(ranges),
        seeds,
        metric,
        minimize,
        prune,
        sampler_seed,
        None if out is None else str(out),
        name,
        str(runs),
        how,
    )
    return run_tuning(options, fixed, mode)


def text_of(value: Any) -> str:
    """A value from Python as it is typed, those of an option that takes several apart."""
    if isinstance(value, Mapping):
        return shlex.join(f"{key}={x!r}" for key, x in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return shlex.join(map(text_of, value))
    return "none" if value is None else str(value)


def queue_and_fixed(
    given: Mapping[str, Any], queue: QueueOptions
) -> tuple[QueueOptions, list[str]]:
    """Options from Python, parted into the queue's and, as they are typed, those of all runs."""
    from rlpyt.launch.jobs import tokens

    of_queue = {flag.name for flag in flags_of(QueueOptions())}
    changes = {key: value for key, value in given.items() if key in of_queue}
    flags = run_flags(SweepOptions())
    fixed = [
        token
        for key, value in given.items()
        if key not in of_queue
        for token in tokens(key, text_of(value), flags)
    ]
    return dataclasses.replace(queue, **changes), fixed


def reference(env: str | Callable[..., Any]) -> str:
    """An environment as a command names it."""
    if isinstance(env, str):
        return env
    module, name = getattr(env, "__module__", "__main__"), getattr(env, "__qualname__", "")
    if module == "__main__" or not name.isidentifier():
        raise UsageError(
            f"env={env!r}: a run of a sweep is a command of its own, which cannot name this; put "
            "it at the top of a module, and give module:function"
        )
    return f"{module}:{name}"
