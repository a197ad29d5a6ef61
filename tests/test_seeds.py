"""0 is a seed like any other; a seed that is not given is drawn, shown and recorded."""

import json
import random
import secrets
from pathlib import Path
from typing import Any

import pytest
import torch
from careless import draw_from_numpy, seed_numpy
from small_runs import fingerprint, make

from rlpyt.acting import open_agent
from rlpyt.cli import main
from rlpyt.distributions import for_action
from rlpyt.folder import RunFolder
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions
from rlpyt.resolve import draw_seed
from rlpyt.training import train

SHORT = ["--env", "CartPole-v1", "--env-steps", "300", "--eval-episodes", "0", "--horizon", "16"]


def trained(runs: Path, seed: int | None) -> Path:
    """The folder of a short run with this seed."""
    run = make("ppo", runs, seed=seed, env_steps=300, eval_episodes=0, eval_interval=0)
    return train(run, mode="quiet").folder


def recorded(capsys: Any, *arguments: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What a run of the command line prints, records and shows."""
    assert main(["train", "a2c", *SHORT, *arguments, "--json"]) == 0
    out, shown = capsys.readouterr()
    outcome = json.loads(out)
    return outcome, RunFolder(Path(outcome["run_dir"])).read(), shown


def test_0_is_a_seed_and_is_not_drawn(tmp_path, monkeypatch):
    """B200."""
    monkeypatch.setattr(secrets, "randbelow", lambda _: pytest.fail("a seed was drawn"))
    assert draw_seed(make("ppo", tmp_path, seed=0)) == 0
    one, same, other = (
        fingerprint(trained(tmp_path / name, seed))
        for name, seed in (("one", 0), ("same", 0), ("other", 1))
    )
    assert one == same != other


def test_0_is_shown_and_recorded_as_it_was_given(capsys):
    """B200."""
    outcome, record, shown = recorded(capsys, "--seed", "0")
    assert outcome["seed"] == record["seed"] == record["options"]["loop"]["seed"] == 0
    assert "__0__" in record_name(outcome) and "seed 0 " in shown


def test_a_seed_that_is_not_given_is_drawn_shown_and_recorded(capsys, monkeypatch):
    """B200; the options go on saying that none was given."""
    drawn = iter((41, 42))
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(drawn))
    for seed in (41, 42):
        outcome, record, shown = recorded(capsys)
        assert outcome["seed"] == record["seed"] == record["resolved"]["seed"] == seed
        assert record["options"]["loop"]["seed"] is None
        assert f"__{seed}__" in record_name(outcome) and f"seed {seed} " in shown


def test_a_run_with_a_drawn_seed_can_be_repeated(tmp_path):
    """B200."""
    first = trained(tmp_path / "first", None)
    seed = RunFolder(first).read()["seed"]
    assert fingerprint(trained(tmp_path / "again", seed)) == fingerprint(first)


def record_name(outcome: dict[str, Any]) -> str:
    return Path(outcome["run_dir"]).name


def test_initial_weights_follow_the_seed_whichever_generator_a_network_draws_from(tmp_path):
    """B196: NumPy's and Python's own beside PyTorch's."""

    def model(spec: Any) -> Any:
        made = ActorCritic(spec, for_action(spec.action), ActorCriticOptions())
        drawn.append([draw_from_numpy(), random.random(), float(torch.rand(()))])
        return made

    drawn: list[list[float]] = []
    for seed in (1, 1, 2):
        seed_numpy(len(drawn))
        random.seed(len(drawn))
        open_agent(make("ppo", tmp_path, seed=seed), model=model)
    one, same, other = drawn
    assert one == same
    assert all(x != y for x, y in zip(one, other, strict=True))
