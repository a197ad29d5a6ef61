"""What a worker does: it steps its columns of each group in turn, as rows are asked for.

Rows are written where their numbers say, in the storage that the learner reads. Nothing here
needs torch.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from rlpyt.block import fence
from rlpyt.errors import StopAsked
from rlpyt.places import Places
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.rows import Row
from rlpyt.storage import Memory
from rlpyt.vector.handover import Handover
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.lost import lost
from rlpyt.vector.making import Making

_REMEMBERED = 4096  # slots whose rows are made once: indexing a row takes 2 µs


@dataclass(frozen=True)
class Post:
    """What one worker is to do.

    Args:
        number: of the worker.
        columns: numbers of its columns, of each group.
        making: makes the environments.
        places, rows: where rows lie.
        handover: where they are asked for.
        driver: rung when something was given.
    """

    number: int
    columns: tuple[range, ...]
    making: Making
    places: Places
    rows: Memory
    handover: Handover
    driver: Bell


def work(context: Context, post: Post, replaces: bool) -> None:
    """The whole life of a worker.

    Args:
        context: of this process.
        post: what it is to do.
        replaces: a worker whose environments were lost: their episodes are cut.
    """
    handover, i = post.handover, post.number
    worker = _Worker(context, post, replaces)
    handover.ready[i] = 1
    post.driver.ring()
    waiting = context.waiting("rows to be asked for")
    try:
        while True:
            waiting.until(worker.due, math.inf)
            if worker.called:
                worker.answer()
            else:
                worker.step()
            post.driver.ring()
    except StopAsked:  # after a failure a close that hangs would keep it from being told of
        worker.close()
        raise


class _Worker:
    def __init__(self, context: Context, post: Post, replaces: bool) -> None:
        self.context, self.post, self.handover = context, post, post.handover
        self.groups = range(len(post.columns))
        handover, storage = post.handover, post.places.rows(post.rows)
        self._given = handover.given[post.number]
        self._answered = handover.called[post.number]  # messages; earlier ones went to another
        self._turn = 0  # the group whose turn is next
        self._lost = [replaces for _ in self.groups]
        self._rows = [_Rows(post, storage, columns) for columns in post.columns]
        self._envs: list[InProcess] = []
        self._seed_generators(0)
        for columns in post.columns:
            resets = handover.resets[columns.start : columns.stop]
            self._envs.append(post.making(columns, context.heart, resets))
        context.heart.rest()

    def due(self) -> bool:
        """Whether there is something to do; `asked` is read first, as it is stored last."""
        asked, given = self.handover.asked, self._given
        for g in self.groups:
            if asked[g] > given[g]:
                return True
        return self.called

    @property
    def called(self) -> bool:
        return self.handover.called[self.post.number] != self._answered

    def step(self) -> None:
        """Make the next row of a group that is asked for one; they take turns."""
        asked, given = self.handover.asked, self._given
        for g in (*self.groups[self._turn :], *self.groups[: self._turn]):
            if asked[g] > given[g]:
                fence()
                begun = perf_counter()
                self._make(g, given[g])
                self.context.heart.rest()
                self.handover.busy[self.post.number] += perf_counter() - begun
                fence()
                given[g] += 1
                self._turn = g + 1
                return

    def _make(self, g: int, n: int) -> None:
        """Row n of a group, from the answer to the row before; lost episodes end there."""
        envs, rows = self._envs[g], self._rows[g]
        if n == 0:
            envs.begin(rows.arrives(0))
        else:
            row, next_row = rows.answered(n - 1), rows.arrives(n)
            if self._lost[g]:
                envs.cut(row)
            envs.send(row, next_row)
            ended = envs.recv(next_row)
            if ended:
                self.handover.tell(self.post.number, n, g, ended)
        self._lost[g] = False

    def answer(self) -> None:
        """Do what a message asks for."""
        what, given = self.context.control.receive(math.inf)
        self._answered += 1
        answer: Any = None
        match what:
            case "reset":
                self.handover.resets[[b for own in self.post.columns for b in own]] = 0
                self._seed_generators(1)
                for g in self.groups:
                    self._envs[g].reset(self._rows[g].arrives(0))
                    self._given[g] = 1
            case "restore":
                states, n = given
                answer = [self._restore(g, states[g], n) for g in self.groups]
                self._seed_generators(1)
            case "snapshot":
                answer = [self._snapshot(g) for g in self.groups]
        self._lost = [lost and what == "snapshot" for lost in self._lost]
        self.context.heart.rest()
        self.context.control.send(answer, math.inf)

    def _restore(self, g: int, state: dict[str, Any], n: int) -> list[int]:
        """Bring a group to where row n arrived; returns the columns that were cut."""
        cut = self._envs[g].restore(state, self._rows[g].arrives(n))
        self._given[g] = n + 1
        return [self.post.columns[g][b] for b in cut]

    def _snapshot(self, g: int) -> dict[str, Any]:
        envs = self._envs[g]
        return lost(envs.resets) if self._lost[g] else envs.snapshot()

    def _seed_generators(self, calls: int) -> None:
        """Begin Python's and NumPy's anew: workers are forked, and would all draw the same.

        So would they from PyTorch's, if environments have imported it: it begins with one number.
        Not as they began, where episodes have been: what was drawn in those would come again.
        """
        first = self.post.columns[0].start
        resets = int(self.handover.resets[first])
        seed = self.post.making.seeds.global_generators(first, resets, calls)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  # environments draw from this one
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.default_generator.manual_seed(seed >> 1)

    def close(self) -> None:
        for envs in self._envs:
            envs.close()


class _Rows:
    """The rows of some columns by number, where they lie."""

    def __init__(self, post: Post, storage: Row, columns: range) -> None:
        self._places = post.places
        self._storage = storage[:, columns.start : columns.stop]
        self._few = len(self._storage.reward) <= _REMEMBERED
        self._made: dict[int, Row] = {}

    def arrives(self, n: int) -> Row:
        return self._at(self._places.arrives(n))

    def answered(self, n: int) -> Row:
        return self._at(self._places.answered(n))

    def _at(self, slot: int) -> Row:
        made = self._made
        if slot not in made:
            if not self._few and len(made) > 1:
                del made[next(iter(made))]  # the older of the two newest, which take turns
            made[slot] = self._storage[slot]
        return made[slot]
