"""A run that stops goes on as if it had not: parameters and metrics equal by hash."""

import dataclasses

import pytest
from small_runs import RUNS, fingerprint, make, stopped_at

from rlpyt.training import resume, train


@pytest.mark.parametrize("kind", RUNS)
def test_a_resumed_run_equals_one_that_never_stopped(kind, tmp_path):
    whole = train(make(kind, tmp_path / "whole"), mode="quiet")
    part = train(make(kind, tmp_path / "part"), hooks=stopped_at(5), mode="quiet")
    assert part.status == "interrupted"
    for _ in range(2):  # stopped once more on the way
        part = resume(part.folder, hooks=stopped_at(3), mode="quiet")
    part = resume(part.folder, mode="quiet")
    assert (whole.status, part.status) == ("finished", "finished")
    assert fingerprint(whole.folder) == fingerprint(part.folder)


def test_another_seed_has_another_fingerprint(tmp_path):
    run = make("ppo", tmp_path)
    other = dataclasses.replace(run, loop=dataclasses.replace(run.loop, seed=4))
    prints = [fingerprint(train(r, mode="quiet").folder) for r in (run, run, other)]
    assert prints[0] == prints[1] != prints[2]
