"""A run that stops goes on as if it had not: parameters and metrics equal by hash."""

import dataclasses

import pytest
from small_runs import RUNS, fingerprint, make, stopped_at

from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder
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


def test_a_run_whose_device_is_not_here_goes_on_on_another(tmp_path):
    """As one that began on a GPU, on a machine that has none."""
    run = make("dqn", tmp_path, env_steps=600, eval_episodes=0, eval_interval=0)
    folder = train(run, hooks=stopped_at(22), mode="quiet").folder
    record = RunFolder(folder).read()
    record["resolved"]["device"] = record["options"]["loop"]["device"] = "cuda:77"
    record["options"]["algo"]["replay_memory"] = "pinned"
    record["options"]["sampler"]["acting_device"] = "cuda:77"
    RunFolder(folder).update(**record)
    with pytest.raises(UsageError, match="device=cuda:77 cannot be used here .*device=cpu"):
        resume(folder, mode="quiet")
    for other, said in (("cuda:78", "device=cuda:78 cannot be used here"), ("auto", "keeps its")):
        with pytest.raises(UsageError, match=said):
            resume(folder, device=other, mode="quiet")
    assert resume(folder, device="cpu", mode="quiet").status == "finished"
    record = RunFolder(folder).read()
    assert record["resolved"]["device"] == record["options"]["loop"]["device"] == "cpu"
    whole = train(dataclasses.replace(run, loop=dataclasses.replace(run.loop, name="whole")))
    assert fingerprint(whole.folder) == fingerprint(folder)
