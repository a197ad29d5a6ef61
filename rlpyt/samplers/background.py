"""What the process of an asynchronous run's sampler does: window after window, while it may.

It runs any sampler over the rows that the learner reads, in place. Its weights are the newest at
each window's start, and so are the environment steps that exploration is set by, which it counts
as the learner does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.errors import StopAsked
from rlpyt.processes.child import Context
from rlpyt.rows import Row
from rlpyt.samplers.link import ACT, ENV, WAIT, Entry, Link
from rlpyt.samplers.published import Published
from rlpyt.samplers.turns import Turn
from rlpyt.storage import Memory


class Collector(NamedTuple):
    """What collects in the background."""

    sampler: Any  # a Sampler, or one of its kind
    agent: Any  # whose weights are brought up to date
    ranks: int = 1  # that train together, each with a sampler: what they step meanwhile is guessed


MakeCollector = Callable[[Context, Any], Collector]
"""Makes it in the process of its own; is given the processes that were started to help it."""


def background(
    context: Context, make: MakeCollector, helpers: Any, link: Link, weights: Memory, total: int
) -> None:
    """The whole life of the process.

    Args:
        context: of this process.
        make: makes what collects.
        helpers: other processes, that it drives.
        link: to the learner.
        weights: where those of the learner are published.
        total: environment steps of the run.
    """
    torch.set_num_threads(1)
    collector = make(context, helpers)
    work = _Work(context, collector, link, weights, total)
    waiting = context.waiting("the learner's permission")
    try:
        while True:
            begun = perf_counter()
            waiting.until(work.due, math.inf)
            if work.turn == "window":
                link.seconds[WAIT] += perf_counter() - begun
                work.collect()
            else:
                work.answer()
            context.heart.rest()  # no call of an environment is waited for any more
    except StopAsked:  # after a failure a close that hangs would keep it from being told of
        collector.sampler.close()
        raise


def env_steps_of(rows: Row) -> int:
    """Steps of environments among rows [T+1, B]: live rows answered, those cut excepted."""
    return int(np.count_nonzero(~rows.last[:-1] & ~rows.cut[1:]))


class _Work:
    """What is to be done next, and how."""

    def __init__(
        self, context: Context, collector: Collector, link: Link, weights: Memory, total: int
    ) -> None:
        self.context, self.sampler, self.link = context, collector.sampler, link
        self.turn: Turn = "wait"
        self._newest = Published(collector.agent, weights)
        self._env_steps, self._total, self._ranks = 0, total, collector.ranks

    def due(self) -> bool:
        """Whether there is a window to collect, or a message to answer while it rests."""
        turn = self.link.turns.next_turn()
        if turn == "rest" != self.turn:
            self.context.main_bell.ring()
        self.turn = turn
        if turn == "rest":
            return self.context.control.has_message()
        return turn == "window" and not self.link.over

    def collect(self) -> None:
        """Collect a window, and publish it."""
        link, sampler, before = self.link, self.sampler, self._env_steps
        version = self._newest.take()
        sampler.seconds = {"env": 0.0, "act": 0.0}
        missing = -(-(self._total - before) // self._ranks)
        try:
            window = sampler.collect(sampler.rows_for(missing), before)
        finally:
            link.tell_losses(*sampler.losses)
        self._env_steps += self._ranks * env_steps_of(window.rows)
        link.seconds[ENV] += sampler.seconds["env"]
        link.seconds[ACT] += sampler.seconds["act"]
        entry = Entry(window.start, window.horizon, before, version)
        link.write(link.turns.look(), entry, sampler.infos)
        link.turns.publish()
        link.over = self._env_steps >= self._total  # not before: the learner takes it for an end
        self.context.main_bell.ring()

    def answer(self) -> None:
        """Do what a message asks for, and say what came of it."""
        number, what, given = self.context.control.receive(math.inf)
        sampler, answer = self.sampler, None
        match what:
            case "reset":
                sampler.reset()
            case "restore":
                boundary, envs = given
                sampler.window.go_on_behind(boundary)
                answer = sampler.restore_envs(envs)
            case "snapshot":
                answer = sampler.snapshot_envs()
            case "env steps":
                (self._env_steps,) = given
                self.link.over = self._env_steps >= self._total
        self.context.control.send((number, answer), math.inf)
        self.context.main_bell.ring()
