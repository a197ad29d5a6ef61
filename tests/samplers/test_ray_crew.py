"""The driver's side of remote replicas, whose actors a test speaks for."""

from typing import Any

import fake_ray
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlpyt[ray]'")

from ray.exceptions import ActorDiedError

from rlpyt.errors import WorkerError
from rlpyt.samplers import ray_crew


@pytest.fixture
def crew(monkeypatch) -> Any:
    """Two replicas that are ready; each call of an environment may take a second."""
    monkeypatch.setattr(ray_crew, "ray", fake_ray.module())
    made = ray_crew.RayCrew("auto", Any, 4, 2, 1.0)
    monkeypatch.setattr(ray_crew.time, "monotonic", lambda: crew_time[0])
    crew_time[0] = 100.0
    made._actors = {i: fake_ray.Actor() for i in range(2)}
    for i in range(2):
        made.ask(i, "collect")
    return made


crew_time = [0.0]


def hear(crew: Any, seconds: float) -> dict[int, Any]:
    crew_time[0] += seconds
    return crew.hear([0, 1], 0.0)


def test_answers_are_given_as_they_come_and_a_dead_actor_is_named(crew):
    assert hear(crew, 0.1) == {}
    crew._actors[1].answer("do", "rows")
    assert hear(crew, 0.1) == {1: "rows"}
    crew._actors[0].answer("do", ActorDiedError())
    error = hear(crew, 0.1)[0]
    assert isinstance(error, WorkerError)
    assert (error.worker, error.columns) == ("remote replica 0", (0, 1))


@pytest.mark.parametrize("says", [(5.0, "environment 3, step"), None], ids=["hangs", "silent"])
def test_an_actor_that_hangs_or_says_nothing_is_ended_by_the_time_out(crew, says):
    crew._actors[0].answer("do", "rows")
    actor = crew._actors[1]
    assert hear(crew, 0.5) == {0: "rows"}
    assert set(hear(crew, 0.6)) == {0}  # asked for its age
    if says:
        actor.answer("age", says)
    found = hear(crew, 0.1 if says else ray_crew.SILENT_SECONDS + 1)
    assert "--env-step-timeout" in str(found[1]) and actor.killed
    assert ("environment 3, step" if says else "it says nothing") in str(found[1])


def test_an_actor_that_is_slow_but_at_work_is_waited_for(crew):
    crew._actors[0].answer("do", "rows")
    for _ in range(5):
        assert set(hear(crew, 1.1)) == {0}
        crew._actors[1].answer("age", (0.2, "environment 3, step"))
    assert not crew._actors[1].killed


def test_at_the_end_an_actor_in_a_call_is_not_waited_for(crew, monkeypatch):
    monkeypatch.setattr(ray_crew.ray, "is_initialized", lambda: True)
    idle, busy = crew._actors[0], crew._actors[1]
    idle.answer("do", "rows")
    crew.close()
    assert [given[0] for given, _ in idle.do.calls] == ["collect", "close"]
    assert [given[0] for given, _ in busy.do.calls] == ["collect"]
    assert idle.killed and busy.killed
