"""A learner and a sampler that work at the same time: every interleaving, and a death anywhere."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlpyt.samplers import turns as module
from rlpyt.samplers.turns import DONE, Step, Turns


class Own:
    """Memory of one process."""

    def zeros(self, example: Any, leading: tuple[int, ...] = ()) -> Any:
        return np.zeros((*leading, *np.shape(example)), np.asarray(example).dtype)


def test_a_sampler_begins_so_many_windows_as_it_is_permitted_and_rests_when_asked():
    turns = Turns(Own(), lag=2)
    turns.begin_anew(0)
    assert not turns.rests
    assert turns.next_turn() == "rest"
    assert turns.rests
    turns.permit(0)
    turns.ask_to_go_on()
    for _ in range(2):
        assert turns.next_turn() == "window"
        turns.publish()
    assert turns.next_turn() == "wait"
    assert turns.look() == 2
    turns.permit(1)
    assert turns.next_turn() == "window"
    turns.ask_to_rest()
    assert not turns.rests  # it is within a window
    turns.publish()
    assert turns.next_turn() == "rest"
    assert turns.rests
    turns.ask_to_rest()  # again: nothing changes
    assert turns.rests
    turns.ask_to_go_on()
    assert not turns.rests
    assert turns.next_turn() == "wait"


def test_a_rest_that_a_dead_sampler_took_is_not_its_successors():
    turns = Turns(Own(), lag=1)
    turns.begin_anew(0)
    turns.next_turn()
    assert turns.rests
    turns.begin_anew(0)
    assert not turns.rests
    assert turns.next_turn() == "rest"
    assert turns.rests


def test_a_window_that_was_published_last_and_not_taken_is_given_up():
    turns = Turns(Own(), lag=2)
    turns.publish()
    turns.publish()
    turns.begin_anew(1)
    assert turns.look() == 1


# The steps under every interleaving of their loads and stores.

WINDOWS, LAG = 4, 2  # of a run; how far the sampler may be ahead
FLAWS = {  # and what becomes of them
    "one window more is permitted": "may still be read",
    "the learner does not wait for the rest that it asked for": "at work, or not there yet",
    "a rest that the dead one took counts": "at work, or not there yet",
    "a window is published before it is written": "still written",
    "nobody asks the sampler to go on": "no way on",
    "what was published before the end stays": "nobody wrote again",
}
EARLY = "a window is published before it is written"
STAYS = "what was published before the end stays"


class State(NamedTuple):
    """Everything: the shared words, and what each side is at."""

    words: tuple[int, int, int, int] = (0, 0, 0, 0)
    version: int = 0  # that was published
    sampler: str = "new"  # new, turn, write, publish, rest, wait, over, dead
    sampled: tuple[int, ...] = ()  # loads of the step that it is in
    acting: int = 0  # the version of the window that it writes
    versions: tuple[int, ...] = ()  # of the windows that are there
    learner: str = "start"
    learned: tuple[int, ...] = ()
    taken: int = 0
    resting: int = 0  # 0: not yet, 1: asked for, 2: over
    deaths: int = 0
    troubled: bool = False  # a process died that the sampler, still at work, needs


class Wrong(AssertionError):
    """A state that must not be."""


def advance(step: Step, loaded: tuple[int, ...], words: tuple[int, ...]) -> tuple[Any, ...]:
    """One load or store of a step; returns loads, words, whether it is over, and its result."""
    try:
        wanted = next(step)
        for value in loaded:
            wanted = step.send(value)
        if isinstance(wanted, tuple):
            changed = list(words)
            changed[wanted[0]] = wanted[1]
            words, value = tuple(changed), 0
        else:
            value = words[wanted]
        step.send(value)
    except StopIteration as end:
        return (), words, True, end.value
    return (*loaded, value), words, False, None


def sampler_moves(s: State, flaw: str) -> Iterator[State]:
    match s.sampler:
        case "new" | "turn" | "wait" | "rest":
            loaded, words, over, turn = advance(module.next_turn(), s.sampled, s.words)
            if not over:
                yield s._replace(words=words, sampler="turn", sampled=loaded)
                return
            s = s._replace(words=words, sampled=(), sampler=turn)
            if turn == "window" and words[DONE] == WINDOWS:  # the run's length is reached
                s = s._replace(sampler="wait")
            elif turn == "window":
                at = "publish" if flaw == EARLY else "write"
                s = s._replace(sampler=at, acting=s.version)
            yield s
        case "write" if flaw == EARLY:
            yield s._replace(sampler="turn")
        case "write":
            yield s._replace(sampler="publish")
        case "publish":
            loaded, words, over, _ = advance(module.publish(), s.sampled, s.words)
            s = s._replace(words=words, sampled=loaded)
            if over:
                then = "write" if flaw == EARLY else "turn"
                s = s._replace(sampler=then, versions=(*s.versions, s.acting))
            yield s
    if not s.deaths and s.sampler not in ("dead", "over"):
        yield s._replace(sampler="dead", sampled=(), deaths=1)
        yield s._replace(deaths=1, troubled=True)


def run(s: State, step: Step, then: Callable[[State, Any], State]) -> State:
    """The learner's next load or store."""
    loaded, words, over, result = advance(step, s.learned, s.words)
    s = s._replace(words=words, learned=loaded)
    return then(s, result) if over else s


def learner_moves(s: State, flaw: str, windows: bool) -> Iterator[State]:
    """Args: windows: each is taken by itself (on-policy), not all that are there."""
    lag = LAG + (flaw == "one window more is permitted")

    def to(name: str) -> Callable[[State, Any], State]:
        return lambda s, _: s._replace(learner=name)

    match s.learner:
        case "start" | "anew":
            if s.learner == "anew" and flaw == "a rest that the dead one took counts":
                yield s._replace(learner="await", sampler="new")
                return
            done = s.words[DONE] if flaw == STAYS else s.taken
            step = module.begin_anew(done)
            loaded, words, over, _ = advance(step, s.learned, s.words)
            s = s._replace(words=words, learned=loaded)
            if over:
                versions = s.versions[: s.taken]
                s = s._replace(learner="await", sampler="new", versions=versions)
            yield s
        case "idle":
            yield s._replace(learner="look")
            if not s.resting:
                yield s._replace(learner="ask", resting=1)
        case "look":

            def seen(s: State, done: int) -> State:
                if done == s.taken:
                    return s  # and look again
                if s.taken >= WINDOWS:
                    raise Wrong("more windows than the run has")
                if done > len(s.versions):
                    raise Wrong("a window is taken that nobody wrote again")
                return s._replace(taken=s.taken + 1 if windows else done, learner="permit")

            yield run(s, module.look(), seen)
        case "permit":
            yield run(s, module.permit(s.taken, lag), to("learn"))
        case "learn":
            yield s._replace(
                learner="over" if s.taken == WINDOWS else "idle", version=s.version + 1
            )
        case "ask":
            blind = flaw == "the learner does not wait for the rest that it asked for"
            yield run(s, module.ask_to_rest(), to("snapshot" if blind else "await"))
        case "await":

            def rested(s: State, rests: bool) -> State:
                if not rests:
                    return s
                return s._replace(learner="snapshot" if s.resting == 1 else "restore")

            yield run(s, module.rests(), rested)
        case "snapshot":
            yield s._replace(learner="go on", resting=2)
        case "restore":
            yield s._replace(learner="permit anew")
        case "permit anew":
            yield run(s, module.permit(s.taken, lag), to("go on"))
        case "go on" if flaw == "nobody asks the sampler to go on":
            yield s._replace(learner="idle")
        case "go on":
            yield run(s, module.ask_to_go_on(), to("idle"))
    if s.sampler == "dead" or s.troubled:
        if s.learner in ("idle", "look", "await", "snapshot", "go on"):
            # From when it notices to when all are ended the sampler may go on.
            yield s._replace(learner="end", learned=())
        elif s.learner == "end":
            yield s._replace(learner="anew", sampler="dead", sampled=(), troubled=False)


def check(s: State, flaw: str, windows: bool) -> None:
    writing = s.sampler in ("write", "publish")
    w = len(s.versions) - (flaw == EARLY and s.sampler == "write")  # the window that is written
    if s.sampler == "write" and s.words[DONE] > w:
        raise Wrong("a window is there that is still written")
    if s.learner in ("snapshot", "restore") and (writing or s.sampler == "new"):
        raise Wrong("it is at work, or not there yet, when the learner believes that it rests")
    if writing and s.taken:
        held = s.taken - 1
        if windows and s.learner == "learn" and w % (LAG + 1) == held % (LAG + 1):
            raise Wrong("the window that is learned from is written over")
        if w >= s.taken + LAG:
            raise Wrong("rows that may still be read are written over")
    if s.learner == "learn":
        oldest = s.versions[s.taken - 1] if windows else min(s.versions[-LAG:])
        if s.version - oldest > LAG + 1:
            raise Wrong("a window of weights too old")


def explore(flaw: str, windows: bool) -> int:
    """Visit every state; returns how many there are.

    Raises:
        Wrong: one must not be, or from one the run's end cannot be reached any more.
    """
    begin = State()
    before: dict[State, list[State]] = {begin: []}
    todo = [begin]
    while todo:
        s = todo.pop()
        check(s, flaw, windows)
        moves = [*sampler_moves(s, flaw), *learner_moves(s, flaw, windows)]
        for t in moves:
            if t == s:
                continue
            if t not in before:
                before[t] = []
                todo.append(t)
            before[t].append(s)
    reached = {s for s in before if s.learner == "over"}
    todo = list(reached)
    while todo:
        for s in before[todo.pop()]:
            if s not in reached:
                reached.add(s)
                todo.append(s)
    stuck = before.keys() - reached
    if stuck:
        raise Wrong(f"no way on from {next(iter(stuck))}")
    return len(before)


@pytest.mark.parametrize("windows", [False, True])
def test_no_interleaving_overwrites_overtakes_or_ends_in_a_deadlock(windows):
    assert explore("", windows) > 1000


@pytest.mark.parametrize("flaw", FLAWS)
def test_some_interleaving_of_a_flawed_protocol_does(flaw):
    with pytest.raises(Wrong, match=FLAWS[flaw]):
        explore(flaw, True)
