"""rlpyt eval says what its numbers mean."""

import json
from pathlib import Path

import numpy as np
import pytest

from rlpyt.cli import main
from rlpyt.evaluation import Evaluation

SHORT = ["--env-steps", "200", "--eval-episodes", "0", "--seed", "1", "--quiet", "--name", "run"]


@pytest.fixture(autouse=True)
def fixed_start(tmp_path):
    """CartPole from the same start every time."""
    (tmp_path / "fixed_start.py").write_text(
        "import gymnasium\n"
        "class SameStart(gymnasium.Wrapper):\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return self.env.reset(seed=0, options=options)\n"
        "def make():\n"
        "    return SameStart(gymnasium.make('CartPole-v1', disable_env_checker=True))\n"
    )


@pytest.mark.parametrize(
    ("env", "says"),
    [("toys:CountEnv", "all episodes are alike"), ("CartPole-v1", "episodes, most likely actions")],
)
def test_a_greedy_policy_in_a_deterministic_environment_is_said_to_vary_in_nothing(
    env, says, capsys
):
    """B194: ten episodes are one, and sampled actions are offered."""
    assert main(["train", "a2c", "--env", env, *SHORT]) == 0
    capsys.readouterr()
    assert main(["eval", "runs/run", "--episodes", "10"]) == 0
    shown = capsys.readouterr().out
    assert says in shown
    alike = "all episodes are alike, so that ± 0.0 says nothing of chance; --stochastic samples"
    assert (alike in shown) == (env == "toys:CountEnv")


def test_sampled_actions_are_the_other_way_to_evaluate(capsys):
    """B194: the actions differ, so that episodes do even from one start."""
    assert main(["train", "ppo", "--env", "fixed_start:make", *SHORT]) == 0
    returns = {}
    for flags in ((), ("--stochastic",)):
        capsys.readouterr()
        assert main(["eval", "runs/run", "--episodes", "8", "--json", *flags]) == 0
        returns[flags] = json.loads(capsys.readouterr().out)["returns"]
    assert len(set(returns[()])) == 1 < len(set(returns[("--stochastic",)]))


def test_actions_at_random_in_an_evaluation_are_said(capsys):
    given = ["--learning-starts", "100", "--eval-epsilon", "0.25"]
    assert main(["train", "dqn", "--env", "CartPole-v1", *given, *SHORT]) == 0
    for flags, says in (
        ((), "most likely actions (0.25 of them at random), weights"),
        (("--stochastic",), "sampled actions, weights"),
    ):
        capsys.readouterr()
        assert main(["eval", "runs/run", "--episodes", "2", *flags]) == 0
        assert says in capsys.readouterr().out


def test_a_run_whose_replay_would_not_fit_here_is_evaluated_all_the_same(capsys):
    """As where the machine that trained it is larger."""
    replay = ["--learning-starts", "100", "--replay-size", "1k"]
    assert main(["train", "dqn", "--env", "CartPole-v1", *replay, *SHORT]) == 0
    record = json.loads(Path("runs/run/run.json").read_text())
    record["options"]["algo"]["replay_size"] = 10**15
    Path("runs/run/run.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert main(["eval", "runs/run", "--episodes", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["returns"]) == 2
    assert main(["resume", "runs/run", "--env-steps", "1e15"]) == 2  # the control
    assert "the replay needs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("returns", "lengths", "alike"),
    [
        ([5, 5, 5], [7, 7, 7], True),
        ([5, 5, 6], [7, 7, 7], False),
        ([5, 5, 5], [7, 7, 8], False),
        ([5], [7], False),
        ([], [], False),
    ],
)
def test_episodes_are_alike_where_returns_and_lengths_are(returns, lengths, alike):
    assert Evaluation(np.array(returns, float), np.array(lengths, int)).alike == alike
