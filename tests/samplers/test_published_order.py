"""Every order in which weights may be published and taken: none tears a version."""

from collections.abc import Callable
from typing import Any

import pytest
from interleavings import Stores, verdicts

FLAWS = (
    "one buffer",
    "two buffers alone",
    "begun is stored after the buffer",
    "begun is loaded before the copy",
    "version is stored before the buffer",
)
WORDS = 2
VERDICTS = {"whole", "torn", "again", "none"}


def stores_of(flaw: str, versions: int, killed: int | None) -> Stores:
    """A writer's stores, as place and value; another goes on after one killed at a store."""

    def one(v: int) -> Stores:
        half = 0 if flaw == "one buffer" else v % 2
        words: Stores = [((half, i), v) for i in range(WORDS)]
        begun: Stores = [("begun", v)]
        version: Stores = [("version", v)]
        if flaw == "begun is stored after the buffer":
            return words + begun + version
        if flaw == "version is stored before the buffer":
            return begun + version + words
        return begun + words + version

    stores = [store for v in range(1, versions + 1) for store in one(v)]
    if killed is None:
        return stores
    stores = stores[:killed]
    v = max([value for place, value in stores if place == "version"], default=0)
    return stores + [store for w in range(v + 1, versions + 1) for store in one(w)]


def reader(flaw: str) -> Callable[[tuple[int, ...]], Any]:
    def read(loaded: tuple[int, ...]) -> Any:
        if not loaded:
            return "version"
        v, *rest = loaded
        if not v:
            return "none"
        half = 0 if flaw == "one buffer" else v % 2
        words: list[Any] = [(half, i) for i in range(WORDS)]
        early = flaw == "begun is loaded before the copy"
        loads = ["begun", *words] if early else [*words, "begun"]
        if len(rest) < len(loads):
            return loads[len(rest)]
        begun = rest.pop(0 if early else -1)
        if flaw != "two buffers alone" and begun >= v + 2:
            return "again"
        return "whole" if set(rest) == {v} else "torn"

    return read


def explored(flaw: str = "") -> set[str]:
    found: set[str] = set()
    for versions in (3, 5):
        count = len(stores_of(flaw, versions, None))
        for killed in (None, *range(count)):
            stores = stores_of(flaw, versions, killed)
            found |= verdicts(stores, reader(flaw), VERDICTS, lambda place: 0)
    return found


def test_no_interleaving_of_writers_and_reader_tears_a_version():
    assert explored() == {"whole", "again", "none"}


@pytest.mark.parametrize("flaw", FLAWS)
def test_some_interleaving_of_a_flawed_protocol_does(flaw):
    assert "torn" in explored(flaw)
