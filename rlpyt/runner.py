"""The loop: collect, update, log, evaluate, checkpoint. Every family of algorithms runs in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from rlpyt import checkpoint, noise, ranks
from rlpyt.build import Parts, load_weights
from rlpyt.errors import StopAsked
from rlpyt.evaluation import Evaluation, game_over
from rlpyt.evaluations import Evaluations
from rlpyt.generators import generators, restore_generators, seed_generators
from rlpyt.logging.beyond import beyond
from rlpyt.logging.console import Console
from rlpyt.logging.episodes import Episodes
from rlpyt.logging.recorder import Recorder
from rlpyt.logging.shares import Spent
from rlpyt.one_run import assert_same_agents, of_all, of_rank, with_others
from rlpyt.replays.segments import Segments
from rlpyt.run import Run
from rlpyt.schedules import due
from rlpyt.stopping import NAMES, StopSignal


class Algorithm(Protocol):
    """What the loop asks of an algorithm."""

    def update(self, window: Any, env_steps: int) -> Mapping[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: dict[str, Any]) -> None: ...


@dataclass
class Hooks:
    """Callables of a library user; one that returns True ends the run."""

    on_window: Callable[[Runner], bool | None] | None = None
    on_evaluation: Callable[[Evaluation], bool | None] | None = None


class Runner:
    """Trains one agent.

    Args:
        run: its options.
        parts: made by `build(run, …)`, or by hand.
        folder: the run's folder; checkpoints go below it.
        recorder: takes the metrics.
        console: shows them.
        stop: says whether a signal asked the run to end.
        hooks: the user's callables.
        segments: the replay on disk; None does not save it.
    """

    def __init__(
        self,
        run: Run,
        parts: Parts,
        folder: Path,
        recorder: Recorder,
        console: Console,
        stop: StopSignal,
        hooks: Hooks | None = None,
        segments: Segments | None = None,
    ) -> None:
        self.run, self.parts, self.folder = run, parts, folder
        self.ranks, self._agreed = ranks.world(), ""
        self.recorder, self.console, self.stop = recorder, console, stop
        self.hooks = hooks or Hooks()
        self.episodes = Episodes(run.env.num_envs, partial=run.env.decorrelate > 0)
        hook = self.hooks.on_evaluation
        self.evaluations = Evaluations(run.loop, parts, recorder, console, stop, hook)
        self.recent_return: float | None = None  # of all ranks' last episodes, at the last line
        self.spent = Spent()
        self._logged_at = 0
        self._started = False
        self.segments = segments
        self.saved = True
        self._beyond = beyond(run.algo, console.message)

    @property
    def steps_here(self) -> int:
        """Environment steps taken in this process."""
        return self.episodes.env_steps - self.spent.begun_at

    def train(self) -> str:
        """Go on until the run's length is reached, a hook or a signal ends it.

        Returns:
            "finished", or "interrupted" or "terminated" by a signal; a checkpoint is saved, unless
            an environment did not answer (`saved` says so).
        """
        try:
            return self._train()
        except StopAsked as error:
            name = self.stop.name or error.asked
            if not name:
                raise
            self.ranks.failed(error)
            self.saved = False
            lost = "what came after the newest checkpoint is lost"
            some = self.episodes.env_steps > 0
            self.console.message(f"{error}; {lost if some else 'there is nothing to save yet'}")
            return name

    def _train(self) -> str:
        loop, episodes, sampler = self.run.loop, self.episodes, self.parts.sampler
        evaluations = self.evaluations
        if not self._started:
            seed, rank = self.parts.resolved.seed, self.ranks.rank
            seed_generators(noise.seed(seed, noise.GLOBAL_GENERATORS, rank))
            sampler.reset()
            self._started = True
        ended = False
        if evaluations.owed:
            ended = evaluations.make(episodes.env_steps)
            if evaluations.new_best:
                self.save()
        ended = self._agree(ended)
        while episodes.env_steps < loop.env_steps and not ended and not self._asked:
            begun = time.perf_counter()
            self.stop.hold()
            before = episodes.env_steps
            missing = -(-(loop.env_steps - before) // self.ranks.size)
            self._learn(sampler.collect(sampler.rows_for(missing), before))
            self.spent.seconds += time.perf_counter() - begun
            if self._rests_after(before):
                self._settle()
            after = episodes.env_steps
            self.console.update(after, self._log() if due(before, after, loop.log_every) else None)
            if self.hooks.on_window is not None:
                ended = bool(self.hooks.on_window(self))
            if after < loop.env_steps:  # the end is evaluated and saved below
                if due(before, after, loop.eval_interval):
                    ended = evaluations.make(after) or ended
                if due(before, after, loop.checkpoint_every) or evaluations.new_best:
                    self.save()
            ended = self._agree(ended)
        self._settle()
        if self._asked and not episodes.env_steps:
            self.saved = False
            self.console.message("stopped before the first window: there is nothing to save yet")
            return self._asked
        if not self._asked:
            if episodes.env_steps > self._logged_at:
                self._log()
            evaluations.make(episodes.env_steps)
            self._agree()
        self.save()
        if self._asked:
            return self._asked
        self.console.update(episodes.env_steps, self.spent.overall(episodes.env_steps))
        return "finished"

    def save(self) -> Path:
        """Write a checkpoint of everything that the rest of the run depends on."""
        self._settle()
        assert_same_agents(self.parts.agent)
        listing = None if self.segments is None else self.segments.save()
        state = self.state(listing)
        path = self.ranks.from_first(lambda: self._write(state))
        self.evaluations.new_best = False
        if self.segments is not None:  # a network disk may not show yet what the first rank wrote
            saved = [*checkpoint.listings(path.parent, self.ranks.rank), listing]
            self.segments.prune(saved)
        return path

    def state(self, listing: dict[str, Any] | None = None) -> dict[str, Any]:
        """Everything that the rest of the run depends on; of several ranks, at the first.

        The others' lies in it, but for what all have in common.

        Args:
            listing: of the replay, as it was saved.
        """
        parts = self.parts
        own = {
            "algorithm": parts.algorithm.state(),
            **parts.sampler.snapshot(),
            "replay": listing,
            "episodes": self.episodes.state(),
            "generators": generators(),
        }
        return {
            "agent": dict(parts.agent.state_dict()),
            **own,
            "recorder": self.recorder.state(),
            **self.evaluations.state(),
            "logged_at": self._logged_at,
            **with_others(own),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state, as if the run had not stopped."""
        parts, replay = self.parts, self.parts.replay
        state = of_rank(state, self.ranks.rank)
        load_weights(parts.agent, state["agent"], str(self.folder))
        parts.algorithm.load(state["algorithm"])
        if replay is not None and replay.ring.blocks[0].answered != int(state["window"]["start"]):
            self.console.message(
                "without the replay that it had the run fills a new one before it learns on: it is "
                "not the one that would have gone on without a stop"
            )
        self.episodes.load(state["episodes"])
        self.recorder.load(state["recorder"])
        self.evaluations.load(state)
        self._logged_at = state["logged_at"]
        cut = parts.sampler.restore(state)
        if cut:
            self.console.message(
                f"environments {cut} could not be brought back to where they were; they begin a "
                "new episode, and the one that was cut is not reported"
            )
        restore_generators(state["generators"])
        self.spent.begin(self.episodes.env_steps)
        self._started = True

    def _learn(self, window: Any) -> None:
        """Count what has come, and learn from it."""
        begun, before = time.perf_counter(), self.episodes.env_steps
        rows = window.rows
        self.episodes.count(rows, game_over=game_over(rows), infos=self.parts.sampler.infos)
        (steps,) = self.ranks.totals(self.episodes.env_steps - before)
        self.episodes.env_steps = before + int(steps)
        if self._beyond is not None:
            self._beyond.look(rows)
        with torch.enable_grad():  # environments and scripts may have switched it off
            self.recorder.record_all(self.parts.algorithm.update(window, before))
        self.spent.learning += time.perf_counter() - begun

    @property
    def _asked(self) -> str:
        """Which signal asked the run to end; of several ranks any, once they have agreed."""
        return self.stop.name if self.ranks.size == 1 else self._agreed

    def _agree(self, ended: bool = False) -> bool:
        """Between windows: whether the run is to end, by any rank's hooks or signals."""
        if self.ranks.size == 1:
            return ended
        signals = ["", *NAMES.values()]
        asked, over = self.ranks.greatest(signals.index(self.stop.name), ended)
        self._agreed = signals[int(asked)]
        return bool(over)

    def _write(self, state: dict[str, Any]) -> Path:
        """Write a checkpoint's files."""
        self.recorder.sync()
        folder, keep = self.folder / "checkpoints", self.run.loop.keep_checkpoints
        path = checkpoint.save(folder, self.episodes.env_steps, state, keep)
        if self.evaluations.new_best:
            checkpoint.mark_best(path)
        return path

    def _rests_after(self, before: int) -> bool:
        """Whether an evaluation or a checkpoint follows what was just learned from."""
        loop, after = self.run.loop, self.episodes.env_steps
        return due(before, after, loop.eval_interval) or due(before, after, loop.checkpoint_every)

    def _settle(self) -> None:
        """Have a sampler that collects meanwhile rest, and learn from what it had collected.

        What is evaluated and saved then is of one time.
        """
        begun = time.perf_counter()
        windows: Iterable[Any] = self.parts.sampler.settle()
        if self.ranks.size > 1:
            windows = self._in_step(list(windows))
        for window in windows:
            self._learn(window)
        self.spent.seconds += time.perf_counter() - begun

    def _in_step(self, windows: list[Any]) -> list[Any]:
        """As many windows on every rank: where one has none it has one without rows."""
        (most,) = self.ranks.greatest(len(windows))
        sampler: Any = self.parts.sampler
        return windows + [sampler.nothing() for _ in range(int(most) - len(windows))]

    def _log(self) -> dict[str, float]:
        """Write one line of the log, of what happened since the line before."""
        sampler, recorder, steps = self.parts.sampler, self.recorder, self.episodes.env_steps
        line = self.episodes.line(self.ranks.gather)
        self.recent_return = line.get("rollout/return_100")
        recorder.record_all(line)
        shares = self.spent.line(sampler.seconds, steps)
        recorder.record_all(of_all({**shares, **sampler.metrics()}))
        recorder.record("time/frames", steps * self.parts.spec.frames_per_step)
        sampler.seconds = dict.fromkeys(sampler.seconds, 0.0)
        self._logged_at = steps
        return recorder.write(steps)
