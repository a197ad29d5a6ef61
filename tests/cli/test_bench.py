"""rlpyt bench sampler: what it measures, what it says, what it keeps."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlpyt.cli import bench, main, sampling_speed, usage
from rlpyt.cli.bench import BenchOptions, parse
from rlpyt.cli.sampling_speed import Setting, Speed, _shares, settings, with_envs
from rlpyt.presets import choose
from rlpyt.samplers import recommended

SMALL = ["bench", "sampler", "--env", "CartPole-v1", "--num-envs", "2", "--seconds", "0.05"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLPYT_CACHE", str(tmp_path))
    return tmp_path / "samplers.json"


def found(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_the_numbers_of_environments_are_the_presets_and_more_or_those_given():
    _, runs = parse(["sampler", "--env", "CartPole-v1"])
    assert [run.env.num_envs for run in runs] == [8, 16, 64]
    assert {run.algo_name for run in runs} == {"ppo"}
    _, runs = parse(["sampler", "sac", "--env", "Pendulum-v1", "--num-envs", "3", "5"])
    assert [run.env.num_envs for run in runs] == [3, 5]
    assert {run.algo_name for run in runs} == {"sac"}


def test_options_of_train_hold_where_they_matter():
    words = "sampler ppo --env CartPole-v1 --memory lstm --horizon 16 --threads 1 --num-envs 4"
    _, (run,) = parse(words.split())
    assert (run.model.memory, run.algo.horizon, run.loop.threads) == ("lstm", 16, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "rlpyt bench sampler"),
        (["learner"], "rlpyt bench sampler"),
        (["sampler"], "--env is missing"),
        (["sampler", "ppo", "dqn", "--env", "CartPole-v1"], "rlpyt bench sampler"),
        (["sampler", "--env", "CartPole-v1", "--workers", "0"], "workers"),
        (["sampler", "--env", "CartPole-v1", "--seconds", "0"], "seconds=0"),
        (["sampler", "--env", "CartPole-v1", "--sampler", "magic"], "magic"),
        (["sampler", "--env", "CartPole-v1", "--eval-interval", "5"], "no option"),
        (["sampler", "ppo", "--env", "CartPole-v1", "--replay-ratio", "1"], "dqn"),
        (["sampler", "r2d1", "--env", "CartPole-v1", "--num-envs", "10k"], "replay_size"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_number_of_environments_that_was_not_asked_for_may_not_fit():
    """The replay is too small for twice as many as the preset has."""
    words = "sampler dqn --env CartPole-v1 --replay-size 110 --n-step 3"
    _, runs = parse(words.split())
    assert [run.env.num_envs for run in runs] == [8]


def names(num_envs: int, env: str = "CartPole-v1", **options) -> list[tuple[str, int, int]]:
    run = with_envs(choose("ppo", env), num_envs)
    asked = BenchOptions(env, **options)
    return [(x.name, x.workers, x.groups) for x in settings(run, asked)]


def test_every_sampler_is_measured_with_few_and_all_cores(monkeypatch):
    monkeypatch.setattr(sampling_speed, "allowed_cores", lambda: 2)
    assert names(8) == [
        ("serial", 0, 1),
        *(("workers", 1, 1), ("alternating", 1, 2), ("workers", 2, 1), ("alternating", 2, 2)),
        ("replicated", 2, 1),
    ]
    assert ("native", 0, 1) in names(8, "ALE/Pong-v5")
    assert ("native, alternating", 0, 2) in names(8, "ALE/Pong-v5")
    monkeypatch.setattr(sampling_speed, "allowed_cores", lambda: 16)
    assert {workers for _, workers, _ in names(32)} == {0, 8, 15, 16}


def test_no_worker_or_group_is_without_an_environment(monkeypatch):
    monkeypatch.setattr(sampling_speed, "allowed_cores", lambda: 4)
    for num_envs in range(1, 9):
        for _, workers, groups in names(num_envs):
            assert max(1, workers) * groups <= num_envs


def test_only_what_was_asked_for_is_measured():
    asked = names(8, sampler=("workers",), workers=(1, 3), groups=(4,))
    assert asked == [("pipelined", 1, 4)]
    assert names(8, sampler=("serial",)) == [("serial", 0, 1)]
    assert names(8, sampler=("native",)) == []


def test_windows_of_many_environments_are_shorter():
    """A window of 64 games of Pong would take seconds."""
    for memory in ("none", "lstm"):
        run = choose("ppo", "ALE/Pong-v5")
        run = replace(run, model=replace(run.model, memory=memory))
        assert with_envs(run, 8).algo.horizon == run.algo.horizon == 128
        assert with_envs(run, 64).algo.horizon == 32
    algo = replace(run.algo, state_interval=64, minibatch_size=1024)
    assert with_envs(replace(run, algo=algo), 64).algo.horizon == 64


def test_a_replay_is_only_as_large_as_sampling_needs():
    run: Any = choose("dqn", "ALE/Pong-v5")
    small: Any = with_envs(run, 64)
    assert small.algo.replay_size < 30_000 < run.algo.replay_size


@pytest.mark.parametrize("counted", [(1.0, 2.0), (10.0, 20.0), (0.0, 0.0)])
def test_the_parts_make_up_the_cores_time(counted):
    """Also where what was counted is more than the processors did: others had the cores."""
    shares = _shares(*counted, busy=6.0, available=8.0)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) >= 0
    assert shares["wait"] == pytest.approx(0.25)


def test_serial_is_measured_and_leaves_nothing_to_hand_over(capsys, cache):
    assert main([*SMALL, "--sampler", "serial", "--json"]) == 0
    told = found(capsys)
    (row,) = told["measured"]
    assert (row["sampler"], row["num_envs"]) == ("serial", 2)
    assert row["steps_per_second"] > 0
    assert row["shares"] == {} or row["shares"]["inter-process"] == pytest.approx(0, abs=0.02)
    assert told["recommended"][0]["options"].startswith("--num-envs 2 --sampler serial")
    assert not cache.exists()  # one alone is no comparison


def test_samplers_of_processes_are_measured_beside_it(capsys, cache):
    words = "--sampler serial workers replicated --workers 1 --groups 1 --json"
    assert main([*SMALL, *words.split()]) == 0
    told = found(capsys)
    rows = {row["sampler"]: row for row in told["measured"]}
    assert set(rows) == {"serial", "workers", "replicated"}
    for row in rows.values():
        assert row["steps_per_second"] > 0
        assert not row["shares"] or sum(row["shares"].values()) == pytest.approx(1, abs=0.01)
    assert not told["failed"]
    assert cache.exists()


def fake(monkeypatch: pytest.MonkeyPatch, speed_of, got: float = 1.0) -> list[Setting]:
    """Measure nothing: `speed_of` gives the speed of a setting, or raises."""
    asked: list[Setting] = []

    def measure(run, setting, seconds, env_seconds=None):
        asked.append(setting)
        agent = recommended.kind("ppo", False, "none", "cpu")
        return Speed(setting, run.env.num_envs, agent, speed_of(setting), {}, None, 0.0, got)

    monkeypatch.setattr(sampling_speed, "measure", measure)
    return asked


def test_the_fastest_is_recommended_and_taken_by_training(monkeypatch, capsys):
    from rlpyt.cli.train import parse as parse_training
    from rlpyt.resolve import resolve

    run, _ = parse_training(["ppo", "--env", "CartPole-v1", "--num-envs", "2"])
    assert resolve(run, 0, 5000, images=False).sampler == "serial"
    fake(monkeypatch, lambda x: 100.0 * (1 + x.workers + (x.sampler == "replicated")))
    assert main([*SMALL, "--workers", "1", "2"]) == 0
    text = capsys.readouterr().out
    assert "--num-envs 2 --sampler replicated --workers 2" in text
    assert "--sampler auto" in text
    resolved = resolve(run, 0, 5000, images=False)
    assert (resolved.sampler, resolved.workers) == ("replicated", 2)


def test_nothing_is_kept_where_that_is_asked_for(monkeypatch, cache):
    fake(monkeypatch, lambda _: 1.0)
    assert main([*SMALL, "--no-keep"]) == 0
    assert not cache.exists()
    assert main(SMALL) == 0
    assert cache.exists()


def test_what_is_measured_beside_other_work_is_not_kept(monkeypatch, capsys, cache):
    fake(monkeypatch, lambda _: 1.0, got=0.5)
    assert main(SMALL) == 0
    assert not cache.exists()
    assert "other work" in capsys.readouterr().out
    fake(monkeypatch, lambda _: 1.0, got=0.95)
    assert main(SMALL) == 0
    assert cache.exists()
    assert "other work" not in capsys.readouterr().out


def test_a_cache_that_cannot_be_written_stops_nothing(monkeypatch, capsys):
    monkeypatch.setenv("RLPYT_CACHE", os.devnull)
    fake(monkeypatch, lambda _: 1.0)
    assert main(SMALL) == 0
    text = capsys.readouterr().out
    assert "--sampler serial" in text
    assert "from now on" not in text


def test_a_sampler_that_fails_is_told_of_and_the_others_go_on(monkeypatch, capsys):
    def speed(setting: Setting) -> float:
        if setting.workers == 1:
            raise OSError("no memory for it")
        return 1.0

    fake(monkeypatch, speed)
    assert main([*SMALL, "--workers", "1", "2", "--json"]) == 0
    told = found(capsys)
    assert {row["workers"] for row in told["measured"]} == {0, 2}
    assert {row["error"] for row in told["failed"]} == {"no memory for it"}


def test_an_environment_that_fails_by_itself_ends_it(capsys):
    assert main([*SMALL[:3], "NoSuch-v0", *SMALL[4:]]) == 2
    assert "NoSuch-v0" in capsys.readouterr().err


def test_processor_time_and_memory_are_of_the_whole_tree():
    import multiprocessing

    if usage.cpu_seconds() is None:
        pytest.skip("there is no /proc here")
    before, memory = usage.cpu_seconds(), usage.memory_mb()
    assert before is not None
    assert memory is not None
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    child = multiprocessing.get_context("fork").Process(target=_busy, args=(ready, done))
    child.start()
    try:
        assert ready.wait(30)
        after = usage.cpu_seconds()
        assert after is not None
        assert after - before >= 0.2
    finally:
        done.set()
        child.join(30)


def _busy(ready, done) -> None:
    """Use 0.3 s of a processor."""
    import time

    while time.process_time() < 0.3:
        pass
    ready.set()
    done.wait(30)


def test_the_help_names_examples_that_can_be_read(capsys):
    assert main(["bench", "sampler", "--help"]) == 0
    text = capsys.readouterr().out
    shown = [line.split() for line in text.splitlines() if line.startswith("  rlpyt bench")]
    assert len(shown) == 3
    for words in shown:
        options, runs = parse(words[2:])
        assert runs
        assert replace(options, env="x") != bench.BenchOptions()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--sampler", "workers", "--workers", "4"], "--workers 4 (one would be without an env"),
        (["--sampler", "native"], "--sampler native (Atari's; another's with --vectorization nat"),
        (["--vectorization", "native", "--sampler", "workers"], "(not beside --vectorization nat"),
    ],
)
def test_what_cannot_be_measured_is_said_and_where_nothing_can_the_code_is_2(more, says, capsys):
    assert main([*SMALL, *more]) == 2
    text = capsys.readouterr().out
    assert "2  not measured: --" in text
    assert says in text


def test_what_is_left_out_beside_others_is_said(monkeypatch, capsys):
    asked = fake(monkeypatch, lambda _: 1.0)
    assert main([*SMALL, "--workers", "2", "5", "--groups", "1", "3"]) == 0
    text = capsys.readouterr().out
    assert "not measured: --workers 5 (" in text and "--groups 3 (" in text
    assert [x.workers for x in asked] == [0, 2, 2]


def test_numbers_that_are_given_twice_are_measured_once(monkeypatch):
    asked = fake(monkeypatch, lambda _: 1.0)
    twice = ["--num-envs", "2", "2", "--workers", "1", "1", "--groups", "1", "1"]
    assert main([*SMALL[:4], *twice]) == 0
    assert len(asked) == len(set(asked))


def test_a_number_of_environments_that_fails_leaves_what_was_measured(monkeypatch, capsys):
    def speed(setting: Setting) -> float:
        if len(asked) > 3:
            raise MemoryError("none is left")
        return 1.0

    asked = fake(monkeypatch, speed)
    sizes = ["--num-envs", "2", "4", "8", "--workers", "1", "--groups", "1"]
    assert main([*SMALL[:4], *sizes, "--json"]) == 0
    told = found(capsys)
    assert [x["num_envs"] for x in told["recommended"]] == [2]
    assert [(x["num_envs"], x["setting"]) for x in told["failed"]] == [(4, "serial"), (8, "serial")]


def test_where_all_fails_the_code_is_1(monkeypatch, capsys):
    def speed(setting: Setting) -> float:
        raise OSError("no memory for it")

    fake(monkeypatch, speed)
    assert main([*SMALL, "--sampler", "workers", "--workers", "1"]) == 1
    assert "failed: no memory for it" in capsys.readouterr().out


def test_native_ones_alone_replace_nothing_that_was_measured(monkeypatch, cache):
    fake(monkeypatch, lambda _: 1.0)
    assert main([*SMALL, "--vectorization", "native"]) == 0
    assert not cache.exists()


def test_a_window_is_measured_however_short_the_time(capsys):
    shortest = ["--seconds", "1e-9", "--sampler", "serial", "--json"]
    assert main([*SMALL[:6], *shortest]) == 0
    assert found(capsys)["measured"][0]["steps_per_second"] > 0


def test_ctrl_c_ends_it_and_leaves_what_is_known(monkeypatch, capsys, cache):
    def speed(setting: Setting) -> float:
        if len(asked) > 3:
            raise KeyboardInterrupt
        return 1.0

    asked = fake(monkeypatch, speed)
    sizes = ["--num-envs", "2", "4", "--workers", "1", "--groups", "1"]
    assert main([*SMALL[:4], *sizes]) == 130
    told = capsys.readouterr()
    assert "--num-envs 2 --sampler" in told.out and "--num-envs 4 --sampler" not in told.out
    assert "interrupted: nothing is kept of what was being measured" in told.err
    assert "x 2 on" in cache.read_text() and "x 4 on" not in cache.read_text()
