"""The facade: a run in a line, and an agent that is saved, loaded and learned on with."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from small_agents import short
from small_runs import stopped_at

import rlpyt
from rlpyt import (
    A2C,
    D4PG,
    DDPG,
    DQN,
    PPO,
    R2D1,
    SAC,
    TD3,
    UsageError,
    checkpoint,
    memory_budget,
)
from rlpyt.api import load
from rlpyt.build import build
from rlpyt.folder import RunFolder
from rlpyt.generators import generators
from rlpyt.training import resume
from tests.toys import CountEnv

REPLAY = {"horizon": 4, "learning_starts": 200, "replay_size": 1000, "batch_size": 8}
SEQUENCES = {"burn_in": 2, "train_rows": 4, "state_interval": 2, "memory": "gru"}


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


def test_the_best_of_a_run_that_was_never_evaluated_is_not_the_newest():
    agent = short(eval_episodes=0)
    with pytest.raises(UsageError, match="no best checkpoint: no evaluation chose one"):
        load(agent.folder, best=True)
    with pytest.raises(UsageError, match="saved alone; leave out best"):
        load(agent.save("saved"), best=True)
    evaluated = short(eval_episodes=1)
    assert load(evaluated.folder, best=True).env_steps == evaluated.env_steps
    assert load(evaluated.folder / "checkpoints" / "best").env_steps == evaluated.env_steps


def test_what_is_no_run_does_not_go_on():
    alone = A2C("CartPole-v1", seed=1).save("alone")
    with pytest.raises(UsageError, match="alone: a saved agent has neither .*init_from=alone"):
        resume(alone, env_steps=1000, mode="quiet")
    checkpoint = next((short(eval_episodes=0).folder / "checkpoints").glob("0*"))
    with pytest.raises(UsageError, match=r"no run.json; give runs/[^/]*, whose newest checkpoint"):
        resume(checkpoint, env_steps=1000, mode="quiet")


def test_an_agent_may_be_saved_into_a_folder_of_checkpoints():
    agent = A2C("CartPole-v1", seed=1)
    observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
    for path in ("checkpoints/mine", "checkpoints/000000000600"):
        saved = load(agent.save(path))
        assert (
            saved.folder is None and saved.predict(observation)[0] == agent.predict(observation)[0]
        )


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


def test_a_way_of_showing_that_there_is_not_is_refused_before_a_run_begins():
    agent = A2C("CartPole-v1", seed=1)
    with pytest.raises(UsageError, match=r"mode='quite' must be one of .*did you mean quiet\?"):
        agent.learn(100, mode="quite")
    assert not Path("runs").exists()


def test_numbers_of_steps_may_be_numpys_or_written_with_an_exponent():
    agent = short(eval_episodes=0)
    for steps in (np.int64(50), 1e2):
        assert agent.learn(steps, mode="quiet").env_steps > 600
        assert isinstance(RunFolder(agent.folder).read()["options"]["loop"]["env_steps"], int)


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


def test_a_saved_agent_answers_alike_and_holds_no_pickle():
    agent = short(PPO, minibatch_size=32, normalize_observation=True)
    observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
    agent.save("saved")
    assert {path.suffix for path in Path("saved").iterdir()} == {".json", ".safetensors"}
    other = PPO.load("saved")
    assert other.run == agent.run
    assert other.env_steps == agent.env_steps
    many = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(other.predict(many)[0], agent.predict(many)[0])
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    assert other.predict(observation)[0] == agent.predict(observation)[0]
    with pytest.raises(UsageError, match="neither optimizer nor schedules"):
        other.learn(100)
    with pytest.raises(UsageError, match="use PPO.load"):
        A2C.load("saved")


def test_a_runs_folder_is_loaded_and_learned_on():
    agent = short()
    other = load(agent.folder, env=None)
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    other.learn(200, mode="quiet")
    assert other.folder == agent.folder
    assert other.env_steps > agent.env_steps


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DQN, {"values": "implicit", "dueling": True, "noisy": True, "num_fractions": 4}),
        (R2D1, SEQUENCES),
        (DDPG, {"exploration": "ou"}),
        (TD3, {"normalize_observation": True}),
        (SAC, {"critics": 4}),
        (SAC, {**SEQUENCES, "read_previous": False}),
        (D4PG, {"n_step": 3}),
    ],
)
def test_what_learns_from_a_replay_learns_on_answers_and_is_saved(kind, options):
    continuous = kind not in (DQN, R2D1)
    env = "Pendulum-v1" if continuous else "CartPole-v1"
    small = {"replay_ratio": 4.0} if continuous else {}
    agent = short(kind, env, **REPLAY, **{**small, **options})
    assert agent.learn(200, mode="quiet").env_steps >= 800
    other = load(agent.save("saved"))
    assert type(other) is kind
    assert other.run == agent.run
    many = np.random.default_rng(0).normal(size=(50, 3 if continuous else 4)).astype(np.float32)
    assert np.array_equal(other.predict(many)[0], agent.predict(many)[0])
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    again = kind.load(agent.folder)
    assert np.array_equal(again.evaluate(2).returns, agent.evaluate(2).returns)


@pytest.mark.parametrize("kind", [DQN, R2D1])
def test_a_saved_agent_needs_no_memory_for_the_replay_that_it_learned_from(kind, monkeypatch):
    """An array of its size could not even be asked for, and this machine refuses any replay."""
    agent = short(kind, **REPLAY, **(SEQUENCES if kind is R2D1 else {}))
    expected = agent.evaluate(2).returns
    monkeypatch.setattr(memory_budget, "available_bytes", lambda root: 1000)
    for folder in (agent.folder, agent.save("saved")):
        other = load(folder, replay_size=10**15, env_steps=10**15)
        assert np.array_equal(other.evaluate(2).returns, expected)
        other.predict(np.zeros(4, np.float32))
        other.save("again")
        with pytest.raises(UsageError, match="1,000 .* are available"):  # the control
            build(other.run)


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


def test_saving_deletes_nothing_but_an_agent_that_was_saved(tmp_path):
    agent = short()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for taken in (tmp_path / "mine", agent.folder, agent.folder / "run.json"):
        with pytest.raises(UsageError, match="is no saved agent"):
            agent.save(taken)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert load(agent.folder).env_steps == agent.env_steps
    agent.save(tmp_path / "new")
    assert load(agent.save(tmp_path / "new")).env_steps == agent.env_steps


def test_a_run_starts_from_a_saved_agent_or_a_checkpoint(tmp_path):
    agent = short()
    saved = agent.save(tmp_path / "saved")
    for source in (saved, agent.folder, next((agent.folder / "checkpoints").glob("0*"))):
        A2C("CartPole-v1", init_from=source, seed=np.int64(1)).learn(100, mode="quiet")
    with pytest.raises(UsageError, match="does not fit"):
        A2C("CartPole-v1", init_from=saved, hidden_sizes=[8]).learn(100, mode="quiet")
    with pytest.raises(UsageError, match="does not fit"):
        A2C.load(saved, hidden_sizes=[8]).predict(np.zeros(4))


def test_what_is_no_agent_is_refused():
    with pytest.raises(UsageError, match="is no run"):
        load("nowhere")


def test_all_spaces_survive_saving():
    from gymnasium import spaces

    from rlpyt.envs.saved_spaces import decode, encode
    from rlpyt.tree_format import decode as read
    from rlpyt.tree_format import encode as write

    every = spaces.Dict(
        {
            "box": spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float64),
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "choice": spaces.Discrete(3, start=-1),
            "choices": spaces.MultiDiscrete([[2, 3], [4, 5]]),
            "bits": spaces.MultiBinary((2, 3)),
            "pair": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(4)]),
        }
    )
    assert decode(read(*write(encode(every)))) == every
