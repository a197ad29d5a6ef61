"""The same training under every sampler, to the last bit, for any number of workers and groups."""

import json
import re
from typing import Any

import pytest
from small_runs import stopped_at
from small_sampling import fingerprint, outcome_of, trained

from rlpyt import training
from rlpyt.cli import main
from rlpyt.cli.train import parse
from rlpyt.folder import RunFolder
from rlpyt.samplers.choose import choose

KINDS = ["ppo", "ppo-pixels", "lstm", "dqn", "r2d1", "sac", "sac-discrete"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_in_strict_mode_is_bit_equal_under_every_sampler(kind, tmp_path):
    """D1: rows, parameters, optimizer, replay, episodes; four environments."""
    alone = trained(kind, tmp_path, strict=True)
    divisions = [(1, 1), (3, 1), (2, 2), (1, 3)] if kind == "ppo" else [(2, 2)]
    for workers, groups in divisions:
        given: Any = {"sampler": "workers", "workers": workers, "groups": groups}
        assert alone == trained(kind, tmp_path, strict=True, **given), (workers, groups)


def test_one_group_is_bit_equal_without_strict_mode_too(tmp_path):
    alone = trained("lstm", tmp_path)
    assert alone == trained("lstm", tmp_path, sampler="workers", workers=3, groups=1)


@pytest.mark.parametrize("kind", ["lstm", "normalized"])
def test_control_groups_of_one_column_differ_where_they_are_not_padded(kind, tmp_path):
    given: Any = {"sampler": "workers", "workers": 1, "groups": 4}
    assert trained(kind, tmp_path, strict=True) != trained(kind, tmp_path, **given)


@pytest.mark.parametrize("kind", ["lstm", "dqn"])
def test_a_run_goes_on_under_another_sampler_as_if_it_had_not_stopped(kind, tmp_path):
    """F24: serial, then workers that alternate, then other ones, then serial again."""
    whole = trained(kind, tmp_path, strict=True)
    part = outcome_of(kind, tmp_path, hooks=stopped_at(3), strict=True)
    others: list[Any] = [
        {"sampler": "workers", "workers": 2, "groups": 2},
        {"workers": 3, "groups": 1},
        {"sampler": "serial", "workers": None, "groups": None},
    ]
    for i, other in enumerate(others):
        hooks = stopped_at(2) if i < 2 else None
        part = training.resume(part.folder, sampler=other, hooks=hooks, mode="quiet")
        record = json.loads((part.folder / "run.json").read_text())
        assert record["resolved"]["sampler"] == ("serial" if i == 2 else "workers")
        assert record["resolved"]["workers"] == (2, 3, 0)[i]
    assert part.status == "finished"
    assert fingerprint(part.folder) == whole


def test_what_was_chosen_is_in_run_json_and_said(tmp_path, capsys):
    argv = ["train", "ppo", "--env", "CartPole-v1", "--env-steps", "64", "--num-envs", "4"]
    argv += ["--horizon", "8", "--minibatch-size", "16", "--eval-episodes", "0", "--seed", "1"]
    argv += ["--runs", str(tmp_path), "--name", "run"]
    assert main([*argv, "--sampler", "workers", "--workers", "2", "--groups", "2"]) == 0
    assert "2 workers × 2 groups" in " ".join(capsys.readouterr().out.split())
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["options"]["sampler"]["sampler"] == "workers"
    assert (record["resolved"]["workers"], record["resolved"]["groups"]) == (2, 2)
    resume = ["resume", str(tmp_path / "run"), "--env-steps", "128", "--sampler", "serial"]
    assert main(resume) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["resolved"]["sampler"] == record["options"]["sampler"]["sampler"] == "serial"
    assert record["status"] == "finished"


def test_a_run_from_before_there_were_samplers_goes_on(tmp_path):
    whole = trained("ppo", tmp_path)
    part = outcome_of("ppo", tmp_path, hooks=stopped_at(3))
    folder = RunFolder(part.folder)
    record = folder.read()
    del record["options"]["sampler"]
    for name in ("sampler", "workers", "groups"):
        del record["resolved"][name]
    (part.folder / "run.json").write_text(json.dumps(record))
    assert RunFolder(part.folder).run().sampler.sampler == "auto"
    assert fingerprint(training.resume(part.folder, mode="quiet").folder) == whole


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--sampler serial --workers 2", "--workers has no effect.*choose --sampler workers"),
        (
            "--sampler serial --on-worker-failure restart",
            "--on-worker-failure has no effect.*choose --sampler workers",
        ),
        ("--on-worker-failure raise", "--on-worker-failure has no effect"),
        ("--workers 2 --vectorization native", "workers=2 and vectorization=native"),
        (
            "--on-worker-failure drop --vectorization native",
            "on_worker_failure=drop and vectorization=native",
        ),
        ("--groups 2", "--groups has no effect.*--sampler workers, or --vectorization native"),
        ("--sampler workers --workers 9", "workers=9 for num_envs=8: .*at most --workers 8"),
        ("--sampler workers --groups 2 --workers 5", "in 2 groups.*at most --workers 4"),
        ("--sampler replicated --groups 2", "groups=2 and sampler=replicated"),
        ("--sampler workers --vectorization native", "--sampler serial .*in-process"),
        ("--asynchronous", "choose impala or appo"),
        ("--max-restarts 3", "--max-restarts has no effect.*--on-worker-failure"),
        ("--max-lag 3", "--max-lag has no effect.*--asynchronous"),
        ("--record-schedule", "--record-schedule has no effect.*--asynchronous"),
        ("--workers 0", "workers=0 must be at least 1"),
        ("--env-step-timeout -1", "env_step_timeout=-1.0 must be a finite number"),
    ],
)
def test_what_cannot_be_combined_is_refused_with_the_remedy(options, says, capsys):
    argv = ["train", "ppo", "--env", "CartPole-v1", *options.split()]
    assert main(argv) == 2
    assert re.search(says, " ".join(capsys.readouterr().err.split()))


def test_a_schedule_is_not_recorded_anew_where_one_is_followed(capsys):
    argv = ["train", "dqn", "--env", "CartPole-v1", "--asynchronous", "--schedule", "FILE"]
    assert main([*argv, "--record-schedule"]) == 2
    says = "--record-schedule has no effect.*as --schedule says; leave out one"
    assert re.search(says, " ".join(capsys.readouterr().err.split()))


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ("--workers 2", ("workers", 2)),
        ("--on-worker-failure restart", ("workers", None)),
        ("--on-worker-failure drop --sampler replicated", ("replicated", None)),
        ("", ("serial", 0)),
    ],
)
def test_what_only_processes_have_means_processes(options, chosen):
    """`--sampler auto`: no other could do what is asked for."""
    run, _ = parse(["ppo", "--env", "CartPole-v1", *options.split()])
    found = choose(run.sampler, run.env, images=False, cores=2)
    kind, workers = chosen
    assert found.sampler == kind and workers in (None, found.workers)
    atari, _ = parse(["ppo", "--env", "ALE/Pong-v5", *options.split()])
    found = choose(atari.sampler, atari.env, images=True, cores=2)
    assert found.vectorization == ("in-process" if options else "native")


def test_an_asynchronous_run_has_a_process_that_can_be_started_again():
    run, _ = parse(
        ["dqn", "--env", "CartPole-v1", "--asynchronous", "--on-worker-failure", "restart"]
    )
    assert choose(run.sampler, run.env, images=False, cores=2).sampler == "serial"
