"""Whose turn it is: the protocol between a learner and a sampler that work at the same time.

Four words in shared memory, each stored to by one side only while both live, and each store is
one number:

    asked       learner    odd: rest at the next window's boundary; even: go on
    permitted   learner    windows that may be begun: `lag` more than it has taken
    heard       sampler    the last `asked` that it obeys
    done        sampler    windows that it has published

The sampler begins window w only where w < permitted. So it never is more than `lag` windows ahead,
rows that the learner may still read are never written over, and the versions of weights that meet
are at most lag + 1 apart. While it rests, and has said so, nobody writes rows: then snapshots are
taken, and rows restored. A new process in place of one that died finds in the words where to go on.

Each step of either side is written as a generator of its loads and stores, in order: `Turns` runs
it on the shared words, and a test runs the same steps under every interleaving.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal, Protocol, TypeVar, final

import numpy as np

from rlpyt.block import fence

ASKED: Final = 0
PERMITTED: Final = 1
HEARD: Final = 2
DONE: Final = 3

Word = int
Step = Generator["Word | tuple[Word, int]", int, Any]  # yields a word to load, or (word, value)
Turn = Literal["window", "rest", "wait"]
T = TypeVar("T")


class Shares(Protocol):
    """Memory of which another process gets the same parts, in the same order."""

    def zeros(self, example: Any, leading: tuple[int, ...] = ()) -> Any: ...


# The sampler's steps.


def next_turn() -> Step:
    """What the sampler does next: a window, rest until it is asked to go on, or wait."""
    asked = yield ASKED
    if asked != (yield HEARD):
        yield HEARD, asked
    if asked % 2:
        return "rest"
    permitted = yield PERMITTED
    return "window" if (yield DONE) < permitted else "wait"


def publish() -> Step:
    """A window's rows, and what is recorded of it, are there."""
    yield DONE, (yield DONE) + 1


# The learner's steps.


def look() -> Step:
    """How many windows are there."""
    return (yield DONE)


def permit(taken: int, lag: int) -> Step:
    """So many windows are taken, of which the learner may still read the last."""
    yield PERMITTED, taken + lag


def ask_to_rest() -> Step:
    """Have the sampler rest."""
    asked = yield ASKED
    if asked % 2 == 0:
        yield ASKED, asked + 1


def ask_to_go_on() -> Step:
    """End its rest."""
    asked = yield ASKED
    if asked % 2:
        yield ASKED, asked + 1


def rests() -> Step:
    """Whether it was asked to rest and does."""
    asked = yield ASKED
    return bool(asked % 2) and (yield HEARD) == asked


def begin_anew(taken: int) -> Step:
    """Let another process take the place of a sampler that is no more; it begins with a rest.

    What the dead one heard is no answer of the new one's, and what it published last, up to its
    very end, is given up where it was not taken: the new one goes on behind what was.
    """
    yield DONE, taken
    asked = yield ASKED
    yield ASKED, asked + 1 + asked % 2


@final
class Turns:
    """The words, and the steps run on them.

    Args:
        memory: shared with the other side.
        lag: windows that the sampler may be ahead of the learner, at least 1.
    """

    def __init__(self, memory: Shares, lag: int) -> None:
        line = np.zeros(8, np.int64)  # a cache line, of which a word is the first 8 bytes
        self._words: np.ndarray = memory.zeros(line, (4,))[..., 0]
        self.lag = lag

    def next_turn(self) -> Turn:
        return self._run(next_turn())

    def publish(self) -> None:
        self._run(publish())

    def look(self) -> int:
        return self._run(look())

    def permit(self, taken: int) -> None:
        self._run(permit(taken, self.lag))

    def ask_to_rest(self) -> None:
        self._run(ask_to_rest())

    def ask_to_go_on(self) -> None:
        self._run(ask_to_go_on())

    @property
    def rests(self) -> bool:
        return self._run(rests())

    def begin_anew(self, taken: int) -> None:
        self._run(begin_anew(taken))

    def _run(self, step: Step) -> Any:
        """Load and store as a step says, in this order for other processes too."""
        words, loaded = self._words, None
        try:
            while True:
                wanted = step.send(loaded)  # type: ignore[arg-type]  # None begins a generator
                fence()
                if isinstance(wanted, tuple):
                    word, value = wanted
                    words[word], loaded = value, 0
                else:
                    loaded = int(words[wanted])
                fence()
        except StopIteration as end:
            return end.value
