"""What was measured on this machine is taken up by `--sampler auto`, and by nothing else."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rlpyt.envs.options import EnvOptions
from rlpyt.samplers import recommended
from rlpyt.samplers.choose import choose
from rlpyt.samplers.options import SamplerOptions
from rlpyt.samplers.recommended import Recommendation, best, find, keep, kind

SERIAL = Recommendation("serial", 0, 1, "in-process", 1000.0)
WORKERS = Recommendation("workers", 2, 2, "in-process", 2000.0)
NATIVE = Recommendation("serial", 0, 2, "native", 3000.0)
AGENT = kind("ppo", images=False, memory="none", device="cpu")
ENV = EnvOptions("CartPole-v1", num_envs=8)
WRONG: list[dict[str, object]] = [
    {"workers": "two"},
    {"workers": 0},
    {"groups": 0},
    {"sampler": "magic"},
    {"vectorization": None},
    {"steps_per_second": "fast"},
    {"more": 1},
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLPYT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "samplers.json"


def chosen(env: EnvOptions = ENV, agent: str = AGENT, **options):
    return choose(SamplerOptions(**options), env, images=False, cores=2, agent=agent)


def test_what_is_kept_is_found_again_and_the_newest_counts():
    assert find("CartPole-v1", 8, AGENT) is None
    assert keep("CartPole-v1", 8, AGENT, [SERIAL, WORKERS]) == recommended.file()
    assert find("CartPole-v1", 8, AGENT) == WORKERS
    keep("CartPole-v1", 8, AGENT, [SERIAL])
    assert find("CartPole-v1", 8, AGENT) == SERIAL


def test_it_is_of_one_environment_one_number_of_it_one_agent_and_as_many_cores(monkeypatch):
    keep("CartPole-v1", 8, AGENT, [WORKERS])
    keep("Acrobot-v1", 8, AGENT, [SERIAL])
    assert find("CartPole-v1", 8, AGENT) == WORKERS
    assert find("CartPole-v1", 16, AGENT) is None
    assert find("Pendulum-v1", 8, AGENT) is None
    for other in (("dqn", False, "none", "cpu"), ("ppo", True, "none", "cpu")):
        assert find("CartPole-v1", 8, kind(*other)) is None
    assert find("CartPole-v1", 8, kind("ppo", False, "lstm", "cpu")) is None
    assert find("CartPole-v1", 8, kind("ppo", False, "none", "cuda:1")) is None
    monkeypatch.setattr(recommended, "allowed_cores", lambda: 64)
    assert find("CartPole-v1", 8, AGENT) is None


def test_any_gpu_is_like_another():
    assert kind("ppo", True, "lstm", "cuda:1") == kind("ppo", True, "lstm", "cuda")


def test_the_best_is_the_fastest_or_a_simpler_one_that_is_about_as_fast():
    assert best([SERIAL, WORKERS]) == WORKERS
    slower = replace(WORKERS, steps_per_second=1020.0)
    assert best([slower, SERIAL]) == SERIAL
    lock_step = replace(WORKERS, groups=1, steps_per_second=1990.0)
    assert best([WORKERS, lock_step]) == lock_step
    one = replace(WORKERS, workers=1, steps_per_second=1995.0)
    assert best([lock_step, one, WORKERS]) == one


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 100_000,
        "\x00\xff",
        "[1, 2]",
        '{"KEY": 5}',
        '{"KEY": [5, null, {}]}',
        *(json.dumps({"KEY": [{**asdict(WORKERS), **wrong}]}) for wrong in WRONG),
    ],
)
def test_a_file_that_is_none_means_serial_and_is_replaced(content, cache):
    keep("CartPole-v1", 8, AGENT, [WORKERS])
    (key,) = json.loads(cache.read_text())
    cache.write_text(content.replace("KEY", key))
    assert find("CartPole-v1", 8, AGENT) is None
    assert chosen().sampler == "serial"
    assert keep("CartPole-v1", 8, AGENT, [WORKERS]) == cache
    assert find("CartPole-v1", 8, AGENT) == WORKERS


def test_a_home_that_cannot_be_written_or_is_not_there_means_serial(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RLPYT_CACHE", str(tmp_path / "file"))
    assert keep("CartPole-v1", 8, AGENT, [WORKERS]) is None
    assert chosen().sampler == "serial"

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RLPYT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert keep("CartPole-v1", 8, AGENT, [WORKERS]) is None
    assert chosen().sampler == "serial"


def test_it_lies_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("RLPYT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert recommended.file() == tmp_path / "xdg" / "rlpyt" / "samplers.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert recommended.file() == tmp_path / ".cache" / "rlpyt" / "samplers.json"


def test_auto_takes_it_and_says_why():
    assert chosen().sampler == "serial"  # before anything was measured
    keep("CartPole-v1", 8, AGENT, [SERIAL, WORKERS])
    found = chosen()
    assert (found.sampler, found.workers, found.groups) == ("workers", 2, 2)
    assert "rlpyt bench sampler" in found.reasons["sampler"]


def test_what_an_option_names_is_not_overruled():
    keep("CartPole-v1", 8, AGENT, [SERIAL, WORKERS, replace(WORKERS, workers=1, groups=1)])
    assert chosen(sampler="serial").sampler == "serial"
    named = chosen(sampler="replicated", workers=4)
    assert (named.sampler, named.workers) == ("replicated", 4)
    assert chosen(workers=1).workers == 1
    assert (chosen(workers=3).sampler, chosen(workers=3).workers) == ("workers", 3)
    keep("CartPole-v1", 8, AGENT, [SERIAL])
    assert chosen(workers=2).sampler == chosen(on_worker_failure="drop").sampler == "workers"
    keep("CartPole-v1", 8, AGENT, [SERIAL, WORKERS, replace(WORKERS, workers=1, groups=1)])
    assert chosen(groups=1).groups == 1


def test_a_native_one_is_taken_only_where_it_can_be_made():
    pong = EnvOptions("ALE/Pong-v5", num_envs=8)
    keep("ALE/Pong-v5", 8, AGENT, [SERIAL, WORKERS, NATIVE])
    assert chosen(pong).vectorization == "native"
    assert chosen(pong).groups == 2
    single = replace(pong, vectorization="in-process")
    assert (chosen(single).sampler, chosen(single).vectorization) == ("workers", "in-process")
    assert chosen(replace(pong, wrapper=("a:b",))).sampler == "workers"


def test_options_of_it_name_the_same_sampler():
    from rlpyt.cli.train import parse

    for one in (SERIAL, WORKERS, NATIVE, Recommendation("replicated", 2, 1, "in-process", 1.0)):
        run, _ = parse(["ppo", "--env", "ALE/Pong-v5", *one.options.split()])
        found = choose(run.sampler, run.env, images=True, cores=2)
        expected = (one.sampler, one.workers, one.groups, one.vectorization)
        assert (found.sampler, found.workers, found.groups, found.vectorization) == expected
