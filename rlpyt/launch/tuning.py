"""Tuning: trials that Optuna draws, each a run for each seed, pruned on their evaluations."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from rlpyt.errors import UsageError
from rlpyt.flags import Flag
from rlpyt.launch.jobs import Job, Parse, tokens
from rlpyt.launch.journal import Record, State
from rlpyt.launch.progress import Log, Progress
from rlpyt.launch.space import Space
from rlpyt.logging.text import format_return

STUDY = "study.jsonl"
STARTUP_TRIALS = 5  # that are complete before any is pruned; Optuna's own number
WARMUP = 1  # evaluations that are never pruned on: the first says little


@dataclass(frozen=True)
class Asked:
    """What is tuned."""

    algo: str
    env: str
    spaces: tuple[Space, ...]
    fixed: tuple[str, ...]  # options that all runs have, as they are typed
    seeds: tuple[int, ...]
    trials: int
    column: str  # of progress.csv; its last value counts
    minimize: bool
    prune: bool
    interval: int  # env steps between evaluations

    @property
    def content(self) -> str:
        """What trials have in common; with other ones they cannot be compared."""
        kept = (
            self.algo,
            self.env,
            self.spaces,
            self.fixed,
            self.seeds,
            self.column,
            self.minimize,
        )
        return repr(kept)


class Tuning:
    """The source of a queue that draws trials while there are any left to draw.

    Args:
        asked: what is tuned.
        folder: where the runs lie.
        flags: all options of `rlpyt train`.
        parse: checks each command.
        seed: of what is tried.
    """

    study: optuna.Study  # opened by `begin`: by then no other queue has the folder

    def __init__(
        self, asked: Asked, folder: Path, flags: Sequence[Flag], parse: Parse, seed: int = 0
    ) -> None:
        self.asked, self._seed = asked, seed
        self._folder, self._flags, self._parse = folder, flags, parse
        self._waiting: deque[Job] = deque()
        self._trials: dict[int, Trial] = {}  # those that run
        self._values: dict[int, dict[str, float | None]] = {}  # of their runs that ended
        self._curves: dict[int, dict[str, dict[int, float]]] = {}
        self._pruned: set[int] = set()
        self._say: Callable[[str], None] = print

    def begin(self, records: Mapping[str, Record], say: Callable[[str], None]) -> list[Job]:
        """Take up the trials that an earlier queue left open; returns their runs."""
        self.study, self._say = open_study(self._folder, self.asked, self._seed), say
        jobs: list[Job] = []
        for frozen in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if len(frozen.params) < len(self.asked.spaces):
                self.study.tell(frozen.number, state=TrialState.FAIL)  # killed while it was drawn
                continue
            trial = Trial(self.study, frozen._trial_id)
            for job in self._open(trial):
                record = records.get(job.name)
                if record is None or record.state in ("queued", "running", "cut"):
                    jobs.append(job)
                else:
                    log = Log(self._folder / job.name, self.asked.column)
                    self.ended(job, record.state, log.read())
        return jobs

    def next(self) -> Job | None:
        """A run of a trial that is open, or of the next one."""
        while not self._waiting and self.drawn < self.asked.trials:
            spaces = {space.name: distribution(space) for space in self.asked.spaces}
            trial = self.study.ask(spaces)
            try:
                self._waiting.extend(self._open(trial))
            except UsageError as error:
                self._say(f"trial {trial.number} cannot be: {error}")
                self.study.tell(trial.number, state=TrialState.FAIL)
        return self._waiting.popleft() if self._waiting else None

    def more(self) -> bool:
        """Whether there may be another run later."""
        return bool(self._waiting) or self.drawn < self.asked.trials

    def seen(self, job: Job, progress: Progress) -> bool:
        """Report an evaluation that all runs of a trial have made; True where it is pruned."""
        number = _number(job)
        if number in self._trials:
            self._report(job, progress)
        trial = self._trials.get(number) if self.asked.prune else None
        early = progress.env_steps < job.env_steps and number not in self._pruned
        if trial is not None and early and trial.should_prune():
            self._pruned.add(number)
            self._waiting = deque(x for x in self._waiting if _number(x) != number)
            self._say(f"trial {number} pruned at {progress.env_steps:,} env steps")
        return number in self._pruned

    def ended(self, job: Job, state: State, progress: Progress) -> None:
        """Tell the study of a trial whose runs have all ended."""
        number, runs = _number(job), len(self.asked.seeds)
        if number not in self._trials:
            return
        last = progress.curve[-1][1] if state == "finished" and progress.curve else None
        self._values[number][job.name] = last
        self._report(job, progress)
        if number in self._pruned:
            self._tell(number, TrialState.PRUNED)
        elif len(self._values[number]) == runs:
            values = [value for value in self._values[number].values() if value is not None]
            if len(values) == runs:
                self._tell(number, TrialState.COMPLETE, _mean(values))
            else:
                self._tell(number, TrialState.FAIL)

    def _report(self, job: Job, progress: Progress) -> None:
        """Tell the study of evaluations by their number: window sizes put them at other steps."""
        number, curves = _number(job), self._curves[_number(job)]
        curves[job.name] = {x // self.asked.interval: y for x, y in progress.curve}
        if len(curves) == len(self.asked.seeds):
            reported = self.study.get_trials(deepcopy=False)[number].intermediate_values
            common = set.intersection(*map(set, curves.values())) - reported.keys()
            for step in sorted(common):
                mean = _mean([curve[step] for curve in curves.values()])
                self._trials[number].report(mean, step)

    @property
    def drawn(self) -> int:
        """Trials so far, without those that were killed while they were drawn."""
        trials = self.study.get_trials(deepcopy=False)
        return sum(len(trial.params) == len(self.asked.spaces) for trial in trials)

    def best(self) -> tuple[FrozenTrial, Job] | None:
        """The trial with the best value, and its first run; None where none is complete."""
        if not self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            return None
        trial = self.study.best_trial
        return trial, self._job(trial.number, trial.params, self.asked.seeds[0])

    def example(self) -> Job:
        """A run of what would be drawn, to look at before any is."""
        first = {space.name: space.examples()[0] for space in self.asked.spaces}
        return self._made("example", first, self.asked.seeds[0])

    def check(self) -> None:
        """Refuse a space of which some value cannot be, whatever the others are."""
        first = {space.name: space.examples()[0] for space in self.asked.spaces}
        for space in self.asked.spaces:
            for text in space.examples():
                self._made("example", {**first, space.name: text}, self.asked.seeds[0])

    def _open(self, trial: Trial) -> list[Job]:
        number = trial.number
        jobs = [self._job(number, trial.params, seed) for seed in self.asked.seeds]
        self._trials[number], self._values[number], self._curves[number] = trial, {}, {}
        return jobs

    def _job(self, number: int, params: Mapping[str, Any], seed: int) -> Job:
        texts = {space.name: space.text(params[space.name]) for space in self.asked.spaces}
        return self._made(f"{number:04}", texts, seed)

    def _made(self, number: str, texts: Mapping[str, str], seed: int) -> Job:
        asked = self.asked
        drawn = [token for name, text in texts.items() for token in tokens(name, text, self._flags)]
        options = (asked.algo, "--env", asked.env, *asked.fixed, *drawn, "--seed", str(seed))
        run = self._parse(options)
        kind = f"{asked.algo} {asked.env}"
        return Job(f"{number}__{seed}", options, run.loop.env_steps, kind, run)

    def _tell(self, number: int, state: TrialState, value: float | None = None) -> None:
        before = self.best()
        self.study.tell(number, value, state)
        for kept in (self._trials, self._values, self._curves):
            del kept[number]
        after = self.best()
        if after is not None and (before is None or before[0].number != after[0].number):
            shown = " ".join(
                f"{s.name}={s.text(after[0].params[s.name])}" for s in self.asked.spaces
            )
            self._say(f"best     trial {number}: {format_return(after[0].value or 0.0)} · {shown}")


def open_study(folder: Path, asked: Asked, seed: int) -> optuna.Study:
    """The study of a folder, as it was left."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = folder / STUDY
    _cut_torn_line(path)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(path))),
        study_name="rlpyt",
        direction="minimize" if asked.minimize else "maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=False),
        pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, WARMUP),
        load_if_exists=True,
    )
    before = study.user_attrs.get("asked")
    if before is None:
        study.set_user_attr("asked", asked.content)
    elif before != asked.content:
        raise UsageError(
            f"{folder} holds trials of other options, or over other ranges, which cannot be "
            "compared; choose another --name"
        )
    return study


def distribution(space: Space) -> BaseDistribution:
    """A space as Optuna has it."""
    if space.choices:
        return CategoricalDistribution(space.choices)
    if space.whole:
        return IntDistribution(int(space.low), int(space.high), log=space.log)
    return FloatDistribution(space.low, space.high, log=space.log)


def _cut_torn_line(path: Path) -> None:
    """Take off what a killed process left of its last line, which Optuna does not read over."""
    if path.exists():
        content = path.read_bytes()
        os.truncate(path, content.rfind(b"\n") + 1)


def _number(job: Job) -> int:
    return int(job.name.partition("__")[0])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
