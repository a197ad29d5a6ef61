"""What a replica does: it answers and steps its own columns, a window at a time, when it is asked.

The rows are those of the window that the driver collects, in shared memory; so is the state that
the agent is fed next. What is asked for and what was given is counted at the `Desk`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch

from rlpyt.block import fence
from rlpyt.errors import StopAsked
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.samplers.news import News
from rlpyt.samplers.published import Published
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import Memory


class Part(NamedTuple):
    """What a replica is made of."""

    sampler: Sampler  # of its columns alone
    agent: Any  # answers them


MakePart = Callable[[Context, slice], Part]  # of some columns, in the process of a replica


@final
class Desk:
    """Where a driver asks replicas for rows, and finds what they gave; in shared memory.

    Args:
        memory: made here, or received.
        replicas: W.
    """

    def __init__(self, memory: Memory, replicas: int) -> None:
        line = np.zeros(8, np.int64)  # a cache line, of which a word is the first 8 bytes
        self.memory, self.replicas = memory, replicas
        self._asked: np.ndarray = memory.zeros(line)  # requests; start, horizon, env steps
        self.given: np.ndarray = memory.zeros(line, (replicas,))[..., 0]  # requests, by replica
        self.ready: np.ndarray = memory.zeros(line, (replicas,))[..., 0]
        self.news = News(memory, replicas)  # of the newest window, by replica
        self.seconds: np.ndarray = memory.zeros(np.zeros(8), (replicas,))  # env, act

    def __reduce__(self) -> tuple[Any, ...]:
        return Desk, (self.memory, self.replicas)

    @property
    def asked(self) -> int:
        """Requests so far."""
        return int(self._asked[0])

    @property
    def request(self) -> tuple[int, int, int]:
        """The newest: start, horizon, and environment steps of the run (-1: of no matter)."""
        start, horizon, env_steps = self._asked[1:4].tolist()
        return start, horizon, env_steps

    def ask(self, start: int, horizon: int, env_steps: int) -> None:
        """Ask all replicas for a window; the bell of each is to be rung then."""
        self._asked[1:4] = start, horizon, env_steps
        fence()
        self._asked[0] += 1


def replica(
    context: Context,
    make: MakePart,
    published: Memory,
    desk: Desk,
    number: int,
    columns: slice,
    driver: Bell,
) -> None:
    """The whole life of a replica.

    Args:
        context: of this process.
        make: makes its sampler.
        published: where weights are published.
        desk: where it is asked.
        number: of this replica.
        columns: its own.
        driver: rung when it gave something.
    """
    torch.set_num_threads(1)
    work = _Work(context, make(context, columns), published, desk, number, columns)
    desk.ready[number] = 1
    driver.ring()
    waiting = context.waiting("a window to collect")
    try:
        while True:
            waiting.until(lambda: work.due or context.control.has_message(), math.inf)
            if context.control.has_message():
                work.answer()
                driver.ring()
            else:
                work.collect(driver)
            context.heart.rest()
    except StopAsked:  # after a failure a close that hangs would keep it from being told of
        work.sampler.close()
        raise


class _Work:
    """What a replica is asked for."""

    def __init__(
        self,
        context: Context,
        part: Part,
        published: Memory,
        desk: Desk,
        number: int,
        columns: slice,
    ) -> None:
        self.context, self.desk, self.number, self.columns = context, desk, number, columns
        self.sampler = part.sampler
        self._window: Any = part.sampler.window  # of its columns, in the driver's rows
        self._newest = Published(part.agent, published)
        self._begun = False  # environments are where the next row is asked for

    @property
    def due(self) -> bool:
        return self._begun and int(self.desk.given[self.number]) != self.desk.asked

    def collect(self, driver: Bell) -> None:
        """Answer and step the window of the newest request, and ring."""
        desk, sampler, i = self.desk, self.sampler, self.number
        fence()
        start, horizon, env_steps = desk.request
        self._window.follow(start, horizon)
        self._newest.take()
        sampler.seconds = {"env": 0.0, "act": 0.0}
        sampler.collect(horizon, env_steps if env_steps >= 0 else None)
        desk.seconds[i, :2] = sampler.seconds["env"], sampler.seconds["act"]
        self.context.heart.rest()  # no call of an environment is waited for any more
        desk.news.write(i, sampler.infos)
        fence()
        desk.given[i] = desk.asked
        driver.ring()

    def answer(self) -> None:
        """Do what a message asks for, and say what came of it."""
        number, what, given = self.context.control.receive(math.inf)
        answer: Any = None
        match what:
            case "reset":
                self.sampler.reset()
            case "restore":
                answer = self._restore(*given)
            case "snapshot":
                answer = self.sampler.envs.snapshot()
        self._begun = True
        self.context.control.send((number, answer), math.inf)

    def _restore(self, state: dict[str, Any], start: int, horizon: int, row: int) -> list[int]:
        """Bring the environments to where a row arrived; returns the columns that were cut.

        Args:
            state: of the environments of these columns.
            start, horizon: of the window.
            row: of it, 0 or -1 for its last.
        """
        self._window.follow(start, horizon)
        cut = self.sampler.envs.restore(state, self._window.slots[row].row)
        return [self.columns.start + b for b in cut]
