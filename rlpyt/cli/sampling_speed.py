"""How fast a sampler is with a run's environments and agent, and where the time of the cores goes.

The cores' time has four parts. `act`: the agent answers. `env`: environments step, by what a step
costs in this process, which no number of processes changes. `inter-process`: what else keeps cores
busy, such as handing over rows and looking out for them. `wait`: cores are idle, or at work for
others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from rlpyt.algos.options import ClippedOptions, PolicyGradientOptions, ReplayOptions
from rlpyt.arrays import tree_leaves
from rlpyt.build import Parts, build
from rlpyt.cli import usage
from rlpyt.cli.bench import Wanted
from rlpyt.cores import allowed_cores
from rlpyt.envs.spec import example
from rlpyt.rows import is_image
from rlpyt.run import Run
from rlpyt.samplers.options import SamplerOptions
from rlpyt.samplers.recommended import Recommendation, Sampler, Vectorization, best, keep, kind
from rlpyt.vector.choose import choose

if TYPE_CHECKING:
    from rlpyt.cli.bench import BenchOptions
    from rlpyt.cli.bench_table import Table

QUIET = 0.8  # of a core that `serial` gets; with less, other work decides what is fastest
WARM_UP = 0.2  # of the time that is measured
STEPS = 2048  # of a window, at most: what is done once a window is little beside so many
ROWS = 64  # a column, at least, in the replay that is collected into


@dataclass(frozen=True)
class Setting:
    """A sampler with its processes and groups."""

    sampler: Sampler
    workers: int = 0  # 0: none
    groups: int = 1
    vectorization: Vectorization = "in-process"

    @property
    def name(self) -> str:
        """As a table calls it."""
        if self.vectorization == "native":
            return "native" if self.groups == 1 else "native, alternating"
        if self.groups > 1:
            return "alternating" if self.groups == 2 else "pipelined"
        return self.sampler


@dataclass(frozen=True)
class Speed:
    """What was measured of a setting."""

    setting: Setting
    num_envs: int
    agent: str  # its kind (`recommended.kind`)
    steps_per_second: float
    shares: dict[str, float]  # of the time of all allowed cores; empty where it is not known
    memory_mb: int | None
    env_seconds: float  # of processor time that a step of an environment took, if in this process
    got: float = 1.0  # of one core, by `serial`: less where other work takes it away

    def as_dict(self) -> dict[str, Any]:
        shares = {name: round(share, 3) for name, share in self.shares.items()}
        own = asdict(self.recommendation)
        return {"num_envs": self.num_envs, **own, "shares": shares, "memory_mb": self.memory_mb}

    @property
    def recommendation(self) -> Recommendation:
        speed = round(self.steps_per_second, 1)
        return Recommendation(**asdict(self.setting), steps_per_second=speed)


def settings(run: Run, options: BenchOptions) -> Iterator[Setting]:
    """Those that are worth measuring for a run, or that were asked for."""
    cores, num_envs, wanted = allowed_cores(), run.env.num_envs, options.sampler
    few = 1 if cores <= 4 else cores // 2
    few_to_all = sorted({few, max(1, cores // 2), max(1, cores - 1), cores})
    counts = list(dict.fromkeys(options.workers or few_to_all))
    groups = [n for n in dict.fromkeys(options.groups or (1, 2)) if n <= num_envs]
    single = run.env.vectorization != "native"
    if "serial" in wanted and single:
        yield Setting("serial")
    if "native" in wanted and choose(run.env, cores=2) == "native":
        yield from (Setting("serial", 0, g, "native") for g in groups)
    if "workers" in wanted and single:
        fitting = [(w, g) for w in counts for g in groups if w <= num_envs // g]
        yield from (Setting("workers", w, g) for w, g in fitting)
    if "replicated" in wanted and single:
        many = [w for w in counts if w > 1 or options.workers]
        yield from (Setting("replicated", w) for w in many if w <= num_envs)


def left_out(run: Run, options: BenchOptions, chosen: Sequence[Setting]) -> list[str]:
    """What was asked for by name and is in none of the settings, each with a reason."""
    single, found = run.env.vectorization != "native", []
    for name in options.sampler if options.sampler != get_args(Wanted) else ():
        if name == "native" and all(x.vectorization != "native" for x in chosen):
            found.append("--sampler native (Atari's; another's with --vectorization native)")
        elif name != "native" and not single:
            found.append(f"--sampler {name} (not beside --vectorization native)")
    for option, numbers in (("workers", options.workers), ("groups", options.groups)):
        unused = [n for n in numbers if all(getattr(x, option) != n for x in chosen)]
        why = "one would be without an environment, or no sampler here has any"
        found += [f"--{option} {n} ({why})" for n in unused]
    return found


def measured(run: Run, options: BenchOptions, table: Table) -> None:
    """Measure every setting of a run and put it into the table; keep what was measured."""
    serial, chosen = Setting("serial"), list(settings(run, options))
    speeds, env_seconds, quiet = [], None, False
    table.not_measured(run, left_out(run, options, chosen))
    for setting in chosen:
        table.measuring(run, setting)
        try:
            speed = measure(run, setting, options.seconds, env_seconds)
        except Exception as error:
            if setting == serial and not table.rows:
                raise  # there is nothing to show, and the others would fail, too
            table.failed(run, setting, error)
            if setting == serial:
                return
            continue
        if setting == serial:
            env_seconds, quiet = speed.env_seconds, speed.got >= QUIET
        speeds.append(speed)
        table.measured(speed)
    if not speeds:
        return
    found = [speed.recommendation for speed in speeds]
    kept = None
    if options.keep and quiet and len(chosen) > 1:
        kept = keep(run.env.name, run.env.num_envs, speeds[0].agent, found)
    table.recommend(run, best(found), kept, quiet or speeds[0].setting != serial)


def with_envs(run: Run, num_envs: int) -> Run:
    """The same run with so many environments, and windows and a replay that are soon filled."""
    algo = run.algo
    if isinstance(algo, PolicyGradientOptions):
        interval = algo.state_interval or 1
        most = max(interval, STEPS // num_envs // interval * interval)
        algo = replace(algo, horizon=min(algo.horizon, most))
    if isinstance(algo, ClippedOptions):
        algo = replace(algo, minibatch_size=algo.horizon * num_envs)
    if isinstance(algo, ReplayOptions):
        needed = (2 * (algo.item_length + algo.start_interval + algo.horizon) + ROWS) * num_envs
        algo = replace(algo, replay_size=min(algo.replay_size, needed))
    loop = replace(run.loop, compile="off")  # what is compiled is learning
    return replace(run, env=replace(run.env, num_envs=num_envs), algo=algo, loop=loop)


def measure(run: Run, setting: Setting, seconds: float, env_seconds: float | None = None) -> Speed:
    """Collect for some seconds, learning nothing.

    Args:
        run: with as many environments as are meant, see `with_envs`.
        env_seconds: what a step costs, of a measurement of `serial`; None measures that first.
    """
    if env_seconds is None and setting.sampler == "workers":
        env_seconds = measure(run, Setting("serial"), min(seconds, 1.0)).env_seconds
    options = SamplerOptions(setting.sampler, setting.workers or None, setting.groups)
    env = replace(run.env, vectorization=setting.vectorization)
    parts = build(replace(run, env=env, sampler=options))
    with _closed(parts):
        parts.agent.set_exploration(run.schedule_steps)  # as it is for most of a run
        parts.sampler.reset()
        _collect(parts, WARM_UP * seconds)
        parts.sampler.seconds = {"env": 0.0, "act": 0.0}
        before, own = usage.cpu_seconds(), time.process_time()
        steps, taken = _collect(parts, seconds)
        after, own = usage.cpu_seconds(), time.process_time() - own
        spent, threads = parts.sampler.seconds, parts.resolved.threads
        memory = usage.memory_mb()
    agent, known = _agent(run, parts), env_seconds or 0.0
    speed = Speed(setting, run.env.num_envs, agent, steps / taken, {}, memory, known)
    if before is None or after is None:
        return speed
    busy = after - before
    if setting.sampler == "workers":
        env_time, act = steps * speed.env_seconds, min(spent["act"] * threads, own)
    elif setting.sampler == "replicated":
        env_time, act = (spent[part] * setting.workers for part in ("env", "act"))
    elif setting.vectorization == "native":  # in threads of their own
        act = min(spent["act"] * threads, busy)
        env_time = busy - act
    else:
        env_time = spent["env"] * min(1.0, busy / taken)
        act = busy - env_time
        got = busy / taken if taken > 0.2 else 1.0  # processor time comes in hundredths
        speed = replace(speed, env_seconds=env_time / steps, got=got)
    return replace(speed, shares=_shares(env_time, act, busy, allowed_cores() * taken))


def _agent(run: Run, parts: Parts) -> str:
    observation = tree_leaves(example(parts.spec.observation))
    images = any(is_image(x, leading=0) for x in observation)
    return kind(run.algo_name, images, run.model.memory, parts.resolved.device)


def _shares(env: float, act: float, busy: float, available: float) -> dict[str, float]:
    """Parts of the cores' time, of processor time in seconds.

    Args:
        env, act: as they were counted; on a busy machine waiting for a core is counted with them.
        busy: of all processes.
        available: of all cores.
    """
    counted = min(1.0, busy / max(env + act, 1e-9))
    env, act, available = env * counted, act * counted, max(available, busy)
    parts = {"env": env, "act": act, "inter-process": busy - env - act, "wait": available - busy}
    return {name: max(0.0, part) / available for name, part in parts.items()}


@contextmanager
def _closed(parts: Parts) -> Iterator[None]:
    """Close the parts in the end; of what failed, what else fails then is not told of."""
    try:
        yield
    except BaseException:
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            parts.close()
        raise
    parts.close()


def _collect(parts: Parts, seconds: float) -> tuple[int, float]:
    """Environment steps and seconds of whole windows, as many as take so long; at least of one."""
    steps, begun = 0, time.perf_counter()
    while not steps or time.perf_counter() - begun < seconds:
        last = parts.sampler.collect().rows.last[:-1]
        steps += last.size - int(np.count_nonzero(last))
    return steps, time.perf_counter() - begun
