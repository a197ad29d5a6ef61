"""What a reader can come to while a writer stores, over every interleaving of the two."""

from collections.abc import Callable, Set
from typing import Any

Stores = list[tuple[Any, Any]]
"""A writer's stores in order, as place and value."""


def verdicts(
    stores: Stores,
    read: Callable[[tuple[Any, ...]], Any],
    ends: Set[str],
    begin: Callable[[Any], Any],
) -> set[str]:
    """What a reader can come to, over every interleaving of its loads with the writer's stores.

    A load sees the value that its place has, or any that is stored later; of the moments at which
    it sees the same value, the first leaves the most open and stands for all.

    Args:
        read: from what was loaded so far to the place to load from next, or to a verdict.
        ends: the verdicts.
        begin: from a place to the value that it has before the first store.
    """
    history: dict[Any, list[tuple[int, Any]]] = {}
    for moment, (place, value) in enumerate(stores, 1):
        history.setdefault(place, [(0, begin(place))]).append((moment, value))
    found: set[str] = set()
    seen: set[Any] = set()
    todo: list[tuple[int, tuple[Any, ...]]] = [(0, ())]
    while todo:
        state = now, loaded = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        place = read(loaded)
        if place in ends:
            found.add(place)
            continue
        changes = history.get(place, [(0, begin(place))])
        present = max(i for i, (moment, _) in enumerate(changes) if moment <= now)
        for moment, value in changes[present:]:
            todo.append((max(now, moment), (*loaded, value)))
    return found
