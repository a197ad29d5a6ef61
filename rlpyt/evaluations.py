"""A run's evaluations: what follows from each, which was the best, and which is owed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from rlpyt import ranks
from rlpyt.build import Parts
from rlpyt.errors import WorkerError
from rlpyt.evaluation import Evaluation, Stopped
from rlpyt.generators import generators_kept
from rlpyt.logging.console import Console
from rlpyt.logging.recorder import Recorder
from rlpyt.run import LoopOptions
from rlpyt.stopping import StopSignal


@final
class Evaluations:
    """Evaluates a run's agent between windows, records and shows it.

    Attributes:
        newest: of this process; None before the first.
        best_return: the greatest mean so far.
        new_best: whether no checkpoint holds the agent that had it yet.
        owed: one that a signal ended, which is made up for on resume.

    Args:
        loop: how many episodes, and the return at which the run ends.
        parts: the agent, and who plays.
        recorder: takes the metrics.
        console: shows them.
        stop: a signal ends an evaluation, too.
        hook: the user's; True ends the run.
    """

    def __init__(
        self,
        loop: LoopOptions,
        parts: Parts,
        recorder: Recorder,
        console: Console,
        stop: StopSignal,
        hook: Callable[[Evaluation], bool | None] | None,
    ) -> None:
        self.loop, self.parts, self.ranks = loop, parts, ranks.world()
        self.recorder, self.console, self.stop, self.hook = recorder, console, stop, hook
        self.newest: Evaluation | None = None
        self.best_return = -float("inf")
        self.new_best = self.owed = False
        self._made_at = -1  # env steps

    def make(self, env_steps: int) -> bool:
        """Evaluate after so many environment steps; True where the run has reached its goal."""
        if not self.loop.eval_episodes or self._made_at == env_steps:
            return False
        self.parts.agent.set_exploration(env_steps)
        self.console.activity(f"evaluating ({self.loop.eval_episodes} episodes)")
        evaluation, self.owed = self.ranks.from_first(lambda: self._played(env_steps))
        if evaluation is None:
            self.console.activity()
            return False
        self.newest, self._made_at = evaluation, env_steps
        self.recorder.record_all(evaluation.metrics())
        self.recorder.write(env_steps)
        episodes = len(evaluation.returns)
        self.console.evaluation(env_steps, evaluation.mean, evaluation.std, episodes)
        if evaluation.mean > self.best_return:
            self.best_return, self.new_best = evaluation.mean, True
        goal = self.loop.stop_at_return
        ended = goal is not None and evaluation.mean >= goal
        if self.hook is not None:
            ended = bool(self.hook(evaluation)) or ended
        return ended

    def state(self) -> dict[str, Any]:
        return {"best_return": self.best_return, "evaluation_owed": self.owed}

    def load(self, state: dict[str, Any]) -> None:
        self.best_return, self.owed = state["best_return"], state["evaluation_owed"]

    @generators_kept()
    def _played(self, env_steps: int) -> tuple[Evaluation | None, bool]:
        """An evaluation that leaves training as it is; None where a signal or an error ended it.

        Returns:
            It, and whether it is to be made up for.
        """
        evaluator = self.parts.evaluator
        try:
            return evaluator.evaluate(stop=self._stopped), False
        except Stopped:
            return None, True
        except Exception as error:
            noted = getattr(error, "__notes__", ())  # by which an environment's own is known
            if isinstance(error, FloatingPointError) and not noted:
                raise  # it is the weights that are not finite
            what = error.message if isinstance(error, WorkerError) else repr(error)
            self.console.message(f"evaluation failed, training goes on: {what}")
            self.recorder.record("eval/failed", 1.0)
            self.recorder.write(env_steps)
            evaluator.close()  # its environments are made anew
            return None, False

    def _stopped(self) -> bool:
        """Whether a signal asks this process to stop."""
        self.stop.hold()
        return bool(self.stop.name)
