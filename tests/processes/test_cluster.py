"""Clusters that are not there."""

import time

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlpyt[ray]'")

from rlpyt.cli import main
from rlpyt.errors import UsageError
from rlpyt.processes.cluster import connect, reach


def test_a_cluster_that_does_not_answer_is_refused_in_seconds():
    begun = time.monotonic()
    with pytest.raises(UsageError, match=r"127.0.0.1:1: no Ray cluster answers .*ray start --head"):
        connect("127.0.0.1:1")  # Ray itself would go on trying
    assert time.monotonic() - begun < 20


def test_the_address_of_a_client_is_refused():
    with pytest.raises(UsageError, match="give this command on a node of the cluster"):
        reach("ray://localhost:10001")


@pytest.mark.parametrize("more", [[], ["--asynchronous"]], ids=["plain", "asynchronous"])
def test_a_run_without_its_cluster_is_refused_before_it_begins(more, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    words = ["train", "dqn", "--env", "CartPole-v1", "--sampler", "ray", "--workers", "2"]
    assert main([*words, *more]) == 2
    assert "no Ray cluster answers" in capsys.readouterr().err
    assert not list(tmp_path.glob("runs/*"))


def test_how_many_actors_is_asked_for(capsys):
    assert main(["train", "dqn", "--env", "CartPole-v1", "--sampler", "ray"]) == 2
    assert "Give --workers" in capsys.readouterr().err
