"""Start a run, or go on with one: folder, log, console, loop and how it ends."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rlpyt import checkpoint, torchrun
from rlpyt.acting import Home, observes_images
from rlpyt.build import ModelFactory, Parts, build, load_weights
from rlpyt.errors import UsageError, from_here
from rlpyt.folder import RunFolder
from rlpyt.header import going_on, header, saving
from rlpyt.logging import csv, displays
from rlpyt.logging.console import Console
from rlpyt.logging.displays import Mode
from rlpyt.logging.recorder import Recorder, Silent
from rlpyt.logging.tensorboard import open_sinks
from rlpyt.one_run import (
    check_ranks,
    check_same_agents,
    check_same_options,
    check_shared,
    held,
    newest,
    of_rank,
)
from rlpyt.processes.stacks import answering
from rlpyt.ranks import together, world
from rlpyt.replays.segments import Segments
from rlpyt.resolve import Resolved, moved, on_device, with_sampler
from rlpyt.run import Run
from rlpyt.run_options import whole
from rlpyt.runner import Hooks, Runner
from rlpyt.saved import refuse_alone
from rlpyt.stopping import StopSignal
from rlpyt.vector.watchdog import Watchdog

ECHO_SECONDS = 1.0  # in which torchrun repeats a signal


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and with what."""

    folder: Path
    status: str  # "finished", "interrupted" (Ctrl-C), "terminated" (SIGTERM)
    runner: Runner
    saved: bool = True  # False: an environment did not answer, and what it was at is lost

    def summary(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        runner = self.runner
        run, evaluation = runner.run, runner.evaluations.newest
        recent = [episode.raw_return for episode in runner.episodes.recent]
        train_return = sum(recent) / len(recent) if recent else None
        if runner.ranks.size > 1:
            train_return = runner.recent_return
        return {
            "run_dir": str(self.folder),
            "algo": run.algo_name,
            "env": run.env_name,
            "seed": runner.parts.resolved.seed,
            "status": self.status,
            "env_steps": runner.episodes.env_steps,
            "updates": runner.parts.algorithm.learner.updates,
            "seconds": round(runner.spent.seconds, 3),
            "steps_per_second": round(runner.steps_here / max(runner.spent.seconds, 1e-9), 1),
            "train_return": train_return,
            "eval_return": evaluation.mean if evaluation else None,
            "eval_episodes": len(evaluation.returns) if evaluation else 0,
        }


@together()
def train(
    run: Run,
    *,
    model: ModelFactory | None = None,
    hooks: Hooks | None = None,
    mode: Mode = "auto",
    stream: TextIO | None = None,
    guarded: bool = False,
) -> Outcome:
    """Train from the beginning, in a folder of its own; with other ranks, if there are any.

    Args:
        run: the options.
        model: makes the network for a specification.
        hooks: the user's callables.
        mode: "quiet" shows nothing, "plain" never redraws.
        stream: where progress is shown; standard output by default.
        guarded: end this process where an environment that it steps does not return in time.
    """
    displays.check(mode)
    check_same_options(run)
    runs, before = Path(run.loop.runs).absolute(), _init_from(run)  # environments may go elsewhere
    parts = build(run, model=model, home=_home(run, guarded))
    try:
        if before:
            _start_from(parts, before)
        check_same_agents(parts.agent, parts.spec, drawn=True)
        folder = world().from_first(lambda: _begun(run, parts, runs))
        check_shared(folder)
        with held(folder):
            segments = segments_of(run, parts, folder)
            return _go(run, parts, folder, None, hooks, mode, stream, segments)
    finally:
        _close(parts)


@together()
def resume(
    path: Path,
    *,
    env_steps: int | None = None,
    reschedule: bool = False,
    drop_replay: bool = False,
    env: Any = None,
    model: ModelFactory | None = None,
    hooks: Hooks | None = None,
    mode: Mode = "auto",
    stream: TextIO | None = None,
    sampler: Mapping[str, Any] | None = None,
    device: str | None = None,
    guarded: bool = False,
) -> Outcome:
    """Go on with a run from its newest whole checkpoint, as if it had not stopped.

    Args:
        path: the run's folder.
        env_steps: a new, greater length; schedules keep the length that they began with.
        reschedule: stretch the schedules to the new length.
        drop_replay: fill a new replay instead of reading the saved one, which may be damaged.
        env: what makes the environment, where the run began with a callable: `run.json` holds its
            name alone.
        sampler: options of the sampler in place of its own: numbers stay the same, to the last bit
            where `strict`, else to rounding where forward passes change their size.
        device: in place of the run's own; numbers then differ by rounding.
        guarded: end this process where an environment that it steps does not return in time.
    """
    displays.check(mode)
    folder = RunFolder(Path(path).absolute())  # environments may change the working directory
    record = folder.read()
    refuse_alone(folder)
    check_ranks(folder, record)
    run = folder.run()
    if env is not None:
        _refuse_another(env, run.env.env)
        run = dataclasses.replace(run, env=dataclasses.replace(run.env, env=env))
    done = world().from_first(lambda: checkpoint.steps(folder.path / "checkpoints"))
    if env_steps is not None:
        env_steps = whole("env_steps", env_steps)
        if env_steps <= done:
            raise UsageError(
                f"env_steps={env_steps}: the run has taken {done} already; choose a greater length"
            )
        schedule = None if reschedule else run.schedule_steps
        loop = dataclasses.replace(
            run.loop,
            env_steps=env_steps,
            # Unset intervals follow the length; what the run began with goes on.
            log_interval=run.loop.log_every,
        )
        run = dataclasses.replace(run, loop=loop, schedule_steps_from=schedule)
    resolved = on_device(Resolved(**record["resolved"]), device)
    run = moved(run, resolved.device, anew=device is not None)
    if sampler:
        run = dataclasses.replace(run, sampler=dataclasses.replace(run.sampler, **sampler))
    check_same_options(run)
    if sampler and sampler.keys() - {"nan_policy"}:
        images = observes_images(run.env, _home(run, guarded))
        resolved = with_sampler(resolved, run, images)
    before = _init_from(run)
    parts = build(run, resolved, model=model, home=_home(run, guarded))
    if drop_replay and parts.replay is None:
        parts.close()
        raise UsageError(f"{run.algo_name} has no replay to drop; resume without --drop-replay")
    try:
        check_same_agents(parts.agent, parts.spec, drawn=False)
        with held(folder):
            segments = segments_of(run, parts, folder)
            saved = None
            if done:
                saved = newest(
                    folder.path / "checkpoints",
                    lambda state: _load_replay(segments, state, drop_replay),
                )
                done = saved[1]["env_steps"]
            elif before:
                _start_from(parts, before)
            resumed = [*record["resumed"], {"env_steps": done, "length": env_steps}]
            own = {name: dataclasses.asdict(getattr(run, name)) for name in ("loop", "sampler")}
            if world().first:
                folder.update(
                    status="running",
                    resumed=resumed,
                    schedule_steps=run.schedule_steps_from,
                    options={**record["options"], **own},
                    resolved=resolved.as_dict(),
                )
            return _go(run, parts, folder, saved, hooks, mode, stream, segments)
    finally:
        _close(parts)


def segments_of(run: Run, parts: Parts, folder: RunFolder) -> Segments | None:
    """The run's replay on disk; None where there is none to save."""
    if parts.replay is None or not getattr(run.algo, "save_replay", False):
        return None
    rank = world().rank
    below = "replay" if not rank else f"replay-rank-{rank}"
    return Segments(folder.path / below, parts.replay.ring)


def _refuse_another(env: Any, recorded: Any) -> None:
    """Raise where a run that has an id is to go on with another: half of it would be of each."""
    if isinstance(env, str) and "<" not in recorded and env != recorded:
        raise UsageError(
            f"env={env}: the run began with {recorded}, and goes on with that; leave env out (what "
            "is the same under a new name is given as the function itself), or begin a run of the "
            "other with init_from=its folder"
        )


def _load_replay(segments: Segments | None, state: Any, drop: bool) -> None:
    """Read the replay that a checkpoint lists.

    Raises:
        checkpoint.Damaged: it is not what was written.
    """
    listing = of_rank(state, world().rank).get("replay")
    if segments is None or listing is None or drop:
        return
    try:
        segments.load(listing)
    except checkpoint.Damaged as damage:
        raise checkpoint.Damaged(f"{damage}; --drop-replay fills a new one instead") from None
    folder = segments.folder.parent / "checkpoints"
    segments.prune(checkpoint.listings(folder, world().rank))


def _go(
    run: Run,
    parts: Parts,
    folder: RunFolder,
    saved: tuple[Any, dict[str, Any]] | None,
    hooks: Hooks | None,
    mode: Mode,
    stream: TextIO | None,
    segments: Segments | None,
) -> Outcome:
    done = saved[1]["env_steps"] if saved else 0
    rank = world().rank  # of several each has a place for stacks
    parts.home.folder = folder.path / f"rank-{rank}" if rank else folder.path
    with ExitStack() as stack:
        alone, first = world().size == 1, world().first
        stop = stack.enter_context(StopSignal(0.0 if alone else ECHO_SECONDS))
        stack.enter_context(answering(parts.home.folder / "stacks"))
        if parts.home.watchdog:
            stack.enter_context(parts.home.watchdog(folder.path))
        console = stack.enter_context(
            Console(
                run.loop.env_steps,
                [*header(run, parts, folder), *saving(segments, run), *going_on(done, run)],
                env_steps=done,
                history=csv.read_lines(folder.path / "progress.csv") if saved else (),
                solved_return=parts.solved_return,
                mode=mode if first else "quiet",
                stream=stream,
            )
        )
        parts.home.tell = console.message if first else _say
        recorder: Recorder = Silent()
        if first:
            sinks = open_sinks(folder.path, done, console.message)
            recorder = Recorder(folder.path, sinks, env_steps=done, tell=console.message)
        stack.callback(recorder.close)
        runner = Runner(run, parts, folder.path, recorder, console, stop, hooks, segments)
        try:
            if saved:
                runner.load(saved[0])
            status = runner.train()
        except BaseException as error:
            if first:
                with suppress(OSError, UsageError):  # a full disk, say, which is the error itself
                    folder.update(
                        status="failed",
                        env_steps=runner.episodes.env_steps,
                        error=f"{type(error).__name__}: {error}",
                    )
            raise
        steps = runner.episodes.env_steps
        if not runner.saved:
            steps = checkpoint.steps(folder.path / "checkpoints")
        if first:
            folder.update(status=status, env_steps=steps)
        console.close(_farewell(status, folder, runner.saved, steps))
    return Outcome(folder.path, status, runner, runner.saved)


def _close(parts: Parts) -> None:
    """End environments and processes; this one, where an environment of its own does not end."""
    dog = parts.home.watchdog
    with dog.closing() if dog else nullcontext():
        parts.close()


def _home(run: Run, guarded: bool) -> Home:
    if not guarded:
        return Home()
    seconds = run.sampler.env_step_timeout
    dog = Watchdog(seconds) if seconds else None
    return Home(watchdog=dog, start_timeout=run.sampler.start_timeout)


def _begun(run: Run, parts: Parts, runs: Path) -> RunFolder:
    """A folder for the run below `runs`, which says what it is."""
    folder = RunFolder.create(run, parts.resolved.seed, runs)
    folder.begin(run, parts.resolved.as_dict())
    return folder


def _say(text: str) -> None:
    """Of a rank that shows nothing else."""
    print(f"rank {world().rank}: {text}", file=sys.stderr, flush=True)


def _farewell(status: str, folder: RunFolder, saved: bool, env_steps: int) -> list[str]:
    if status != "finished":
        what = "saved" if saved else f"not saved since {env_steps:,} env steps"
        return [f"{status}, {what}; go on with: {torchrun.resuming(folder.path, world().size)}"]
    return [f"saved    {from_here(folder.path)}: checkpoints/  run.json  progress.csv"]


def _init_from(run: Run) -> Path | None:
    """Where the weights lie that a run begins with."""
    return Path(run.loop.init_from).absolute() if run.loop.init_from else None


def _start_from(parts: Parts, other: Path) -> None:
    """Take weights and normalizers of another run's newest checkpoint, of one, or of `save`."""
    inside = other / "checkpoints"
    state, _ = checkpoint.load(inside if inside.exists() else other)
    load_weights(parts.agent, state["agent"], f"init_from={from_here(other)}")
