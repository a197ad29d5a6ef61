"""The queue's side of a Ray cluster, whose actors a test speaks for."""

import signal
import time
from types import SimpleNamespace

import fake_ray
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlpyt[ray]'")

from ray.exceptions import ActorDiedError

from rlpyt.launch import ray
from rlpyt.launch.slots import Slot

SLOT = Slot(0, (0,))


class Cluster:
    """Gives actors, unless their name is taken."""

    def __init__(self, folder):
        self.folder, self.options = folder, SimpleNamespace(gpus_per_run=None)
        self.actors, self.taken, self.has_room = {}, set(), 2

    def room(self):
        return self.has_room

    def slots(self, count):
        return [SLOT] * count

    def actor(self, name, namespace):
        if name in self.taken:
            raise ValueError(f"{name} is already taken")
        actor = self.actors[name.rpartition("/")[2]] = fake_ray.Actor()
        return actor


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "ray", fake_ray.module())
    return Cluster(tmp_path)


@pytest.fixture
def runs(cluster, tmp_path):
    made = ray.RayRuns(cluster, connected=False)
    made.start("a", ["train"], SLOT, tmp_path / "a.log")
    assert made.hear(0.0) == []
    return made


def begin(runs, cluster):
    cluster.actors["a"].answer("start", {"pid": 1, "node": "n"})
    assert runs.hear(0.0) == [{"started": "a", "pid": None, "node": "n"}]
    return cluster.actors["a"]


def test_a_run_begins_and_ends_with_its_code_and_gives_its_place_back(runs, cluster):
    actor = begin(runs, cluster)
    runs.signal("a", signal.SIGINT)
    assert actor.signal.calls[0][0] == ("a", signal.SIGINT)
    actor.answer("wait", 130)
    assert runs.hear(0.0) == [{"ended": "a", "code": 130}]
    assert actor.killed and runs.hear(0.0) == []


def test_a_run_whose_actor_dies_is_lost_and_one_that_had_not_begun_fails(runs, cluster, tmp_path):
    begin(runs, cluster).answer("wait", ActorDiedError())
    assert runs.hear(0.0) == [{"ended": "a", "code": None}]
    runs.start("b", ["train"], SLOT, tmp_path / "b.log")
    runs.hear(0.0)
    cluster.actors["b"].answer("start", {"refused": "node n: no such disk"})
    assert runs.hear(0.0) == [{"ended": "b", "code": 1}]
    assert (tmp_path / "b.log").read_text() == "node n: no such disk\n"
    runs.start("c", ["train"], SLOT, tmp_path / "c.log")
    runs.hear(0.0)
    cluster.actors["c"].answer("start", ActorDiedError())
    assert runs.hear(0.0) == [{"ended": "c", "code": 1}]
    assert "died" in (tmp_path / "c.log").read_text()


def test_a_run_that_waits_for_room_ends_at_the_first_signal(runs, cluster):
    runs.signal("a", signal.SIGINT)
    assert runs.hear(0.0) == [{"ended": "a", "code": None}]
    assert cluster.actors["a"].killed


def test_a_killed_run_of_which_nothing_is_heard_is_given_up(runs, cluster, monkeypatch):
    begin(runs, cluster)
    runs.signal("a", signal.SIGKILL)
    assert runs.hear(0.0) == []
    monkeypatch.setattr(ray, "KILLED_SECONDS", 0.0)
    assert runs.hear(0.0) == [{"ended": "a", "code": None}]


def test_a_run_that_another_queue_has_is_waited_for_and_not_doubled(cluster, tmp_path, monkeypatch):
    runs = ray.RayRuns(cluster, connected=False)
    cluster.taken.add(f"{tmp_path}/a")
    runs.start("a", ["train"], SLOT, tmp_path / "a.log")
    assert runs.hear(0.0) == [] and not cluster.actors
    cluster.taken.clear()
    assert runs.hear(0.0) == [] and "a" in cluster.actors
    monkeypatch.setattr(ray, "FREE_SECONDS", -1.0)
    cluster.taken.add(f"{tmp_path}/b")
    runs.start("b", ["train"], SLOT, tmp_path / "b.log")
    assert runs.hear(0.0) == [{"ended": "b", "code": 1}]
    assert "another queue has it" in (tmp_path / "b.log").read_text()


def test_slots_come_and_go_with_nodes(runs, cluster, monkeypatch):
    slots = runs.slots
    assert len(slots) == 2
    for room in (1, 4):
        cluster.has_room = room
        runs._counted = time.monotonic() - 2 * ray.COUNT_SECONDS
        runs.hear(0.0)
        assert len(slots) == room  # the same list, which the queue has
