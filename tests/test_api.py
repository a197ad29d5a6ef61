"""The facade: a run in a line, options by name, and an agent that is evaluated and asked."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from small_agents import REPLAY, short

import rlpyt
from rlpyt import A2C, DQN, PPO, R2D1, UsageError
from rlpyt.generators import generators
from tests.toys import CountEnv


def test_names_are_imported_when_asked_for():
    for name in rlpyt.__all__:
        assert getattr(rlpyt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PPQ'"):
        _ = rlpyt.PPQ


def test_learn_returns_the_agent_and_evaluation_repeats():
    agent = A2C("CartPole-v1", seed=1, eval_episodes=3)
    assert agent.learn(500, mode="quiet") is agent
    assert agent.env_steps >= 500
    first, second = agent.evaluate(episodes=3), agent.evaluate(episodes=3)
    assert np.array_equal(first.returns, second.returns)
    assert len(first.returns) == 3


def test_evaluating_and_predicting_leave_the_callers_process_as_it_was():
    """Global generators, and how many threads PyTorch takes."""
    agent, threads = A2C("CartPole-v1", seed=1, num_envs=2), torch.get_num_threads()
    try:
        for use in (lambda: agent.predict(np.zeros(4, np.float32)), lambda: agent.evaluate(2)):
            torch.set_num_threads(2)
            before = generators()
            use()
            after = generators()
            assert torch.get_num_threads() == 2
            assert torch.equal(torch.as_tensor(after["torch"]), torch.as_tensor(before["torch"]))
            assert str(after) == str(before)
    finally:
        torch.set_num_threads(threads)


def test_a_way_of_showing_that_there_is_not_is_refused_before_a_run_begins():
    agent = A2C("CartPole-v1", seed=1)
    with pytest.raises(UsageError, match=r"mode='quite' must be one of .*did you mean quiet\?"):
        agent.learn(100, mode="quite")
    assert not Path("runs").exists()


def test_options_are_given_flat_and_by_any_accepted_name():
    agent = PPO("CartPole-v1", learning_rate=0.5, n_envs=3, hidden_sizes=[8], memory="gru")
    assert (agent.run.algo.lr, agent.run.env.num_envs) == (0.5, 3)
    assert agent.run.model.hidden_sizes == (8,)
    assert agent.run.preset == "ppo/classic"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lerning_rate": 1}, r"no option 'lerning_rate'; did you mean learning_rate\?"),
        ({"lr": 1, "learning_rate": 1}, "given twice"),
        ({"optimizer": "adam"}, "ppo has no option 'optimizer'"),
        ({"lambda": 0.9}, r"ppo has no option 'lambda'; did you mean gae_lambda\?"),
        ({"preset": "clasic"}, r"did you mean classic\?"),
        ({"num_envs": 0}, "at least 1"),
        ({"num_envs": 2.5}, "num_envs=2.5 must be a whole number"),
        ({"lr": "fast"}, "lr='fast' must be a number"),
        ({"memory": "lstn"}, r"did you mean lstm\?"),
        ({"normalize_observation": "false"}, "must be True or False"),
        ({"hidden_sizes": 64}, "must be a list"),
    ],
)
def test_a_wrong_option_is_said_with_the_nearest(options, message):
    with pytest.raises(UsageError, match=message):
        PPO("CartPole-v1", **options)


@pytest.mark.parametrize("env", [CountEnv, lambda: CountEnv(7)])
def test_an_environment_may_be_a_class_or_a_function(env):
    agent = short(env=env)
    assert agent.evaluate(episodes=2).lengths.min() >= 5


def test_one_environment_cannot_be_copied():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(UsageError, match="made already.*pass 'CartPole-v1', or a function"):
        PPO(env)
    env.close()


@pytest.mark.parametrize("env", [None, 3, [lambda: CountEnv(7)] * 2])
def test_what_no_environment_is_made_from_is_named(env):
    with pytest.raises(UsageError, match=f"env is a {type(env).__name__}; it must be an id, "):
        PPO(env)


def test_evaluating_makes_its_own_environments_and_no_others():
    made = []

    def env():
        made.append(CountEnv(7))
        return made[-1]

    agent = short(env=env, num_envs=32)
    made.clear()
    agent.evaluate(episodes=3)
    assert len(made) == 4  # one to look at


def test_exploring_is_as_random_as_where_training_stopped():
    """Not as at its start, where every action is."""
    given = {**REPLAY, "epsilon_start": 1.0, "epsilon_end": 0.0, "epsilon_steps": 100}
    agent = short(DQN, **given)
    observation = np.zeros((200, 4), np.float32)
    greedy, _ = agent.predict(observation)
    explored, _ = agent.predict(observation, deterministic=False)
    assert np.array_equal(explored, greedy)
    new = DQN("CartPole-v1", seed=1, num_envs=2, **given)
    assert len(set(new.predict(observation, deterministic=False)[0].tolist())) == 2
    assert np.array_equal(agent.evaluate(2, stochastic=True).returns, agent.evaluate(2).returns)


def test_q_learning_says_which_actions_it_needs():
    with pytest.raises(UsageError, match="choose ppo or a2c"):
        DQN("Pendulum-v1")
    with pytest.raises(UsageError, match="choose ppo or a2c"):
        R2D1("MountainCarContinuous-v0").predict(np.zeros(2))
