"""The queue's side of a Ray cluster, whose actors a test speaks for."""

import signal
import time
from types import SimpleNamespace

import fake_ray
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlpyt[ray]'")

from ray.exceptions import ActorDiedError

from rlpyt.launch import ray
from rlpyt.launch.jobs import Job
from rlpyt.launch.options import QueueOptions
from rlpyt.launch.slots import Slot

SLOT = Slot(0, (0,))


class Cluster:
    """Gives actors, unless their name is taken."""

    def __init__(self, folder):
        self.folder, self.options = folder, SimpleNamespace(gpus_per_run=None)
        self.actors, self.taken, self.has_room, self.tries = {}, set(), 2, 0

    def room(self):
        return self.has_room

    def slots(self, count):
        return [SLOT] * count

    def actor(self, name):
        self.tries += 1
        if name in self.taken:
            return None
        if name == "impossible":
            raise ValueError("num_gpus must be whole")
        actor = self.actors[name] = fake_ray.Actor()
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


def test_a_run_whose_actor_dies_before_it_began_is_lost_and_fails_where_that_goes_on(
    runs, cluster, tmp_path
):
    def lose(name, error):
        runs.start(name, ["train"], SLOT, tmp_path / f"{name}.log")
        runs.hear(0.0)
        cluster.actors[name].answer("start", error)
        return runs.hear(0.0)

    for _ in range(ray.LOST - 1):
        assert lose("c", ActorDiedError()) == [{"ended": "c", "code": None}]
    assert lose("c", ActorDiedError()) == [{"ended": "c", "code": 1}]
    assert "died" in (tmp_path / "c.log").read_text()
    assert lose("c", ActorDiedError()) == [{"ended": "c", "code": None}]  # counted anew
    never = ActorDiedError()
    never._actor_init_failed = True
    assert lose("d", never) == [{"ended": "d", "code": 1}]  # it would be so each time


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
    cluster.taken.add("a")
    runs.start("a", ["train"], SLOT, tmp_path / "a.log")
    assert runs.hear(0.0) == [] and not cluster.actors
    cluster.taken.clear()
    assert runs.hear(0.0) == [] and "a" in cluster.actors
    monkeypatch.setattr(ray, "FREE_SECONDS", -1.0)
    cluster.taken.add("b")
    runs.start("b", ["train"], SLOT, tmp_path / "b.log")
    assert runs.hear(0.0) == [{"ended": "b", "code": 1}]
    assert "another queue has it" in (tmp_path / "b.log").read_text()


def test_an_actor_that_ray_cannot_make_is_no_name_that_is_taken(cluster, tmp_path):
    runs = ray.RayRuns(cluster, connected=False)
    runs.start("impossible", ["train"], SLOT, tmp_path / "log")
    assert runs.hear(0.0) == [{"ended": "impossible", "code": 1}]
    assert cluster.tries == 1 and "num_gpus must be whole" in (tmp_path / "log").read_text()


def test_a_name_is_taken_where_an_actor_has_it_and_the_class_is_exported_once(
    tmp_path, monkeypatch
):
    exported, made, there = [], [], set()

    class Kind:
        def options(self, **given):
            made.append(given)
            return self

        def remote(self, *given):
            if made[-1]["name"].endswith("bad"):
                raise ValueError("no such resource")
            return "actor"

    fake = SimpleNamespace(remote=lambda kind: exported.append(kind) or Kind())
    monkeypatch.setattr(ray, "ray", fake)
    monkeypatch.setattr(ray, "is_there", lambda name: name in there)
    place = ray.RayCluster(QueueOptions(), "auto", tmp_path, tmp_path)
    assert place.actor("a") == place.actor("b") == "actor"
    there.add(f"{tmp_path / 'c'}")
    assert place.actor("c") is None
    with pytest.raises(ValueError, match="no such resource"):
        place.actor("bad")
    assert len(exported) == 1 and len(made) == 3


class Looking:
    """The queue's side of a cluster whose nodes find runs to be of a device."""

    def __init__(self, cluster, device):
        self.slots, self.device, self.closed = cluster.slots(cluster.room()), device, False

    def look(self, commands):
        return [{"device": self.device} for _ in commands]

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("nodes", "device", "asked", "text"),
    [
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}], "cuda", None, "2 slots of 1 CPU and 1 GPU on 2"),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}], "cpu", None, "16 slots of 1 CPU on 2"),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}], "cuda", 0, "16 slots of 1 CPU on 2"),
        ([{"CPU": 8.0}], "cpu", None, "8 slots of 1 CPU on 1"),
    ],
)
def test_runs_that_take_a_gpu_are_given_one_unless_it_is_said_otherwise(
    nodes, device, asked, text, tmp_path, monkeypatch
):
    """As on one machine."""
    monkeypatch.setattr(ray, "alive_nodes", lambda: nodes)
    place = ray.RayCluster(QueueOptions(gpus_per_run=asked), "auto", tmp_path, tmp_path)
    assert place.glances == (asked is None and len(nodes) == 2)
    monkeypatch.setattr(place, "again", lambda: Looking(place, device))
    opened = place.open([Job("a", ("ppo",), 100, "ppo")])
    assert opened.text == text + " Ray node" + ("s" if len(nodes) > 1 else "")
    assert len(opened.slots) == int(text.split()[0])


def test_slots_come_and_go_with_nodes(runs, cluster, monkeypatch):
    slots = runs.slots
    assert len(slots) == 2
    for room in (1, 4):
        cluster.has_room = room
        runs._counted = time.monotonic() - 2 * ray.COUNT_SECONDS
        runs.hear(0.0)
        assert len(slots) == room  # the same list, which the queue has
