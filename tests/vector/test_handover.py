"""Counters and notes between a driver and workers."""

from typing import Any

import pytest

from rlpyt.storage import Memory
from rlpyt.vector import handover
from rlpyt.vector.handover import NOTES, Handover


@pytest.fixture
def desk() -> Any:
    memory = Memory()
    yield Handover(memory, 2, 1, 4)
    memory.close()


def test_notes_arrive_once_in_order_and_go_round(desk):
    heard: list[Any] = []
    for n in range(5000):
        desk.tell(1, n, 0, [(n % 2, {"a": float(n)})])
        if n % 7 == 0:
            heard += desk.hear(1)
    heard += desk.hear(1)
    assert heard == [[n, 0, [[n % 2, {"a": float(n)}]]] for n in range(5000)]
    assert desk.told[1] > 2 * NOTES and not desk.hear(0)


def test_notes_that_nobody_hears_are_bounded(desk):
    for n in range(5000):
        desk.tell(0, n, 0, [(0, {"a": 1.0})])
    heard = desk.hear(0)
    assert [n for n, _, _ in heard] == list(range(len(heard))) and len(heard) > 1000


def test_counters_of_notes_are_stored_behind_what_they_count(desk, monkeypatch):
    """Of processors that keep no order, fences do: this finds where they stand."""
    stood: list[Any] = []

    def fence() -> None:
        stood.append((desk.told[0], desk.heard[0], bool(desk._notes[0].any())))

    monkeypatch.setattr(handover, "fence", fence)
    desk.tell(0, 3, 0, [(1, {})])
    assert stood == [(0, 0, False), (0, 0, True)]
    end = desk.told[0]
    stood.clear()
    desk.hear(0)
    assert stood == [(end, 0, True)] * 2 and desk.heard[0] == end
