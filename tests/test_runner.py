"""The loop: what is due when, how it ends, what it keeps, and what a fault leaves behind."""

import csv
import dataclasses
import errno
import json
import math

import gymnasium
import numpy as np
import pytest
import torch
from small_runs import PPO, fingerprint, make, stopped_at
from toys import CountEnv, CrashEnv

from rlpyt import checkpoint, faultpoints
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import EnvironmentFault, UsageError
from rlpyt.logging.shares import shares_of
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks
from rlpyt.training import resume, train


def lines(folder):
    return list(csv.DictReader((folder / "progress.csv").read_text().splitlines()))


def steps_with(folder, tag):
    return [int(row["env_steps"]) for row in lines(folder) if row.get(tag)]


def checkpoints(folder):
    return [int(p.name) for p in sorted((folder / "checkpoints").iterdir()) if p.name.isdigit()]


def run_of(tmp_path, env, **loop):
    given = {"env_steps": 300, "seed": 0, "runs": str(tmp_path), "eval_episodes": 0} | loop
    algo = dataclasses.replace(PPO, horizon=16, minibatch_size=32)
    return Run(EnvOptions(env, num_envs=2), algo, loop=LoopOptions(**given))


# When ---------------------------------------------------------------------------------------------


def test_what_is_due_happens_after_the_window_that_passes_a_multiple(tmp_path):
    ends = []
    hooks = Hooks(on_window=lambda runner: ends.append(runner.episodes.env_steps))
    outcome = train(make("ppo", tmp_path), hooks=hooks, mode="quiet")
    total = outcome.runner.episodes.env_steps
    assert ends == sorted(set(ends)) and ends[-1] == total and ends[-2] < 2000 <= total

    def due(interval):
        before = [0, *ends[:-1]]
        return [b for a, b in zip(before, ends, strict=True) if a // interval != b // interval]

    evaluated = {*due(700), total} - {x for x in due(700) if x >= 2000 and x != total}
    assert steps_with(outcome.folder, "time/frames") == sorted({*due(150), total})
    assert steps_with(outcome.folder, "eval/return_mean") == sorted(evaluated)
    assert {*due(400), total} <= set(checkpoints(outcome.folder)) <= {*due(400), *evaluated}
    found = [int(row["env_steps"]) for row in lines(outcome.folder)]
    assert found == sorted(set(found))  # B205


def test_the_exact_number_of_steps_is_reported_everywhere(tmp_path):
    """B088, B235: dead rows are no steps; the last window is finished."""
    outcome = train(make("ppo", tmp_path), mode="quiet")
    steps = outcome.runner.episodes.env_steps
    record = json.loads((outcome.folder / "run.json").read_text())
    _, meta = checkpoint.load(outcome.folder / "checkpoints")
    assert outcome.summary()["env_steps"] == record["env_steps"] == meta["env_steps"] == steps
    assert 2000 <= steps < 2000 + 4 * 32
    assert int(lines(outcome.folder)[-1]["env_steps"]) == steps


def test_no_interval_means_only_the_end(tmp_path):
    """B230: a final checkpoint there is."""
    run = make("ppo", tmp_path, eval_interval=0, checkpoint_interval=0, log_interval=100_000)
    outcome = train(run, mode="quiet")
    total = outcome.runner.episodes.env_steps
    assert checkpoints(outcome.folder) == steps_with(outcome.folder, "eval/return_mean") == [total]


def test_only_the_newest_checkpoints_and_the_best_are_kept(tmp_path):
    outcome = train(make("ppo", tmp_path, keep_checkpoints=1, eval_interval=300), mode="quiet")
    best = checkpoint.best(outcome.folder / "checkpoints")
    assert best is not None
    found = [
        (float(row["eval/return_mean"]), -int(row["env_steps"]))
        for row in lines(outcome.folder)
        if row["eval/return_mean"]
    ]
    greatest, at = max(found)
    assert int(best.name) == -at and outcome.runner.evaluations.best_return == pytest.approx(
        greatest
    )
    assert set(checkpoints(outcome.folder)) == {-at, outcome.runner.episodes.env_steps}
    state, _ = checkpoint.load(best)
    assert state["best_return"] == outcome.runner.evaluations.best_return


def test_the_best_return_is_remembered_over_a_resume(tmp_path):
    """B223."""
    part = train(make("ppo", tmp_path), hooks=stopped_at(8), mode="quiet")
    best = part.runner.evaluations.best_return
    assert math.isfinite(best)
    seen = []
    resume(
        part.folder,
        hooks=Hooks(on_window=lambda r: seen.append(r.evaluations.best_return)),
        mode="quiet",
    )
    assert seen[0] == best


# How it ends --------------------------------------------------------------------------------------


def test_a_return_that_is_reached_ends_the_run_once_evaluated(tmp_path):
    seen = []
    hooks = Hooks(on_evaluation=lambda evaluation: seen.append(evaluation))
    outcome = train(make("ppo", tmp_path, stop_at_return=1.0), hooks=hooks, mode="quiet")
    assert outcome.status == "finished" and len(seen) == 1
    steps = outcome.runner.episodes.env_steps
    assert 700 <= steps < 2000
    assert steps_with(outcome.folder, "eval/return_mean") == [steps]
    assert checkpoints(outcome.folder)[-1] == steps
    assert outcome.summary()["eval_return"] == seen[0].mean


def test_a_return_out_of_reach_does_not(tmp_path):
    outcome = train(make("ppo", tmp_path, stop_at_return=1e6), mode="quiet")
    assert outcome.runner.episodes.env_steps >= 2000


@pytest.mark.parametrize("name", ["on_window", "on_evaluation"])
def test_a_hook_that_returns_true_ends_the_run(name, tmp_path):
    outcome = train(make("ppo", tmp_path), hooks=Hooks(**{name: lambda _: True}), mode="quiet")
    assert outcome.status == "finished"
    assert outcome.runner.episodes.env_steps < 900
    assert outcome.runner.evaluations.newest is not None
    assert checkpoints(outcome.folder)[-1] == outcome.runner.episodes.env_steps


def test_a_hook_that_raises_fails_the_run_and_what_was_saved_stays(tmp_path):
    def fail(runner):
        if runner.episodes.env_steps > 1000:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        train(make("ppo", tmp_path, name="run"), hooks=Hooks(on_window=fail), mode="quiet")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["status"], record["error"]) == ("failed", "LookupError: mine")
    assert resume(tmp_path / "run", mode="quiet").status == "finished"


def test_a_run_that_failed_goes_on_as_if_it_had_not(tmp_path):
    whole = train(make("ppo", tmp_path / "whole"), mode="quiet")

    def fail(runner):
        if runner.episodes.env_steps > 1000:
            raise LookupError

    with pytest.raises(LookupError):
        train(make("ppo", tmp_path, name="run"), hooks=Hooks(on_window=fail), mode="quiet")
    resume(tmp_path / "run", mode="quiet")
    assert fingerprint(tmp_path / "run") == fingerprint(whole.folder)


# Length -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 600])
def test_a_length_that_is_behind_is_refused(length, tmp_path):
    part = train(make("ppo", tmp_path), hooks=stopped_at(5), mode="quiet")
    before = (part.folder / "run.json").read_bytes()
    with pytest.raises(UsageError, match=rf"env_steps={length}: .*taken {600}|choose a greater"):
        resume(part.folder, env_steps=length, mode="quiet")
    assert (part.folder / "run.json").read_bytes() == before


def test_a_longer_run_keeps_its_schedules_unless_they_are_stretched(tmp_path):
    for reschedule in (False, True):
        first = train(make("ppo", tmp_path / str(reschedule)), mode="quiet")
        longer = resume(first.folder, env_steps=4000, reschedule=reschedule, mode="quiet")
        rates = [float(row["loss/lr"]) for row in lines(longer.folder) if row["loss/lr"]]
        steps = steps_with(longer.folder, "loss/lr")
        behind = [rate for rate, x in zip(rates, steps, strict=True) if x > 2200]
        assert longer.runner.episodes.env_steps >= 4000
        assert all(rate == 0 for rate in behind) is not reschedule
        assert json.loads((longer.folder / "run.json").read_text())["resumed"][0]["length"] == 4000


# Faults -------------------------------------------------------------------------------------------


def crash(where, k=0, only=1):
    def factory(rank: int = 0):
        return CrashEnv(where if rank == only else "nowhere", k)

    return factory


@pytest.mark.parametrize(
    ("where", "k", "note"),
    [
        ("init", 0, "while environment 1 of 2"),
        ("reset", 2, "in environment 1 of 2"),
        ("step", 31, "in environment 1 of 2"),
    ],
)
def test_an_environment_that_raises_fails_the_run_by_name(where, k, note, tmp_path):
    """F1, F3."""
    with pytest.raises(RuntimeError, match=f"crash in {where}") as caught:
        train(run_of(tmp_path, crash(where, k), name="run"), mode="quiet")
    assert any(note in text for text in caught.value.__notes__)
    if where != "init":  # before that there is no folder
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        assert (record["status"], record["error"]) == ("failed", f"RuntimeError: crash in {where}")


def test_an_environment_that_switches_gradients_off_changes_no_run(tmp_path):
    """As one does that asks a network of its own."""

    class WithoutGradients(CountEnv):
        def __init__(self, off):
            super().__init__(7)
            if off:
                torch.set_grad_enabled(False)

    def outcome(off):
        given = run_of(tmp_path, lambda: WithoutGradients(off), name=f"off {off}", env_steps=100)
        return fingerprint(train(given, mode="quiet").folder)

    expected = outcome(False)
    try:
        assert outcome(True) == expected
    finally:
        torch.set_grad_enabled(True)


def test_an_error_of_close_masks_no_other(tmp_path):
    class Both(CrashEnv):
        def step(self, action):
            raise LookupError("the first")

    with (
        pytest.warns(RuntimeWarning, match="crash in close"),
        pytest.raises(LookupError, match="the first"),
    ):
        train(run_of(tmp_path, lambda: _patched(Both("close"))), mode="quiet")


def _patched(env):
    """Its close() fails from the second one made on: the first is made to be described."""
    _patched.made = getattr(_patched, "made", 0) + 1
    if _patched.made == 1:
        env.close = lambda: None
    return env


def test_an_observation_that_is_not_finite_fails_the_run_by_name(tmp_path):
    """F9."""

    class Bad(gymnasium.Wrapper):
        def step(self, action):
            observation, *rest = self.env.step(action)
            self.count = getattr(self, "count", 0) + 1
            return (observation * np.nan if self.count == 40 else observation, *rest)

    with pytest.raises(EnvironmentFault, match="observation of environment 0 .* is not finite"):
        train(
            run_of(tmp_path, lambda: Bad(gymnasium.make("CartPole-v1")), name="run"), mode="quiet"
        )
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed" and "is not finite at row" in record["error"]


def test_a_full_disk_fails_the_save_says_so_and_leaves_the_checkpoints_before_it(
    tmp_path, monkeypatch
):
    """F21 in a run; the control is that it is then resumed."""
    whole = train(make("ppo", tmp_path / "whole"), mode="quiet")
    saves = []

    def full(place):
        if place == "checkpoint:open meta.json":
            saves.append(place)
        if len(saves) == 3 and place.startswith("checkpoint:write"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(faultpoints, "plan", full)
    with pytest.raises(OSError, match="No space left on device; .* not written, the checkpoints"):
        train(make("ppo", tmp_path, name="run"), mode="quiet")
    monkeypatch.undo()
    folder = tmp_path / "run"
    assert len(checkpoints(folder)) == 2
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "failed" and "No space left" in record["error"]
    assert resume(folder, mode="quiet").status == "finished"
    assert fingerprint(folder) == fingerprint(whole.folder)


@pytest.mark.parametrize("other", [False, True])
def test_a_run_that_was_never_saved_begins_again_as_it_had_begun(other, tmp_path):
    """Also with the weights that it had from another run."""
    loop = {}
    if other:
        first = train(make("ppo", tmp_path / "first", seed=8, env_steps=200), mode="quiet")
        loop["init_from"] = str(first.folder)
    whole = train(make("ppo", tmp_path / "whole", **loop), mode="quiet")

    def fail(runner):
        raise LookupError

    with pytest.raises(LookupError):
        train(make("ppo", tmp_path, name="run", **loop), hooks=Hooks(on_window=fail), mode="quiet")
    assert not (tmp_path / "run" / "checkpoints").exists()
    resumed = resume(tmp_path / "run", mode="quiet")
    assert fingerprint(resumed.folder) == fingerprint(whole.folder)


def test_the_shares_of_the_time_add_up_to_one():
    shares = shares_of({"env": 1.0, "act": 2.0, "learn": 3.0}, 8.0, 400)
    assert shares["time/steps_per_second"] == 50
    assert sum(x for name, x in shares.items() if "second" not in name) == 1
    assert shares_of({"env": 0.0}, 0.0, 0)["time/steps_per_second"] == 0
