"""An agent learns on as itself, in the run and the environment it was in, or not at all."""

import numpy as np
import pytest
from small_agents import short
from small_runs import stopped_at

from rlpyt import A2C, UsageError, checkpoint
from rlpyt.api import load
from rlpyt.folder import RunFolder
from rlpyt.training import resume
from tests.toys import CountEnv


def test_learning_again_goes_on_with_the_same_run():
    agent = short()
    folder, done = agent.folder, agent.env_steps
    agent.learn(500, mode="quiet")
    assert agent.folder == folder
    assert agent.env_steps >= done + 500


def test_a_script_is_told_that_a_signal_ended_learning():
    agent = A2C("CartPole-v1", seed=1, num_envs=2, eval_episodes=0)
    assert agent.status == ""
    agent.learn(600, hooks=stopped_at(3), mode="quiet")
    assert agent.status == "interrupted" and agent.env_steps < 600
    assert agent.learn(mode="quiet").status == "finished" and agent.env_steps >= 600


def test_learning_again_goes_on_in_environments_of_a_factory():
    agent = short(env=lambda: CountEnv(7))
    done = agent.env_steps
    assert agent.learn(500, mode="quiet").env_steps >= done + 500
    loaded = A2C.load(agent.folder, env=lambda: CountEnv(7))
    assert loaded.learn(100, mode="quiet").env_steps >= agent.env_steps + 100


def test_an_agent_that_was_loaded_with_other_options_does_not_learn_on_without_them():
    agent = short()
    other = load(agent.folder, lr=0.5, device=None, eval_max_steps=7)
    assert other.run.algo.lr == 0.5 and other.evaluate(2).lengths.max() <= 16
    with pytest.raises(UsageError, match="load was given lr, eval_max_steps"):
        other.learn(100, mode="quiet")
    assert load(agent.folder, device=None).learn(100, mode="quiet").env_steps > agent.env_steps


def test_an_agent_of_a_checkpoint_that_its_run_left_behind_does_not_learn_on_as_another():
    agent = short()
    agent.learn(200, mode="quiet")
    older, newest = sorted((agent.folder / "checkpoints").glob("0*"))
    assert load(older).env_steps < load(newest).env_steps == agent.env_steps
    with pytest.raises(UsageError, match="init_from=the checkpoint of this agent"):
        load(older).learn(10_000, mode="quiet")
    assert load(newest).learn(100, mode="quiet").env_steps > agent.env_steps


def test_an_agent_whose_run_went_on_since_it_was_loaded_does_not_learn_on_as_another():
    agent = short()
    one, other = load(agent.folder), load(agent.folder)
    one.learn(200, mode="quiet")
    for steps in (100, 1000, None):
        with pytest.raises(UsageError, match=f"its run went on from there, to {one.env_steps:,}"):
            other.learn(steps, mode="quiet")
    assert one.learn(100, mode="quiet").env_steps > other.env_steps  # control


@pytest.mark.filterwarnings("ignore:.*trying the checkpoint before it")
def test_an_agent_learns_on_from_the_checkpoint_before_one_that_is_damaged():
    agent = short(checkpoint_interval=200)
    newest = checkpoint.latest(agent.folder / "checkpoints")
    (newest / "meta.json").write_bytes(b"")
    before = load(agent.folder)
    assert before.env_steps < agent.env_steps
    assert before.learn(800, mode="quiet").env_steps > agent.env_steps


def test_a_run_does_not_go_on_in_another_environment():
    """Of the same form; the agent of it plays there all the same."""
    agent = short()
    other = load(agent.folder, env="CartPole-v0")
    assert other.run.env.env == "CartPole-v0" and len(other.evaluate(1).returns) == 1
    with pytest.raises(UsageError, match="began with CartPole-v1, .*init_from=its folder"):
        other.learn(100, mode="quiet")
    assert load(agent.folder, env="CartPole-v1").learn(100, mode="quiet").env_steps > 600


def test_what_is_no_run_does_not_go_on():
    alone = A2C("CartPole-v1", seed=1).save("alone")
    with pytest.raises(UsageError, match="alone: a saved agent has neither .*init_from=alone"):
        resume(alone, env_steps=1000, mode="quiet")
    checkpoint = next((short(eval_episodes=0).folder / "checkpoints").glob("0*"))
    with pytest.raises(UsageError, match=r"no run.json; give runs/[^/]*, whose newest checkpoint"):
        resume(checkpoint, env_steps=1000, mode="quiet")


def test_fewer_than_one_step_or_episode_is_refused():
    agent = short()
    for steps in (0, -5):
        with pytest.raises(UsageError, match=f"env_steps={steps} must be at least 1"):
            agent.learn(steps, mode="quiet")
    with pytest.raises(UsageError, match="episodes=0 must be at least 1"):
        agent.evaluate(0)
    for steps in (0.5, "100", True):
        with pytest.raises(UsageError, match="env_steps=.* must be a whole number"):
            agent.learn(steps, mode="quiet")
        with pytest.raises(UsageError, match="env_steps=.* must be a whole number"):
            resume(agent.folder, env_steps=steps, mode="quiet")


def test_numbers_of_steps_may_be_numpys_or_written_with_an_exponent():
    agent = short(eval_episodes=0)
    for steps in (np.int64(50), 1e2):
        assert agent.learn(steps, mode="quiet").env_steps > 600
        assert isinstance(RunFolder(agent.folder).read()["options"]["loop"]["env_steps"], int)


def test_a_runs_folder_is_loaded_and_learned_on():
    agent = short()
    other = load(agent.folder, env=None)
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    other.learn(200, mode="quiet")
    assert other.folder == agent.folder
    assert other.env_steps > agent.env_steps
